"""`fleet tasks`: a table of running tasks, and why others are waiting."""

import time

import click

from fleet.actions.control.outlook import Outlook, Reason, outlook
from fleet.actions.worktrees.agents import RunningAgent, running
from fleet.actions.worktrees.strays import strays_unwatched
from fleet.assembly import open_fleet
from fleet.cli import tables
from fleet.cli.errors import heed_reader
from fleet.cli.options import with_json, with_limit
from fleet.cli.tables import NOTHING, StyledText, cost, count, duration, instant, percent
from fleet.cli.text import clean
from fleet.core.jsontext import encode_printable
from fleet.home import find

HEADS = (
    *("ID", "Run", "Started", "Elapsed", "Idle", "Context", "Events", "Tokens", "Cost"),
    *("Coder", "Model", "Title", "Cwd"),
)
#: Columns that a narrow screen omits, the least important first.
DROP = ("Cwd", "Started", "Events", "Model", "Tokens", "Context", "Run", "Idle", "Coder")
NUMBERS = ("Run", "Elapsed", "Idle", "Context", "Events", "Tokens", "Cost")


@click.command()
@click.option("-w", "--watch", is_flag=True, help="Refresh every second until you press Ctrl-C.")
@with_limit("tasks")
@click.option("--wide", is_flag=True, help="Show all columns, even on a narrow screen.")
@with_json
def tasks(watch: bool, limit: int, wide: bool, as_json: bool) -> None:
    """Show running tasks: their time, context, cost, coder and model.

    Values set by the task are bold; values inherited from settings are dim.
    """
    with tables.live_view(watch and not as_json) as begin_frame:
        while True:
            with open_fleet(find()) as fleet:
                rows, ahead, unlisted = running(fleet), outlook(fleet), strays_unwatched(fleet)
            if as_json:
                click.echo(encode_printable([row.view() for row in _first(rows, limit)], None if watch else 2))
                remarks = [clean(line) for line in unlisted]
            else:
                begin_frame()
                _print(_first(rows, limit), wide=wide)
                remarks = _remarks(rows, ahead, limit, unlisted)
            if remarks:
                click.echo("\n".join(remarks), err=True)
            if not watch:
                return
            heed_reader()
            time.sleep(1)


def _print(rows: list[RunningAgent], *, wide: bool) -> None:
    """Print the table of these tasks. A narrow screen omits some columns."""
    if rows:
        below = list(map(_below, rows))
        cut, drop = ("Cwd", "Title"), () if wide else DROP
        tables.show(HEADS, list(map(_cells, rows)), right=NUMBERS, cut=cut, drop=drop, below=below)


def _below(row: RunningAgent) -> str:
    if row.is_lost:
        return "its processes are gone: the next supervisor ends this run"
    words = tables.planned_stop(row.run, row.now) if row.run else ""
    return f"silent: {words}" if words else ""


def _cells(row: RunningAgent) -> tuple[str | StyledText, ...]:
    task, run, spent = row.task, row.run, row.spent
    return (
        StyledText(task.id, fg="cyan"),
        str(run.number) if run else NOTHING,
        instant(row.started_at),
        duration(row.elapsed_seconds),
        duration(row.idle_seconds),
        percent(row.context_percent, estimated=run is not None and run.context_is_estimated),
        count(run.events if run else None),
        count(spent.tokens if spent else None),
        cost(spent.cost_usd, spent.cost_basis) if spent else NOTHING,
        _own(row.coder, bool(task.coder)),
        _own(row.model or "its own", bool(task.model)),
        task.title,
        task.cwd or "its own",
    )


def _own(text: str, is_own: bool) -> StyledText:
    return StyledText(text, bold=is_own, dim=not is_own)


def _first(rows: list[RunningAgent], limit: int) -> list[RunningAgent]:
    return rows[:limit] if limit else rows


def heading(cause: Reason, *, running: bool) -> str:
    """Return the words before a reason: nothing starts, nothing more, or only some tasks wait."""
    return "some tasks wait" if cause.is_partial else f"nothing {'more ' if running else ''}starts"


def _remarks(rows: list[RunningAgent], ahead: Outlook, limit: int, unlisted: list[str]) -> list[str]:
    hidden = len(rows) - len(_first(rows, limit))
    lines = [f"{hidden} more; --limit 0 shows all"] if hidden else []
    later = f", {ahead.later} put off" if ahead.later else ""
    lost = sum(row.is_lost for row in rows)
    counts = f"{len(rows) - lost} running, {ahead.ready} ready{later}" + (f", {lost} lost" if lost else "")
    counts += f", {ahead.waiting} waiting for others, {ahead.blocked} blocked"
    some = rows or ahead.ready or ahead.later or ahead.waiting or ahead.blocked
    lines.append(counts if some else "nothing is running or waiting")
    lines += [clean(line) for line in unlisted]
    lines += [f"{heading(each, running=bool(rows))}: {clean(str(each))}" for each in ahead.causes]
    if ahead.blocked:
        lines.append("run `fleet status` for what needs you, `fleet bd list --status blocked` for all blocked tasks")
    return lines
