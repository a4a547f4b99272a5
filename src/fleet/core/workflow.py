"""A workflow as it is run: a plan of plain stages with edges, loops and fans already unrolled."""

from __future__ import annotations

from fleet.core.errors import BadInput
from fleet.core.jsontext import decode, encode
from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self, TypeVar

    T = TypeVar("T")
    #: The rounds of one stage in their order; what is meant is the last of them that ran.
    Chain = tuple[str, ...]

#: What becomes of the other stages when one fails.
CONTINUE, STOP, CANCEL = "continue", "stop", "cancel"
ON_FAILURE = (CONTINUE, STOP, CANCEL)


class Stage(Record):
    """One stage of a plan, which becomes one task."""

    name: str  # in the plan: `review`, its second round `review#2`, the third of several `part@3`
    stage: str  # in the file: the same for all rounds and items
    index: int  # in the file, from 0
    prompt: str  # with its variables
    item: str | None = None  # of the list that `each` goes over
    items_of: str = ""  # the list of an earlier stage that it goes over instead
    items_from: int = 0  # which item of that, from 1
    has_the_rest: bool = False  # and all behind it
    round: int = 1
    coder: str = ""
    model: str = ""
    account: str = ""
    extra_args: tuple[str, ...] = ()
    reasoning_effort: str = ""
    timeout_seconds: float | None = None
    verify: str = ""
    retries: int | None = None
    inherits: bool = False  # starts from the branch of the first thing it comes after
    no_changes: bool = False
    requires: str = ""  # what a host must offer: JSON, see `core.host`
    after: tuple[Chain, ...] = ()  # what it depends on
    goes_on_with: Chain = ()  # what an heir starts from, where that is not the first thing it comes after
    origins: tuple[
        Chain, ...
    ] = ()  # what an heir starts from, in turn, where the first thing it comes after was skipped
    reads: dict[str, tuple[Chain, ...]] = {}  # noqa: RUF012 - what its variables mean, by their first part
    when: str = ""  # it runs only where this holds
    unless: str = ""  # of a later round, as the file has it: it runs only where this does not hold for the one before
    may_fail: bool = False  # its failing fails nothing else: the next round follows
    on_failure: str = ""  # what its failing means to the others, as the plan has it; empty: ask the plan

    @property
    def needs(self) -> tuple[str, ...]:
        """The stages of the plan that must be over before this one starts, each once."""
        return tuple(dict.fromkeys(chain[-1] for chain in self.after if chain))

    @property
    def inherited(self) -> tuple[Chain, ...]:
        """What it would start from as an heir: one chain, or none."""
        return (self.goes_on_with,) if self.goes_on_with else self.after[:1]

    @property
    def sources(self) -> tuple[str, ...]:
        """The stages of the plan whose results its start looks at, each once."""
        chains = (
            *self.after,
            self.goes_on_with,
            *self.origins,
            *(chain for found in self.reads.values() for chain in found),
        )
        return tuple(dict.fromkeys(name for chain in chains for name in chain))

    def text(self) -> str:
        """The stage as one line of JSON; `stage_in` reads it."""
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
    """A whole workflow. Each stage stands after those it needs."""

    name: str
    stages: tuple[Stage, ...]
    description: str = ""
    task_prompt: str = ""  # where the caller gives none
    on_failure: str = CONTINUE
    repo_hint: str = ""  # what the file says of its repository: where the caller is counts
    base: str = ""

    def stage(self, name: str) -> Stage:
        """The stage of this name in the plan. Raises BadInput."""
        for found in self.stages:
            if found.name == name:
                return found
        raise BadInput(f"workflow {self.name!r} has no stage {name!r}")

    def as_json(self) -> dict[str, Any]:
        return {**self.as_dict(), "stages": [stage.as_json() for stage in self.stages]}

    def text(self) -> str:
        """The plan as one line of JSON; `plan_in` reads it."""
        return encode(self.as_json())


def plan_in(text: str) -> Plan:
    """The plan in this text. Raises BadInput where there is none."""
    return _read(text, "plan", lambda told: Plan(**{**told, "stages": tuple(map(Stage.from_json, told["stages"]))}))


def stage_in(text: str) -> Stage:
    """The stage in this text. Raises BadInput where there is none."""
    return _read(text, "stage", Stage.from_json)


def _read(text: str, what: str, made_of: Callable[[dict[str, Any]], T]) -> T:
    try:
        return made_of(decode(text))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        hint = "it may be of another version of fleet."
        raise BadInput(f"this is no {what} of a workflow: {error}", hint=hint) from error


def _chains(found: Any) -> tuple[Chain, ...]:
    return tuple(tuple(chain) for chain in found)
