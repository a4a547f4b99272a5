"""Conflicts between agents' branches, and the files involved."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from fleet.actions.control.other_hosts import here
from fleet.core.errors import FleetError
from fleet.core.filter import Filter
from fleet.supervisor.collision_radar import WatchedRepository, keep, landed_tips, standing

if TYPE_CHECKING:
    from fleet.actions.tasks.names import NameScope
    from fleet.assembly import Fleet
    from fleet.core.task import Task
    from fleet.core.workspace import Collision, Workspace


#: Maximum number of looks per command. One look is bounded, so a repository can need several.
MOST_LOOKS = 10


class CollidingBranch(NamedTuple):
    """One of two colliding branches."""

    task: Task | None  # None if the task was deleted
    workspace: Workspace
    tip: str

    def view(self) -> dict[str, Any]:
        task = self.task
        return {
            "task": self.workspace.task_id,
            "branch": self.workspace.branch,
            "title": task.title if task else None,
            "task_status": task.status if task else None,
            "commit": self.tip,
        }


class Conflict(NamedTuple):
    """Two branches that git cannot merge. The first is the one that started earlier."""

    first: CollidingBranch
    second: CollidingBranch
    collision: Collision

    def view(self) -> dict[str, Any]:
        seen = self.collision
        return {
            "repo": self.first.workspace.repo,
            "branches": [self.first.view(), self.second.view()],
            "files": list(seen.files),
            "since": seen.seen_at.isoformat(timespec="seconds"),
            "told_at": seen.told_at.isoformat(timespec="seconds") if seen.told_at else None,
        }


class Found(NamedTuple):
    """The conflicts, and the checks that could not be completed."""

    conflicts: list[Conflict]
    unsure: list[str]  # messages


def conflicts(fleet: Fleet, scope: NameScope) -> Found:
    """Return the branches that collide now, in one repository or all. Runs git and stores the result for `list`."""
    spaces = standing(here(fleet, fleet.store.workspaces.find()))
    wanted = {space.common: space for space in spaces if scope.repo in (None, space.repo)}
    unsure = []
    for common, space in wanted.items():
        unsure += _look(fleet, space, [each for each in spaces if each.common == common])
    with fleet.store.snapshot():
        known = {space.task_id: space for space in standing(fleet.store.workspaces.find())}
        seen = [
            each for each in fleet.store.collisions.find() if each.common in wanted and known.keys() >= {*each.pair}
        ]
        ids = tuple({key for each in seen for key in each.pair})
        tasks = {task.id: task for task in fleet.store.tasks.find(Filter(ids=ids), sort="id")} if ids else {}
    made = [
        Conflict(
            CollidingBranch(tasks.get(each.task_id), known[each.task_id], each.tip),
            CollidingBranch(tasks.get(each.other_id), known[each.other_id], each.other_tip),
            each,
        )
        for each in seen
    ]
    return Found(made, unsure)


def _look(fleet: Fleet, space: Workspace, spaces: list[Workspace]) -> list[str]:
    """Check one repository for collisions. Return messages about an incomplete check."""
    watch, landed = WatchedRepository(fleet.home, space), landed_tips(fleet.store, spaces)
    try:
        found = watch.look(spaces, landed)
        for _ in range(MOST_LOOKS):
            if found is None or found.is_complete:
                break
            found = watch.look(spaces, landed)
    except (FleetError, OSError) as error:  # earlier results and other repositories still count
        return [f"{space.repo} could not be checked: {error}"]
    if found is None:
        return []
    keep(fleet.store, space.common, found, fleet.store.now())
    return [] if found.is_complete else [f"not every pair of branches in {space.repo} was tried: there are too many"]
