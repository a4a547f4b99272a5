"""`fleet run`: the supervisor, in the foreground or in the background."""

import functools
from collections.abc import Callable
from typing import Any

import click

from fleet.actions.control import homes, supervisor
from fleet.actions.tasks.rights import refuse_agents
from fleet.cli import person
from fleet.cli.foreground import supervise
from fleet.cli.options import with_coder
from fleet.cli.text import clean
from fleet.core.jsontext import encode_printable
from fleet.home import find


def with_told(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that override the settings, passed as `told`.

    Those given to `fleet run` hold for its subcommands.
    """
    options = (
        with_coder("Use CODER by default, instead of the coder in the settings."),
        click.option("--name", metavar="NAME", help="Name this host NAME. [default: the machine's name]"),
        click.option("--labels", metavar="LABEL,…", help="Offer each LABEL to tasks that require it."),
        click.option(
            "--listen", metavar="HOST:PORT", help="Serve the logs of this host's runs to other hosts at HOST:PORT."
        ),
        click.option(
            "--slots",
            type=click.IntRange(1, 1000),
            metavar="N",
            help="Run at most N agents at the same time on this host.",
        ),
    )

    @functools.wraps(command)
    def called(**given: Any) -> Any:
        context = click.get_current_context()
        said = {name: given.pop(name) for name in ("coder", "name", "labels", "listen", "slots")}
        said["coder"] = said["coder"] or None  # other options take an empty value: `--labels ""` removes the labels
        context.obj = (context.obj or {}) | {name: value for name, value in said.items() if value is not None}
        return command(told=context.obj, **given)

    return functools.reduce(lambda made, option: option(made), reversed(options), called)


@click.group(invoke_without_command=True)
@with_told
def run(told: dict[str, Any]) -> None:
    """Run the supervisor: claim tasks, start agents and settle their results."""
    if click.get_current_context().invoked_subcommand is None:
        supervise(told, quiet=False)


@run.command()
@with_told
@click.option("--quiet", is_flag=True, help="Print nothing on the terminal; the log has everything.")
@click.option("--only-made", is_flag=True, help="Claim only tasks made by `create`, `fanout` and `multi`.")
@click.option("--report", type=int, hidden=True)
def foreground(told: dict[str, Any], quiet: bool, only_made: bool, report: int | None) -> None:
    """Run the supervisor in the foreground. Agents continue when it is stopped."""
    supervise(told, quiet=quiet, only_made=only_made, report=report)


@run.command()
@with_told
def start(told: dict[str, Any]) -> None:
    """Start the supervisor in the background. Exit code 1 if its database does not respond."""
    _refuse_agents()
    said = supervisor.told(**told)
    homes.ensure(find())
    click.echo(f"supervisor started: pid {supervisor.start(find(), said=said)}")


@run.command()
@click.option("--stop-agents", is_flag=True, help="Stop the agents too and return their tasks to the queue.")
def stop(stop_agents: bool) -> None:
    """Stop the supervisor. Agents continue unless you pass --stop-agents."""
    _refuse_agents()
    stopped = supervisor.stop(find(), stop_agents=stop_agents)
    click.echo("supervisor stopped" if stopped else "no supervisor is running here")


@run.command()
@with_told
def restart(told: dict[str, Any]) -> None:
    """Stop the supervisor and start it again. Agents continue undisturbed."""
    _refuse_agents()
    said = supervisor.told(**told)
    homes.ensure(find())
    click.echo(f"supervisor started: pid {supervisor.restart(find(), said=said)}")


@run.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(as_json: bool) -> int:
    """Show whether the supervisor is running. Exit code 1 if it is not."""
    found = supervisor.status(find())
    if as_json:
        click.echo(encode_printable(found, 2))
    elif found["running"]:
        paused = f", paused since {found['paused']}" if found["paused"] else ""
        only = ", only for tasks of `create`, `fanout` and `multi`" if found["only_made"] else ""
        slots = f"{found['agents']} of {found['slots']} slots"
        click.echo(f"running: pid {found['pid']}, since {found['since']}, {slots}{paused}{only}")
    else:
        stopped = f"; {clean(found['stopped'])}" if found["stopped"] else ""
        click.echo(f"not running{stopped}; run `fleet run start` to start it")
    return 0 if found["running"] else 1


def _refuse_agents() -> None:
    refuse_agents(person.calling(find()), "run or stop the supervisor")
