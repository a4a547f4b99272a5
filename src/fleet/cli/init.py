"""`fleet init`: make or mend the home."""

import sys

import click

from fleet.actions import homes
from fleet.cli import person
from fleet.config.keys import Permissions
from fleet.home import find

EXPLANATION = """
A coder asks before it runs a tool, unless it is told not to. Agents work with nobody
at the keyboard, so fleet needs to know what you want:
  user   coders ask as their own settings say; what is denied becomes a question to you
  skip   coders run every command without asking, with all the rights of your account
"""
CHOICE = click.Choice(["skip", "user"])


@click.command()
@click.option("--force", is_flag=True, help="Write runtime.toml anew (a copy is kept); the database stays.")
@click.option("--permissions", type=CHOICE, help="Record whether coders may run tools without asking.")
def init(force: bool, permissions: Permissions | None) -> None:
    """Make or mend the home of fleet: folders, database, settings, programs for agents."""
    home = find()
    ask = _ask if sys.stdin.isatty() else None
    made = homes.init(home, force=force, permissions=permissions, ask=ask, caller=person.calling(home))
    click.echo(f"Fleet home initialized at {home.root}")
    for line in made.changes or ["nothing to change"]:
        click.echo(f"  {line}")
    if made.permissions is None:
        click.echo(EXPLANATION)
        click.echo("Nothing is recorded, which counts as user. `fleet init --permissions skip|user` records it.")


def _ask() -> Permissions:
    click.echo(EXPLANATION, err=True)
    return "skip" if click.prompt("Permissions", type=CHOICE, default="user", err=True) == "skip" else "user"
