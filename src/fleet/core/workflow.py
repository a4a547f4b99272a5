"""Workflows: plans of plain stages, and workflows on record with the results of their stages."""

from __future__ import annotations

from fleet.core.errors import BadInput
from fleet.core.jsontext import decode, encode
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


if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self, TypeVar

    T = TypeVar("T")
    #: The rounds of one stage in their order. It refers to the last of them that ran.
    Chain = tuple[str, ...]

#: What happens to the other stages when one fails.
CONTINUE, STOP, CANCEL = "continue", "stop", "cancel"
ON_FAILURE = (CONTINUE, STOP, CANCEL)


class Stage(Record):
    """One stage of a plan, which becomes one task."""

    name: str  # in the plan: `review`, its second round `review#2`, the third of several `part@3`
    stage: str  # in the file: the same for all rounds and items
    index: int  # in the file, from 0
    prompt: str  # with its variables
    item: str | None = None  # of the list in `each`
    items_of: str = ""  # or the list of an earlier stage that it iterates over
    items_from: int = 0  # the index of its item in that list, from 1
    has_the_rest: bool = False  # it also gets all later items
    round: int = 1
    coder: str = ""
    model: str = ""
    account: str = ""
    extra_args: tuple[str, ...] = ()
    reasoning_effort: str = ""
    timeout_seconds: float | None = None
    verify: str = ""
    retries: int | None = None
    inherits: bool = False  # starts from the branch of the first stage in `after`
    no_changes: bool = False
    requires: str = ""  # what a host must offer: JSON, see `core.host`
    after: tuple[Chain, ...] = ()  # its dependencies
    goes_on_with: Chain = ()  # the base for `inherits`, if not the first stage in `after`
    origins: tuple[Chain, ...] = ()  # further bases for `inherits`, in order, if the first stage in `after` was skipped
    reads: dict[str, tuple[Chain, ...]] = {}  # noqa: RUF012 - what its variables mean, by their first part
    when: str = ""  # it runs only if this condition holds
    unless: str = ""  # for a later round, as in the file: it runs only if this does not hold for the previous round
    may_fail: bool = False  # its failure fails no other stage: the next round follows
    on_failure: str = ""  # what its failure means for the others; "": as the plan sets

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the stages that must finish before this one starts, each once."""
        return tuple(dict.fromkeys(chain[-1] for chain in self.after if chain))

    @property
    def inherited(self) -> tuple[Chain, ...]:
        """Return the base for `inherits`: one chain or none."""
        return (self.goes_on_with,) if self.goes_on_with else self.after[:1]

    @property
    def sources(self) -> tuple[str, ...]:
        """Return the stages whose results its start reads, each once."""
        chains = (
            *self.after,
            self.goes_on_with,
            *self.origins,
            *(chain for found in self.reads.values() for chain in found),
        )
        return tuple(dict.fromkeys(name for chain in chains for name in chain))

    def text(self) -> str:
        """Return the stage as one line of JSON; `stage_in` reads it."""
        return encode(self.as_json())

    def as_json(self) -> dict[str, Any]:
        defaults = type(self)._fields
        return {name: value for name, value in self.as_dict().items() if value != defaults[name]}

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> Self:
        lists: dict[str, Any] = {name: _chains(told.get(name, ())) for name in ("after", "origins")}
        lists["reads"] = {head: _chains(found) for head, found in told.get("reads", {}).items()}
        lists |= {name: tuple(told.get(name, ())) for name in ("extra_args", "goes_on_with")}
        return cls(**{**told, **lists})


class WorkflowPlan(Record):
    """A whole workflow. Each stage comes after the stages that it needs."""

    name: str
    stages: tuple[Stage, ...]
    description: str = ""
    task_prompt: str = ""  # used if the caller gives none
    on_failure: str = CONTINUE
    repo_hint: str = ""  # the repository named in the file; the caller's repository takes precedence
    base: str = ""

    def stage(self, name: str) -> Stage:
        """Return the stage of this name in the plan. Raises BadInput."""
        for found in self.stages:
            if found.name == name:
                return found
        raise BadInput(f"workflow {self.name!r} has no stage {name!r}")

    def as_json(self) -> dict[str, Any]:
        return {**self.as_dict(), "stages": [stage.as_json() for stage in self.stages]}

    def text(self) -> str:
        """Return the plan as one line of JSON; `plan_in` reads it."""
        return encode(self.as_json())


def plan_in(text: str) -> WorkflowPlan:
    """Return the plan in this text. Raises BadInput if the text is invalid."""
    return _decode_json(
        text, "plan", lambda told: WorkflowPlan(**{**told, "stages": tuple(map(Stage.from_json, told["stages"]))})
    )


def stage_in(text: str) -> Stage:
    """Return the stage in this text. Raises BadInput if the text is invalid."""
    return _decode_json(text, "stage", Stage.from_json)


def _decode_json(text: str, what: str, made_of: Callable[[dict[str, Any]], T]) -> T:
    try:
        return made_of(decode(text))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        hint = "check whether another version of fleet wrote it"
        raise BadInput(f"not a {what} of a workflow: {error}", hint=hint) from error


def _chains(found: Any) -> tuple[Chain, ...]:
    return tuple(tuple(chain) for chain in found)
