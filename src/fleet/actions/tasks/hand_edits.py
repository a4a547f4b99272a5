"""Manual edits to `task.json` of waiting tasks, applied when the task is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.errors import StoreFault
from fleet.core.task import Status
from fleet.settings import load
from fleet.supervisor.hand_edits import take_edits
from fleet.supervisor.task_folder import TaskFolder, home_of
from fleet.supervisor.task_json import Edits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.assembly import Fleet
    from fleet.core.task import Task


def take_hand_edits(fleet: Fleet, tasks: Sequence[Task]) -> tuple[list[Task], dict[str, str]]:
    """Apply the manual edits in `task.json` to these tasks.

    Return the updated tasks and, by task ID, why an edit was rejected.
    """
    waiting = [task for task in tasks if not task.is_supervised and task.status != Status.CLOSED]
    last = fleet.store.runs.last([task.id for task in waiting])
    changed: dict[str, Task] = {}
    problems: dict[str, str] = {}
    for task in waiting:
        folder = TaskFolder(home_of(fleet.home, last.get(task.id)), task.id, now=fleet.store.now)
        try:
            edits = take_edits(fleet.store, folder, lambda: load(fleet.home, env={}, lenient=True).coders)
        except StoreFault as error:  # a database that accepts no writes can still be read
            edits = Edits({}, str(error))
        if edits.fields:
            changed[task.id] = task.replace(**edits.fields)
        if edits.problem:
            problems[task.id] = edits.problem
    return [changed.get(task.id, task) for task in tasks], problems
