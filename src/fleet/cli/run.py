"""`fleet run`: the supervisor, in the foreground or in the background."""

import sys

import click

from fleet.actions import control, homes, supervising
from fleet.actions.rights import refuse_agents
from fleet.cli import person
from fleet.core.jsontext import encode
from fleet.home import find


@click.group(invoke_without_command=True)
@click.option("--coder", default="", help="The default coder of this supervisor, over the settings' own.")
@click.pass_context
def run(context: click.Context, coder: str) -> None:
    """Run the supervisor: claim tasks, start agents, settle what they did."""
    context.obj = coder
    if context.invoked_subcommand is None:
        _foreground(coder, quiet=False)


@run.command()
@click.option("--coder", default="", help="The default coder of this supervisor.")
@click.option("--quiet", is_flag=True, help="Say nothing on the terminal; the log has it all.")
@click.option("--only-made", is_flag=True, help="Claim only what `create`, `fanout` and `multi` made.")
@click.pass_context
def foreground(context: click.Context, coder: str, quiet: bool, only_made: bool) -> None:
    """Run here, until it is stopped; agents go on without it."""
    _foreground(coder or context.obj, quiet=quiet, only_made=only_made)


@run.command()
@click.option("--coder", default="", help="The default coder of this supervisor.")
@click.pass_context
def start(context: click.Context, coder: str) -> None:
    """Start it in the background."""
    _refuse_agents()
    homes.ensure(find())
    click.echo(f"supervisor started: pid {control.start(find(), coder=coder or context.obj)}")


@run.command()
@click.option("--stop-agents", is_flag=True, help="Stop the agents too, and give their tasks back.")
def stop(stop_agents: bool) -> None:
    """Stop it; agents go on working unless told otherwise."""
    _refuse_agents()
    stopped = control.stop(find(), stop_agents=stop_agents)
    click.echo("supervisor stopped" if stopped else "no supervisor runs here")


@run.command()
@click.option("--coder", default="", help="The default coder of this supervisor.")
@click.pass_context
def restart(context: click.Context, coder: str) -> None:
    """Stop it and start it again; the agents do not notice."""
    _refuse_agents()
    homes.ensure(find())
    control.stop(find())
    click.echo(f"supervisor started: pid {control.start(find(), coder=coder or context.obj)}")


@run.command()
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def status(as_json: bool) -> int:
    """Show whether it runs; exit code 1 when it does not."""
    found = control.status(find())
    if as_json:
        click.echo(encode(found, 2))
    elif found["running"]:
        paused = f", paused since {found['paused']}" if found["paused"] else ""
        only = ", only for what `create` and its like made" if found["only_made"] else ""
        slots = f"{found['agents']} of {found['slots']} slots"
        click.echo(f"running: pid {found['pid']}, since {found['since']}, {slots}{paused}{only}")
    else:
        click.echo("not running; `fleet run start` starts it")
    return 0 if found["running"] else 1


def _refuse_agents() -> None:
    refuse_agents(person.calling(find()), "run or stop the supervisor")


def _foreground(coder: str, *, quiet: bool, only_made: bool = False) -> None:
    _refuse_agents()
    if homes.ensure(find()):
        click.echo(f"fleet home initialized at {find().root}", err=True)
    supervising.supervise(find(), coder=coder, only_made=only_made, to_terminal=not quiet and sys.stderr is not None)
