"""`fleet run`: the supervisor, in the foreground or in the background."""

import functools
from collections.abc import Callable
from typing import Any

import click

from fleet.actions import control, homes
from fleet.actions.rights import refuse_agents
from fleet.cli import person
from fleet.cli.bd.text import clean
from fleet.cli.foreground import supervise
from fleet.core.jsontext import encode_printable
from fleet.home import find


def with_told(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that override the settings, passed as `told`.

    Those given to `fleet run` hold for its subcommands.
    """
    options = (
        click.option("--coder", help="The default coder of this supervisor, over the settings' own."),
        click.option("--name", metavar="NAME", help="What this host is called; the machine's name unless said."),
        click.option("--labels", metavar="LABEL,…", help="What this host offers to tasks that require it."),
        click.option("--listen", metavar="HOST:PORT", help="Where other hosts are answered about logs of runs here."),
        click.option("--slots", type=click.IntRange(1, 1000), help="How many agents may work here at the same time."),
    )

    @functools.wraps(command)
    def called(**given: Any) -> Any:
        context = click.get_current_context()
        said = {name: given.pop(name) for name in ("coder", "name", "labels", "listen", "slots")}
        context.obj = (context.obj or {}) | {name: value for name, value in said.items() if value is not None}
        return command(told=context.obj, **given)

    return functools.reduce(lambda made, option: option(made), reversed(options), called)


@click.group(invoke_without_command=True)
@with_told
def run(told: dict[str, Any]) -> None:
    """Run the supervisor: claim tasks, start agents, settle what they did."""
    if click.get_current_context().invoked_subcommand is None:
        supervise(told, quiet=False)


@run.command()
@with_told
@click.option("--quiet", is_flag=True, help="Say nothing on the terminal; the log has it all.")
@click.option("--only-made", is_flag=True, help="Claim only what `create`, `fanout` and `multi` made.")
@click.option("--report", type=int, hidden=True)
def foreground(told: dict[str, Any], quiet: bool, only_made: bool, report: int | None) -> None:
    """Run here, until it is stopped; agents go on without it."""
    supervise(told, quiet=quiet, only_made=only_made, report=report)


@run.command()
@with_told
def start(told: dict[str, Any]) -> None:
    """Start it in the background; exit code 1 unless its database answers."""
    _refuse_agents()
    said = control.told(**told)
    homes.ensure(find())
    click.echo(f"supervisor started: pid {control.start(find(), said=said)}")


@run.command()
@click.option("--stop-agents", is_flag=True, help="Stop the agents too, and give their tasks back.")
def stop(stop_agents: bool) -> None:
    """Stop it; agents go on working unless told otherwise."""
    _refuse_agents()
    stopped = control.stop(find(), stop_agents=stop_agents)
    click.echo("supervisor stopped" if stopped else "no supervisor runs here")


@run.command()
@with_told
def restart(told: dict[str, Any]) -> None:
    """Stop it and start it again; the agents do not notice."""
    _refuse_agents()
    said = control.told(**told)
    homes.ensure(find())
    click.echo(f"supervisor started: pid {control.restart(find(), said=said)}")


@run.command()
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def status(as_json: bool) -> int:
    """Show whether it runs; exit code 1 when it does not."""
    found = control.status(find())
    if as_json:
        click.echo(encode_printable(found, 2))
    elif found["running"]:
        paused = f", paused since {found['paused']}" if found["paused"] else ""
        only = ", only for what `create` and its like made" if found["only_made"] else ""
        slots = f"{found['agents']} of {found['slots']} slots"
        click.echo(f"running: pid {found['pid']}, since {found['since']}, {slots}{paused}{only}")
    else:
        stopped = f"; {clean(found['stopped'])}" if found["stopped"] else ""
        click.echo(f"not running{stopped}; `fleet run start` starts it")
    return 0 if found["running"] else 1


def _refuse_agents() -> None:
    refuse_agents(person.calling(find()), "run or stop the supervisor")
