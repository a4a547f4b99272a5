"""`fleet tasks`: a table of the tasks under way, and why no more of them are."""

import time

import click
from rich.live import Live
from rich.table import Table
from rich.text import Text

from fleet.actions.agents import Running, running
from fleet.actions.outlook import Outlook, outlook
from fleet.actions.strays import strays_unwatched
from fleet.assembly import open_fleet
from fleet.cli.amounts import NOTHING, cost, count, duration, instant, percent
from fleet.cli.bd.text import clean
from fleet.cli.errors import heed_reader
from fleet.cli.tables import cell, console, show, table
from fleet.core.jsontext import encode_printable
from fleet.home import find

COLUMNS = (
    *("ID", "Started", "Elapsed", "Idle", "Context", "Events", "Tokens", "Cost"),
    *("Coder", "Model", "Title", "Cwd"),
)
WIDE_ENOUGH = 110
NARROW = ("Started", "Events", "Cwd")
NUMBERS = ("Elapsed", "Idle", "Context", "Events", "Tokens", "Cost")


@click.command()
@click.option("-w", "--watch", is_flag=True, help="Show it anew every second, until you press Ctrl-C.")
@click.option("--limit", "-n", type=click.IntRange(min=0), default=100, show_default=True, help="How many; 0 is all.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def tasks(watch: bool, limit: int, as_json: bool) -> None:
    """Show the tasks under way: how long, how full, how dear, by which coder and model.

    What a task says itself is bold; what it inherits from settings is dim.
    """
    if watch and not as_json and console().is_terminal:
        return _watch(limit)
    while True:
        with open_fleet(find()) as fleet:
            rows, ahead, unlisted = running(fleet), outlook(fleet), strays_unwatched(fleet)
        if as_json:
            click.echo(encode_printable([row.view() for row in _first(rows, limit)], None if watch else 2))
            remarks = [clean(line) for line in unlisted]
        else:
            _print(rows, limit)
            remarks = _remarks(rows, ahead, limit, unlisted)
        if remarks:
            click.echo("\n".join(remarks), err=True)
        if not watch:
            return None
        heed_reader()
        time.sleep(1)


def drawn(rows: list[Running], width: int) -> Table:
    """The table of these tasks; on a narrow screen the least telling columns are left out."""
    left_out = NARROW if width < WIDE_ENOUGH else ()
    made = table(*(name for name in COLUMNS if name not in left_out), right=NUMBERS, wide=("Title", "Cwd"))
    for row in rows:
        made.add_row(*(value for name, value in zip(COLUMNS, _cells(row), strict=True) if name not in left_out))
    return made


def _cells(row: Running) -> tuple[str | Text, ...]:
    task, run = row.task, row.run
    return (
        cell(task.id, "cyan"),
        instant(row.started_at),
        duration(row.elapsed_seconds),
        duration(row.idle_seconds),
        percent(row.context_percent, estimated=run is not None and run.context_is_estimated),
        count(run.events if run else None),
        count(run.tokens if run else None),
        cost(run.cost_usd, run.cost_basis) if run else NOTHING,
        cell(row.coder, "bold" if task.coder else "dim"),
        cell(row.model or "its own", "bold" if task.model else "dim"),
        cell(task.title, cut=True),
        cell(task.cwd or "its own", cut=True),
    )


def _watch(limit: int) -> None:
    with open_fleet(find()) as fleet, Live(console=console(), auto_refresh=False) as live:
        while True:
            rows, ahead = running(fleet), outlook(fleet)
            made = drawn(_first(rows, limit), live.console.width)
            remarks = _remarks(rows, ahead, limit, strays_unwatched(fleet))
            made.caption, made.caption_justify = "\n".join(remarks), "left"
            live.update(made, refresh=True)
            heed_reader()
            time.sleep(1)


def _print(rows: list[Running], limit: int) -> None:
    if rows:
        show(drawn(_first(rows, limit), console().width))


def _first(rows: list[Running], limit: int) -> list[Running]:
    return rows[:limit] if limit else rows


def _remarks(rows: list[Running], ahead: Outlook, limit: int, unlisted: list[str]) -> list[str]:
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
        lines.append("`fleet questions` lists what agents ask; `fleet bd list --status blocked` all that need you")
    return lines
