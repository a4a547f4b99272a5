"""`fleet tasks`: a table of running tasks, and why others are waiting."""

import time

import click

from fleet.actions.control.outlook import Outlook, outlook
from fleet.actions.worktrees.agents import RunningAgent, running
from fleet.actions.worktrees.strays import strays_unwatched
from fleet.assembly import open_fleet
from fleet.cli import tables
from fleet.cli.bd.text import clean
from fleet.cli.errors import heed_reader
from fleet.cli.options import with_json, with_limit
from fleet.cli.tables import NOTHING, StyledText, cost, count, duration, instant, percent
from fleet.core.jsontext import encode_printable
from fleet.home import find

HEADS = (
    *("ID", "Started", "Elapsed", "Idle", "Context", "Events", "Tokens", "Cost"),
    *("Coder", "Model", "Title", "Cwd"),
)
WIDE_ENOUGH = 110
#: Columns that a narrow screen omits.
LEAST_TELLING = ("Started", "Events", "Cwd")
NUMBERS = ("Elapsed", "Idle", "Context", "Events", "Tokens", "Cost")


@click.command()
@click.option("-w", "--watch", is_flag=True, help="Refresh every second until you press Ctrl-C.")
@with_limit("tasks")
@with_json
def tasks(watch: bool, limit: int, as_json: bool) -> None:
    """Show running tasks: their time, context, cost, coder and model.

    Values set by the task are bold; values inherited from settings are dim.
    """
    while True:
        with open_fleet(find()) as fleet:
            rows, ahead, unlisted = running(fleet), outlook(fleet), strays_unwatched(fleet)
        if as_json:
            click.echo(encode_printable([row.view() for row in _first(rows, limit)], None if watch else 2))
            remarks = [clean(line) for line in unlisted]
        else:
            if watch:
                click.clear()
            _print(_first(rows, limit))
            remarks = _remarks(rows, ahead, limit, unlisted)
        if remarks:
            click.echo("\n".join(remarks), err=True)
        if not watch:
            return
        heed_reader()
        time.sleep(1)


def _print(rows: list[RunningAgent]) -> None:
    """Print the table of these tasks. A narrow screen omits some columns."""
    if not rows:
        return
    left_out = LEAST_TELLING if 0 < tables.screen() < WIDE_ENOUGH else ()
    at = [number for number, head in enumerate(HEADS) if head not in left_out]
    cells = [[found[number] for number in at] for found in map(_cells, rows)]
    heads = [HEADS[number] for number in at]
    tables.show(heads, cells, right=NUMBERS, cut=[head for head in ("Cwd", "Title") if head in heads])


def _cells(row: RunningAgent) -> tuple[str | StyledText, ...]:
    task, run = row.task, row.run
    return (
        StyledText(task.id, fg="cyan"),
        instant(row.started_at),
        duration(row.elapsed_seconds),
        duration(row.idle_seconds),
        percent(row.context_percent, estimated=run is not None and run.context_is_estimated),
        count(run.events if run else None),
        count(run.tokens if run else None),
        cost(run.cost_usd, run.cost_basis) if run else NOTHING,
        _own(row.coder, bool(task.coder)),
        _own(row.model or "its own", bool(task.model)),
        task.title,
        task.cwd or "its own",
    )


def _own(text: str, is_own: bool) -> StyledText:
    return StyledText(text, bold=is_own, dim=not is_own)


def _first(rows: list[RunningAgent], limit: int) -> list[RunningAgent]:
    return rows[:limit] if limit else rows


def _remarks(rows: list[RunningAgent], ahead: Outlook, limit: int, unlisted: list[str]) -> list[str]:
    hidden = len(rows) - len(_first(rows, limit))
    lines = [f"{hidden} more; --limit 0 shows all"] if hidden else []
    later = f", {ahead.later} put off" if ahead.later else ""
    counts = f"{len(rows)} running, {ahead.ready} ready{later}"
    counts += f", {ahead.waiting} waiting for others, {ahead.blocked} blocked"
    some = rows or ahead.ready or ahead.later or ahead.waiting or ahead.blocked
    lines.append(counts if some else "nothing is running or waiting")
    lines += [clean(line) for line in unlisted]
    lines += [f"nothing {'more ' if rows else ''}starts: {clean(reason)}" for reason in ahead.reasons]
    if ahead.blocked:
        lines.append("run `fleet questions` for open questions, `fleet bd list --status blocked` for all blocked tasks")
    return lines
