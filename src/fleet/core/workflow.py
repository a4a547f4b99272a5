"""Plans of workflows: plain stages with edges, with loops and fans already unrolled."""

from __future__ import annotations

from fleet.core.errors import BadInput
from fleet.core.jsontext import decode, encode
from fleet.core.record import Record

TYPE_CHECKING = False
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


class Plan(Record):
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


def plan_in(text: str) -> Plan:
    """Return the plan in this text. Raises BadInput if the text is invalid."""
    return _read(text, "plan", lambda told: Plan(**{**told, "stages": tuple(map(Stage.from_json, told["stages"]))}))


def stage_in(text: str) -> Stage:
    """Return the stage in this text. Raises BadInput if the text is invalid."""
    return _read(text, "stage", Stage.from_json)


def _read(text: str, what: str, made_of: Callable[[dict[str, Any]], T]) -> T:
    try:
        return made_of(decode(text))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        hint = "it may be of another version of fleet."
        raise BadInput(f"this is no {what} of a workflow: {error}", hint=hint) from error


def _chains(found: Any) -> tuple[Chain, ...]:
    return tuple(tuple(chain) for chain in found)
