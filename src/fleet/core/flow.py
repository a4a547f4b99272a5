"""A workflow on record: a plan whose stages are tasks, and what each of them handed on. How far it is follows from the
tasks; nothing of that is kept."""

from __future__ import annotations

from fleet.core.jsontext import decode
from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from fleet.core.task import Task


#: How the reason of a task begins that a person stopped.
BY_HAND = "stopped by hand"
#: How the reason of a stage's task begins that was stopped since another failed; `fleet retry` of that one opens it.
NOT_BEGUN = "not begun, since stage"
#: And of one that was at work.
CUT_SHORT = "cancelled, since stage"
#: And of one that was stopped with its workflow, by a person; `fleet retry` of one that it needs opens it.
STOPPED_WITH_ALL = "stopped by hand: its workflow was cancelled"
#: And of one that is over though it failed.
MAY_FAIL = "failed, as this round may: "


def was_stopped(task: Task) -> bool:
    """Return True if a blocked task was stopped: by a person, or with the workflow it is a stage of."""
    return task.reason.startswith((BY_HAND, NOT_BEGUN, CUT_SHORT))


class Workflow(Record):
    """A workflow that somebody had made of a plan."""

    id: str
    name: str
    repo: str = ""
    plan: str = "{}"  # JSON, see `core.workflow`
    task_prompt: str = ""
    made_at: datetime
    made_by: str = ""
    caller: str = ""  # the task of the run that made it; empty: a person
    stopped_at: datetime | None = None  # when somebody first cancelled it: it may have gone on since
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
    """What a task handed on: its last result, held against what fleet saw."""

    task_id: str
    run_id: str
    made_at: datetime
    made_by: str = "agent"  # or fleet, where the agent left none
    body: str = "{}"  # JSON: summary, files_changed, tests, commits, next_steps, status …

    @property
    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = decode(self.body)
        return found
