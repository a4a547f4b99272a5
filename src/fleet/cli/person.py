"""Who calls: a person by name, or the run whose token the environment has."""

import os

from fleet.assembly import Fleet
from fleet.cli.bd.session import git_identity
from fleet.core.task import Caller


def caller(fleet: Fleet) -> Caller | None:
    """The live run this call comes from, if it comes from one."""
    token = os.environ.get("FLEET_RUN_TOKEN")
    return fleet.queue.caller(token) if token else None


def name() -> str:
    """What the person at the keyboard is called: BEADS_ACTOR, git's user.name, USER."""
    said = os.environ.get("BEADS_ACTOR") or os.environ.get("BD_ACTOR")
    return said or git_identity()[0] or os.environ.get("USER") or "unknown"
