"""`fleet update`: update fleet itself."""

import shlex
import sys

import click

from fleet import __version__
from fleet.actions.control import update as updates
from fleet.actions.tasks.rights import refuse_agents
from fleet.cli import person
from fleet.cli.bd.text import clean
from fleet.cli.options import with_yes
from fleet.core.errors import FleetError
from fleet.home import find


@click.command()
@click.option("--check", is_flag=True, help="Show the commands without running them.")
@with_yes
def update(check: bool, sure: bool) -> None:
    """Update fleet with the installer that installed it: uv, pipx or pip.

    fleet shows the installer's commands, asks, and runs them. If fleet runs from a clone, these commands pull the clone
    and install it again with the same extras. fleet refuses to update if the installed distribution is not
    fleet-agents.
    """
    caller = person.calling(find())
    how = updates.installation()
    argvs = updates.commands(how)
    click.echo(f"fleet {__version__} was installed by {how.by}{f' from {clean(how.clone)}' if how.clone else ''}:")
    for argv in argvs:
        click.echo(f"  {clean(shlex.join(argv))}")
    if check:
        return
    refuse_agents(caller, "update fleet")
    if not sure:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise FleetError("nothing was updated: there is no terminal to ask on", hint="pass --yes")
        click.confirm("Run this?", abort=True, err=True)
    now = updates.run(argvs)
    if now == __version__:
        again = "was installed again, still as" if how.clone or how.source else "is unchanged:"
        click.echo(f"fleet {again} {__version__}")
        return
    click.echo(f"fleet {__version__} was updated to {clean(now)}")
    click.echo("A running supervisor still uses the old version: run `fleet run restart`.", err=True)
