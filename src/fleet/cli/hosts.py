"""`fleet hosts`: list the hosts that share this queue, and drain or forget one."""

import click

from fleet.actions.control import hosts as sharing
from fleet.actions.control.hosts import HostState, HostView
from fleet.assembly import open_fleet
from fleet.cli import person
from fleet.cli.bd.text import clean
from fleet.cli.tables import NOTHING, instant, show
from fleet.core.jsontext import encode_printable
from fleet.home import find

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
