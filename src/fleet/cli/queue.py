"""`fleet queue`: show where tasks are kept, and move them elsewhere."""

import os
import sys

import click

from fleet.actions.control import queue_move
from fleet.assembly import open_fleet
from fleet.cli import person
from fleet.core.errors import BadInput, QueueMoved
from fleet.core.filter import Filter
from fleet.core.jsontext import encode_printable
from fleet.home import find
from fleet.settings.queue import chosen, refuse_password

LONGEST = 4096


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def queue(ctx: click.Context, as_json: bool) -> None:
    """Show where the tasks of this home are stored: in its own file, in PostgreSQL or in beads."""
    if ctx.invoked_subcommand:
        return
    home = find()
    with open_fleet(home) as fleet:
        counts = fleet.store.tasks.count(Filter(), by="status")
        shared, moved = fleet.store.is_shared, fleet.store.was_moved()
    kind = chosen(home, os.environ).kind
    told = {"kind": kind, "shared": shared, "moved": moved, "tasks": sum(counts.values()), "statuses": counts}
    if as_json:
        click.echo(encode_printable(told, 2))
        return
    states = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "none"
    click.echo(f"{kind}: {told['tasks']} tasks ({states})")
    if moved:
        click.echo(f"{QueueMoved()}; {QueueMoved.hint}")
    else:
        click.echo("hosts share it: see `fleet hosts`" if shared else "only this home uses it")


@queue.command()
@click.argument("places", metavar="[FROM] TO", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Report what would be moved; change nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def migrate(places: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    """Move all tasks to another kind of queue.

    Dependencies, comments, labels and history move too. FROM and TO are sqlite, beads or postgresql://…; - reads the
    address from stdin, so that no process list shows it. [default for FROM: the current queue] fleet copies and
    compares everything before the home switches to the new queue. The old queue stays unchanged and sealed. To
    continue a move that was killed, run the command again.
    """
    if len(places) > 2:
        raise BadInput("too many arguments", hint="fleet queue migrate [FROM] TO")
    home = find()
    home.require()
    now = chosen(home, os.environ)
    said = [_read(each) for each in places]
    source, target = (now.url or now.kind, *said) if len(said) == 1 else said

    def tell(table: str, count: int) -> None:
        if not as_json:
            click.echo(f"{table}: {count} more", err=True)

    moved = queue_move.migrate(home, source, target, tell=tell, dry_run=dry_run, caller=person.calling(home))
    if as_json:
        click.echo(encode_printable(moved.view(), 2))
        return
    for name, found in moved.contents.items():
        if found.rows:
            click.echo(f"{found.rows:>8} {name}")
    if moved.aside:
        click.echo(f"the previous contents are kept: {moved.aside}")
    word = "would go" if dry_run else "went, each compared,"
    if moved.remark:
        click.echo(moved.remark, err=True)
    click.echo(f"they {word} from {moved.source} to {moved.target}")


def _read(place: str) -> str:
    if place == "-":
        return sys.stdin.readline(LONGEST).strip()
    refuse_password(place, hint="pass - instead and write the address to stdin")
    return place
