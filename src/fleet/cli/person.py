"""Who calls: a person by name, or the run whose token the environment has, or which this process descends from."""

import os

from fleet.actions.names import ANYWHERE, Scope
from fleet.actions.rights import caller_of
from fleet.assembly import Fleet, open_fleet
from fleet.cli.bd.session import git_identity
from fleet.core.errors import FleetError
from fleet.core.task import Caller
from fleet.descent import is_agents
from fleet.home import Home


def caller(fleet: Fleet) -> Caller | None:
    """The run this call comes from, if it comes from one; one that is over is no person either."""
    return caller_of(fleet, os.environ.get("FLEET_RUN_TOKEN"))


def calling(home: Home) -> Caller | None:
    """The same, for a command that opens no queue of its own."""
    if not is_agents(home.root) or not home.exists:
        return None
    with open_fleet(home) as fleet:
        return caller(fleet)


def scope(*, all_projects: bool = False) -> Scope:
    """Whose branches the names on the command line mean: those of the repository that one is in."""
    if all_projects:
        return ANYWHERE
    try:
        return Scope(os.getcwd())  # noqa: PTH109
    except FileNotFoundError:
        return ANYWHERE


def current_directory() -> str:
    """Where the user is. Raises FleetError where that place is gone."""
    try:
        return os.getcwd()  # noqa: PTH109 — a plain string is what is wanted
    except FileNotFoundError as error:
        raise FleetError("the current directory is gone", hint="go to one that exists.") from error


def name() -> str:
    """What the person at the keyboard is called: BEADS_ACTOR, git's user.name, USER."""
    said = os.environ.get("BEADS_ACTOR") or os.environ.get("BD_ACTOR")
    return said or git_identity()[0] or os.environ.get("USER") or "unknown"
