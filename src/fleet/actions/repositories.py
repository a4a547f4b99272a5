"""The repositories that tasks of this host use."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from fleet.actions.elsewhere import here
from fleet.core.filter import Filter
from fleet.core.task import WORKTREE
from fleet.workspaces.repository import is_gone

if TYPE_CHECKING:
    from fleet.assembly import Fleet


def gone_repositories(fleet: Fleet) -> dict[str, int]:
    """Return the paths of missing repositories, each with the number of tasks that need it."""
    waiting = fleet.store.tasks.find(Filter(workspace=WORKTREE, unfinished=True), sort="id")
    needed = {task.id: task.repo for task in waiting if task.repo and not task.remote}
    needed |= {space.task_id: space.repo for space in here(fleet, fleet.store.workspaces.find())}
    return {place: number for place, number in Counter(needed.values()).items() if is_gone(place)}
