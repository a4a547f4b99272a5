"""`fleet task` and `fleet log`: print a part of a task's record, or the supervisor's log."""

from collections.abc import Iterable

import click

from fleet.actions.control.fetch import elsewhere_events
from fleet.actions.control.reading import PARTS, follow, newest_log, part, text_of
from fleet.actions.tasks.names import find_task
from fleet.actions.tasks.runs import task_home
from fleet.actions.worktrees.agents import running
from fleet.assembly import Fleet, open_fleet
from fleet.cli import person
from fleet.cli.bd.text import clean, shown
from fleet.cli.errors import heed_reader
from fleet.core.errors import FleetError
from fleet.home import find


class WithRunning(click.Command):
    """A command whose help lists the running tasks, so that their ids are at hand."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the running tasks, each with its coder and model, or "nothing"."""
        try:
            with open_fleet(find()) as fleet:
                rows = running(fleet)
        except FleetError:
            rows = []
        with formatter.section("Running now"):
            named = [(row.task.id, f"[{row.coder}/{row.model or 'its own'}] {clean(row.task.title)}") for row in rows]
            formatter.write_dl(named) if named else formatter.write_text("nothing")


@click.command(cls=WithRunning)
@click.argument("task_id", metavar="ID")
@click.argument("what", type=click.Choice(list(PARTS)))
@click.option("-f", "--follow", "to_follow", is_flag=True, help="Continue printing new output until the task finishes.")
@click.option("-n", "--lines", type=click.IntRange(min=1), metavar="N", help="Print only the last N lines.")
def task(task_id: str, what: str, to_follow: bool, lines: int | None) -> None:
    """Print one part of a task's record. If a file is very large, print only its end."""
    with open_fleet(find()) as fleet:
        key = find_task(fleet, task_id, scope=person.scope())
        if (far := elsewhere_events(fleet, key, what)) is not None:
            write([far])
            return
        place = part(task_home(fleet, key), key, what)
        write(follow(place, lambda: _is_over(fleet, key), lines=lines) if to_follow else text_of(place, lines=lines))


def write(pieces: Iterable[str]) -> None:
    """Print untrusted text, piece by piece."""
    last = "\n"
    for piece in pieces:
        last = piece[-1:]
        click.echo(shown(piece), nl=False)
        heed_reader()
    if last != "\n":
        click.echo()


def _is_over(fleet: Fleet, key: str) -> bool:
    found = fleet.store.tasks.get(key)
    return found.is_at_rest


@click.command()
@click.argument("lines", metavar="[N]", type=click.IntRange(min=1), required=False)
@click.option("-f", "--follow", "to_follow", is_flag=True, help="Continue printing new output until you press Ctrl-C.")
def log(lines: int | None, to_follow: bool) -> None:
    """Print the supervisor's most recent log, or its last N lines."""
    home = find()
    home.check()
    place = newest_log(home)
    write(follow(place, lambda: False, lines=lines) if to_follow else text_of(place, lines=lines))
