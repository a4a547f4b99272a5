"""What a person at the terminal is asked or told before a command goes on."""

import sys
from collections.abc import Sequence

import click

from fleet.actions import control
from fleet.actions.names import shown
from fleet.assembly import Fleet
from fleet.core.errors import Usage
from fleet.home import Home

DONE = {"stop": "stopped", "close": "closed", "merge": "merged"}


def agreed(question: str, refused: str) -> bool:
    """Whether the person says yes; where not, what did not happen is said. Ctrl-C is an interruption, not an answer."""
    if click.confirm(question, err=True):
        return True
    click.echo(refused, err=True)
    return False


def is_sure(fleet: Fleet, fitting: Sequence[str], deed: str, named: str, *, which: str = "all of them") -> bool:
    """Return True if what globs fit is meant. A person is asked; without one, several tasks raise Usage."""
    if sys.stdin.isatty():
        return agreed(f"{deed} {named}?", f"nothing was {DONE[deed]}")
    if len(fitting) > 1:
        raise Usage(f"{len(fitting)} tasks fit: {shown(fleet, fitting)}", hint=f"pass --yes to {deed} {which}.")
    return True


def see_to_supervisor(home: Home) -> None:
    """See that a supervisor runs for what `create` and its like made, and say so where one had to be started."""
    if started := control.ensure(home):
        click.echo(f"supervisor started: pid {started}; it runs what is made this way", err=True)
