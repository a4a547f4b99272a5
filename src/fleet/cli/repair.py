"""`fleet list --repair`: say what was brought in line."""

import click

from fleet.actions.names import Scope
from fleet.actions.repair import repair
from fleet.assembly import Fleet
from fleet.cli import person
from fleet.cli.bd.text import clean


def repair_here(fleet: Fleet, scope: Scope) -> None:
    """Bring what is on disk, in tmux and in git in line with the database, and say what was done."""
    done = repair(fleet, scope, caller=person.caller(fleet))
    for line in done or ["nothing to repair"]:
        click.echo(clean(line), err=True)
