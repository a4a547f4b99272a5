"""Rows and records of all but tasks, whose rows every `bd` call imports."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.clock import from_micros, to_micros
from fleet.core.collision import Collision
from fleet.core.flow import Result, StageOf, Workflow
from fleet.core.host import Host
from fleet.core.jsontext import decode
from fleet.core.receipt import FindingCount, Receipt
from fleet.core.run import Account, AccountTotal, Message, Question, Quota, Run
from fleet.core.workspace import Workspace

if TYPE_CHECKING:
    from typing import Any, TypeVar

    from fleet.core.record import Record

    R = TypeVar("R", bound=Record)


def run_from(row: tuple[Any, ...]) -> Run:
    """A run from the columns of the query `runs`."""
    return _record(Run, row)


def question_from(row: tuple[Any, ...]) -> Question:
    """A question from the columns of the query `questions`."""
    return _record(Question, row)


def account_from(row: tuple[Any, ...]) -> Account:
    """An account from the columns of the query `accounts`."""
    return _record(Account, row)


def total_from(row: tuple[Any, ...]) -> AccountTotal:
    """An account's sums from the columns of the query `account_totals`."""
    return _record(AccountTotal, row)


def quota_from(row: tuple[Any, ...]) -> Quota:
    """A quota from the columns of the query `quotas`."""
    return _record(Quota, row)


def message_from(row: tuple[Any, ...]) -> Message:
    """A message from the columns of the query `messages`."""
    return _record(Message, row)


def workspace_from(row: tuple[Any, ...]) -> Workspace:
    """A workspace from the columns of the query `workspaces`."""
    found = _record(Workspace, row)
    return found.replace(made_branch=bool(found.made_branch))


def receipt_from(row: tuple[Any, ...]) -> Receipt:
    """A receipt from the columns of the query `receipts`."""
    return _record(Receipt, row)


def count_from(row: tuple[Any, ...]) -> FindingCount:
    """A count from the columns of the query `finding_counts`."""
    return _record(FindingCount, row)


def collision_from(row: tuple[Any, ...]) -> Collision:
    """A collision from the columns of the query `collisions`."""
    found = _record(Collision, row)
    return found.replace(files=tuple(decode(str(found.files))))


def workflow_from(row: tuple[Any, ...]) -> Workflow:
    """A workflow from the columns of the query `workflows`."""
    return _record(Workflow, row)


def stage_from(row: tuple[Any, ...]) -> StageOf:
    """A stage from the columns of the query `stages`."""
    return _record(StageOf, row)


def result_from(row: tuple[Any, ...]) -> Result:
    """A result from the columns of the query `results`."""
    return _record(Result, row)


def host_from(row: tuple[Any, ...]) -> Host:
    """A host from the columns of the query `hosts`."""
    found = _record(Host, row)
    return found.replace(labels=tuple(decode(str(found.labels))))


def values_of(record: Record) -> dict[str, Any]:
    """A record's columns, under the names of its fields."""
    values = record.as_dict()
    for name, value in values.items():
        if isinstance(value, str):
            values[name] = storable(value)
        elif name in _INSTANTS and value is not None:
            values[name] = to_micros(value)
    return values


def storable(text: str) -> str:
    """Text without halves of surrogate pairs: an agent that cuts an emoji in two must not stop the others' writes."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _record(kind: type[R], row: tuple[Any, ...]) -> R:
    values = list(row)
    for at in _INSTANT_AT[kind]:
        if values[at] is not None:
            values[at] = from_micros(values[at])
    return kind.from_values(values)


def _is_instant(name: str) -> bool:
    return name.endswith(("_at", "_until"))


_KINDS: tuple[type[Record], ...] = (
    *(Run, Question, Account, AccountTotal, Quota, Message, Workspace, Receipt, FindingCount, Collision),
    *(Workflow, StageOf, Result, Host),
)
_INSTANTS = {name for kind in _KINDS for name in kind._fields if _is_instant(name)}
_INSTANT_AT = {kind: [at for at, name in enumerate(kind._fields) if _is_instant(name)] for kind in _KINDS}
