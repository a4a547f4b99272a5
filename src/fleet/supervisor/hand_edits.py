"""Edits of users in `task.json`, taken into the task.

Agents can write to the file too. A change made while a run of the task is recorded is put aside and never used.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleet import coders
from fleet.core.errors import BadInput
from fleet.core.task import Status
from fleet.supervisor.strays import living_runs
from fleet.supervisor.task_json import Edits

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from fleet.core.task import Task
    from fleet.store.base import Store
    from fleet.supervisor.task_folder import TaskFolder


def take_edits(
    store: Store, folder: TaskFolder, described: Callable[[], Collection[str]], *, is_ours: bool = False
) -> Edits:
    """Take what a user changed in `task.json` into the task, for this run and every later run. Return the edits.

    Nothing is taken while a run of the task is recorded or an agent lives in its folder. Pass `is_ours` from a
    supervisor that has claimed the task and not yet started its agent.
    """
    found = folder.read_task_json()
    if not found.fields:
        return found
    try:
        with store.atomic():
            task = store.tasks.get(folder.task_id)
            if (task.is_supervised and not is_ours) or task.status == Status.CLOSED or living_runs(folder.path):
                return Edits({})
            fields = {name: value for name, value in found.fields.items() if value != getattr(task, name)}
            _check(task, fields, described)
            if fields:
                task = task.replace(**fields, updated_at=store.now())
                store.tasks.save(task)
    except BadInput as error:
        return Edits({}, str(error))
    if fields:
        folder.note("task_json_taken", **fields)
    try:
        folder.write_taken_task_json(task)
    except (OSError, ValueError, TypeError, RecursionError) as error:  # the next call repeats it, without harm
        folder.warn("task_json_not_marked", error)
    return Edits(fields)


def _check(task: Task, fields: dict[str, str], described: Callable[[], Collection[str]]) -> None:
    """Raise BadInput for a change that is not allowed."""
    if fields and task.made_by:
        raise BadInput(f"an agent made this task; change it with `fleet bd update {task.id}`")
    if coder := fields.get("coder"):
        fields["coder"] = coders.known(coder, described=described())
    if (cwd := fields.get("cwd")) and not os.path.isdir(cwd):  # noqa: PTH112
        raise BadInput(f"its cwd {cwd} is not a directory")
