"""The caller of a command: a person by name, or a run, identified by its token or as an ancestor of this process."""

import os

from fleet.actions.tasks.names import ANYWHERE, NameScope
from fleet.actions.tasks.rights import caller_of
from fleet.assembly import Fleet, open_fleet
from fleet.cli.bd.session import git_identity
from fleet.core.errors import FleetError
from fleet.core.task import Caller
from fleet.descent import is_agents
from fleet.home import Home


def caller(fleet: Fleet) -> Caller | None:
    """Return the run that this call comes from.

    Return None for a person. A run that has ended does not count as a person.
    """
    return caller_of(fleet, os.environ.get("FLEET_RUN_TOKEN"))


def calling(home: Home) -> Caller | None:
    """Return the caller, for a command that does not open a queue itself."""
    if not is_agents(home.root) or not home.exists:
        return None
    with open_fleet(home) as fleet:
        return caller(fleet)


def scope(*, all_projects: bool = False) -> NameScope:
    """Return the scope of names on the command line: the current repository, or everywhere."""
    if all_projects:
        return ANYWHERE
    try:
        return NameScope(os.getcwd())  # noqa: PTH109
    except FileNotFoundError:
        return ANYWHERE


def current_directory() -> str:
    """Return the current directory. Raises FleetError if it was deleted."""
    try:
        return os.getcwd()  # noqa: PTH109 — a plain string is needed
    except FileNotFoundError as error:
        raise FleetError("the current directory no longer exists", hint="change to an existing directory") from error


def name() -> str:
    """Return the user's name: BEADS_ACTOR, BD_ACTOR, git's user.name or USER."""
    said = os.environ.get("BEADS_ACTOR") or os.environ.get("BD_ACTOR")
    return said or git_identity()[0] or os.environ.get("USER") or "unknown"
