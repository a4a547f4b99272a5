"""`fleet queue` and `fleet hosts`: where tasks are kept, and the hosts that share them."""

import os
import sys

import click

from fleet.actions.control import hosts as sharing
from fleet.actions.control import queue_move
from fleet.actions.control.hosts import HostState, HostView
from fleet.assembly import open_fleet
from fleet.cli import person
from fleet.cli.tables import NOTHING, instant, show
from fleet.cli.text import clean
from fleet.core.errors import BadInput, QueueMoved
from fleet.core.filter import Filter
from fleet.core.jsontext import encode_printable
from fleet.home import find
from fleet.settings.queue import choose_queue, refuse_password

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
    kind = choose_queue(home, os.environ).kind
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
    now = choose_queue(home, os.environ)
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


COLUMNS = ("Name", "State", "Slots", "Agents", "Load", "Labels", "Last seen")


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def hosts(ctx: click.Context, as_json: bool) -> None:
    """Show the hosts that share this queue: slots, agents, load, labels, and when each was last seen.

    `fleet run` registers the host on which it runs. Describe the host with `--name`, `--labels` and `--slots`, or under
    [host] in runtime.toml.
    """
    if ctx.invoked_subcommand:
        return
    with open_fleet(find()) as fleet:
        found = sharing.hosts(fleet)
    if as_json:
        click.echo(encode_printable([each.view() for each in found], 2))
    elif found:
        _list(found)
    else:
        click.echo("no host has used this queue yet; run `fleet run` to register this machine", err=True)


@hosts.command()
@click.argument("name", metavar="NAME")
def drain(name: str) -> None:
    """Stop giving tasks to a host. Its current tasks continue to their end."""
    with open_fleet(find()) as fleet:
        found = sharing.drain(fleet, name, caller=person.caller(fleet))
    left = f", with {len(found.held)} tasks to finish" if found.held else ""
    click.echo(f"{clean(found.host.name)} is {found.state}{left}; run `fleet hosts undrain {clean(name)}` to undo")


@hosts.command()
@click.argument("name", metavar="NAME")
def undrain(name: str) -> None:
    """Let a host take tasks again."""
    with open_fleet(find()) as fleet:
        found = sharing.undrain(fleet, name, caller=person.caller(fleet))
    gone = f"; it was last seen at {instant(found.host.seen_at)}" if found.state == HostState.GONE else ""
    click.echo(f"{clean(found.host.name)} may take tasks{gone}")


@hosts.command()
@click.argument("name", metavar="NAME")
def forget(name: str) -> None:
    """Remove a host that is gone for good. fleet refuses while the host works or holds tasks."""
    with open_fleet(find()) as fleet:
        found = sharing.forget(fleet, name, caller=person.caller(fleet))
    click.echo(f"{clean(found.name)} is forgotten")


def _list(found: list[HostView]) -> None:
    rows = []
    for each in found:
        host, is_gone = each.host, each.state == HostState.GONE
        rows.append(
            (
                f"{host.name} (this one)" if each.is_this else host.name,
                f"{each.state}, drained" if is_gone and host.drained_at else each.state,
                NOTHING if is_gone else str(host.slots),
                str(len(each.held)),
                NOTHING if is_gone else f"{host.load:.2f}",
                ", ".join(host.shown_labels) or NOTHING,
                f"last seen at {instant(host.seen_at)}" if is_gone else instant(host.seen_at),
            )
        )
    show(COLUMNS, rows, right=("Slots", "Agents", "Load"), cut=["Labels"])
    for name in sorted({each.host.name for each in found}):
        ids = [each.host.id for each in found if each.host.name == name]
        if len(ids) > 1:
            words = "a task that requires this name may run on any of them; run `fleet hosts forget ID` to remove one"
            click.echo(f"{len(ids)} hosts are called {clean(name)}: {clean(', '.join(ids))}; {words}", err=True)
