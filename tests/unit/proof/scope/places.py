"""The paths of one imaginary run: a worktree in fleet's home, the user's checkout, and other worktrees."""

import functools
from datetime import UTC, datetime
from typing import Any

from fleet.core.event import Event, Kind
from fleet.core.jsontext import encode
from fleet.core.workspace import Workspace
from fleet.home import Home
from fleet.proof.scope.bounds import WriteBounds, bounds_of
from fleet.proof.scope.lookout import Lookout, ScopeFindings

USER = "/home/me"
TOP = f"{USER}/project"
FLEET = f"{USER}/.fleet"
TREE = f"{FLEET}/worktrees/project/fix-login"
TASK = f"{FLEET}/tasks/fleet-7"
ENV = {
    "HOME": USER,
    "FLEET_HOME": FLEET,
    "FLEET_TASK_ID": "fleet-7",
    "FLEET_TASK_DIR": TASK,
    "FLEET_ARTIFACT_DIR": f"{TASK}/artifacts",
}


@functools.cache
def worktree_bounds() -> WriteBounds:
    """Return the bounds of a run in a worktree, with the facts that a real repository would add."""
    admin = f"{TOP}/.git/worktrees/fix-login"
    space = Workspace(
        task_id="fleet-7",
        repo=TOP,
        common=f"{TOP}/.git",
        path=TREE,
        branch="fix-login",
        made_at=datetime(2026, 11, 1, tzinfo=UTC),
        notes=encode({"admin": admin}),
    )
    return bounds_of(Home(FLEET), TASK, TREE, space, ENV).replace(others=("main", "other"))


def use(line: str = "", tool: str = "Bash", call: str = "1", **data: Any) -> Event:
    """Return the event of a tool call. With only a line, the tool is a shell."""
    return Event(kind=Kind.TOOL_USE, tool=tool, tool_id=call, data=data or {"command": line})


def seen(*events: Event, bounds: WriteBounds | None = None) -> ScopeFindings:
    """Return the report of a lookout on these events."""
    return Lookout(bounds or worktree_bounds()).look(events)
