"""Workflows on record: a plan whose stages are tasks, and the results of the stages.

Progress is derived from the tasks and not stored.
"""

from __future__ import annotations

from fleet.core.jsontext import decode
from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from fleet.core.task import Task


#: The start of the reason of a task that a person stopped.
BY_HAND = "stopped by hand"
#: The start of the reason of a stage that never began because another one failed. `fleet retry` of that other stage
#: reopens it.
NOT_BEGUN = "not begun, since stage"
#: The same for a stage that was running.
CUT_SHORT = "cancelled, since stage"
#: The same for a stage that a person stopped with its workflow. `fleet retry` of a stage that it needs reopens it.
STOPPED_WITH_ALL = "stopped by hand: its workflow was cancelled"
#: The same for a stage that failed and was allowed to.
MAY_FAIL = "failed, as this round may: "


def was_stopped(task: Task) -> bool:
    """Return True if a blocked task was stopped, by a person or with its workflow."""
    return task.reason.startswith((BY_HAND, NOT_BEGUN, CUT_SHORT))


class Workflow(Record):
    """A workflow that was created from a plan."""

    id: str
    name: str
    repo: str = ""
    plan: str = "{}"  # JSON, see `core.workflow`
    task_prompt: str = ""
    made_at: datetime
    made_by: str = ""
    caller: str = ""  # the task of the run that created it; "" for a person
    stopped_at: datetime | None = None  # when it was first cancelled; it may have continued since
    reason: str = ""  # why it was stopped
    cleaned_at: datetime | None = None


class StageOf(Record):
    """A task as a stage of a workflow."""

    task_id: str
    workflow_id: str
    index: int  # in the plan
    name: str
    spec: str  # JSON of the plan's stage


class Result(Record):
    """The last result of a task, checked against fleet's own observations."""

    task_id: str
    run_id: str
    made_at: datetime
    made_by: str = "agent"  # or "fleet" if the agent left none
    body: str = "{}"  # JSON: summary, files_changed, tests, commits, next_steps, status …

    @property
    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = decode(self.body)
        return found
