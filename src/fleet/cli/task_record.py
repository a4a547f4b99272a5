"""`fleet task`: print a part of a task's record."""

from collections.abc import Iterable

import click

from fleet.actions.control.fetch import elsewhere_events
from fleet.actions.control.home_files import PARTS, follow, part, text_of
from fleet.actions.tasks.names import find_task
from fleet.actions.tasks.runs import task_home
from fleet.actions.worktrees.agents import running
from fleet.assembly import Fleet, open_fleet
from fleet.cli import person
from fleet.cli.errors import heed_reader
from fleet.cli.options import complete
from fleet.cli.tasks import show
from fleet.cli.text import clean, shown
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
@click.argument("task_id", metavar="ID", shell_complete=complete("names"))
@click.argument("what", metavar=f"[{'|'.join(PARTS)}]", type=click.Choice(list(PARTS)), required=False)
@click.option("-f", "--follow", "to_follow", is_flag=True, help="Continue printing new output until the task finishes.")
@click.option("-n", "--lines", type=click.IntRange(min=1), metavar="N", help="Print only the last N lines.")
@click.pass_context
def task(context: click.Context, task_id: str, what: str | None, to_follow: bool, lines: int | None) -> None:
    """Print one part of a task's record. If a file is very large, print only its end.

    Without the name of a part, show the task, as `fleet show ID` does.
    """
    if what is None:
        context.invoke(show, task_id=task_id, as_json=False)
        return
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
