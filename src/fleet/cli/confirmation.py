"""Questions and notices to a user at the terminal before a command continues."""

import sys
from collections.abc import Sequence

from fleet.actions.control import supervisor
from fleet.actions.tasks.names import shown
from fleet.assembly import Fleet
from fleet.cli import lazy_click as click
from fleet.core.errors import UsageError
from fleet.home import Home

DONE = {"stop": "stopped", "close": "closed", "merge": "merged"}


def agreed(question: str, refused: str) -> bool:
    """Return True if the user agrees. Otherwise print the refusal. Ctrl-C interrupts the command."""
    from click import Abort, confirm

    try:
        if confirm(question, err=True):
            return True
    except Abort as abort:
        raise KeyboardInterrupt from abort
    click.echo(refused, err=True)
    return False


def is_sure(fleet: Fleet, fitting: Sequence[str], deed: str, named: str, *, which: str = "all of them") -> bool:
    """Return True if the tasks that globs match are meant. Ask on a terminal; otherwise several tasks raise Usage."""
    if sys.stdin.isatty():
        return agreed(f"{deed} {named}?", f"nothing was {DONE[deed]}")
    if len(fitting) > 1:
        raise UsageError(f"{len(fitting)} tasks fit: {shown(fleet, fitting)}", hint=f"pass --yes to {deed} {which}")
    return True


def see_to_supervisor(home: Home) -> None:
    """Start a supervisor for tasks of `create` and similar commands if none runs, and report the start."""
    if started := supervisor.ensure(home):
        click.echo(f"supervisor started: pid {started}; it runs only tasks made this way", err=True)
