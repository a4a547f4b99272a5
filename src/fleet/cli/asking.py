"""What a person at the terminal is asked or told before a command goes on."""

import click

from fleet.actions import control
from fleet.home import Home


def agreed(question: str, refused: str) -> bool:
    """Whether the person says yes; where not, what did not happen is said. Ctrl-C is an interruption, not an answer."""
    if click.confirm(question, err=True):
        return True
    click.echo(refused, err=True)
    return False


def see_to_supervisor(home: Home) -> None:
    """See that a supervisor runs for what `create` and its like made, and say so where one had to be started."""
    if started := control.ensure(home):
        click.echo(f"supervisor started: pid {started}; it runs what is made this way", err=True)
