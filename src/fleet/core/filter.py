"""Filters for tasks: one condition per field, all of which must hold.

Stores turn a filter into SQL or apply `core.matching`.
"""

from __future__ import annotations

from itertools import product

from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

#: The sort orders of a list, as (field, newest or largest first) steps. The id decides last. In the hybrid order, tasks
#: younger than two days come first by priority, then the rest by age.
SORTS: dict[str, tuple[tuple[str, bool], ...]] = {
    "priority": (("priority", False), ("created_at", True)),
    "oldest": (("created_at", False),),
    "urgent": (("priority", False), ("created_at", False)),
    "hybrid": (("is_old", False), ("young_priority", False), ("created_at", False)),
    "created": (("created_at", True),),
    "updated": (("updated_at", True),),
    "closed": (("closed_at", True),),
    "status": (("status", False),),
    "id": (),
    "title": (("title_in_lower_case", False),),
    "type": (("type", False),),
    "assignee": (("assignee", False),),
}


class Filter(Record):
    """Conditions on tasks. None means that any value fits."""

    ids: tuple[str, ...] | None = None
    id_has: str | None = None  # a part of the id after its prefix
    id_after: str | None = None  # ids after this one, to read a long list in pages
    statuses: tuple[str, ...] | None = None
    not_statuses: tuple[str, ...] | None = None
    unfinished: bool | None = None
    stopped: bool | None = None  # blocked because a person or its workflow stopped it
    priority: int | None = None
    priority_min: int | None = None
    priority_max: int | None = None
    types: tuple[str, ...] | None = None
    not_types: tuple[str, ...] | None = None
    assignee: str | None = None
    unassigned: bool | None = None
    labels: tuple[str, ...] | None = None  # all of them
    any_label: tuple[str, ...] | None = None
    not_labels: tuple[str, ...] | None = None
    label_glob: str | None = None
    label_regex: str | None = None
    unlabelled: bool | None = None
    text: str | None = None  # in title, description or id
    title_has: str | None = None
    description_has: str | None = None
    notes_has: str | None = None
    undescribed: bool | None = None
    spec: str | None = None  # prefix of the spec id
    external_ref: str | None = None
    parent: str | None = None  # direct children
    under: str | None = None  # descendants
    orphan: bool | None = None  # without a parent
    created_after: datetime | None = None
    created_before: datetime | None = None
    updated_after: datetime | None = None
    updated_before: datetime | None = None
    closed_after: datetime | None = None
    closed_before: datetime | None = None
    deferred: bool | None = None
    defer_after: datetime | None = None
    defer_before: datetime | None = None
    due_after: datetime | None = None
    due_before: datetime | None = None
    overdue: bool | None = None
    pinned: bool | None = None
    template: bool | None = None
    ephemeral: bool | None = None
    metadata: Mapping[str, str] | None = None
    metadata_key: str | None = None
    ready: bool | None = None  # open and unblocked; only its time may keep it from starting
    due_to_start: bool | None = None  # neither the task nor its parent is deferred
    work: bool | None = None  # a type that can be worked on
    claimable: bool | None = None  # ready and unclaimed
    blocked: bool | None = None
    coder: str | None = None
    # one of these; "" matches tasks without a coder; the same for accounts and modes
    coders: tuple[str, ...] | None = None
    account: str | None = None
    accounts: tuple[str, ...] | None = None
    mode: str | None = None
    modes: tuple[str, ...] | None = None
    origins: tuple[str, ...] | None = None
    not_origins: tuple[str, ...] | None = None
    offers: tuple[str, ...] | None = None  # the words include all requirements of the task
    requires: bool | None = None  # the task has requirements for its host
    batch: str | None = None
    made_by: str | None = None  # created by runs of this task
    repo: str | None = None
    branch: str | None = None
    branches: tuple[str, ...] | None = None
    workspace: str | None = None


class Lane(Record):
    """Room for at most `room` tasks that fit `where`.

    With a `limit`, the coder and account of `seat` may have at most that many agents on all hosts together.
    """

    room: int
    where: Filter = Filter()
    limit: int | None = None
    seat: tuple[str, str] = ("", "")


READY = Filter(ready=True, due_to_start=True, work=True, ephemeral=False)


def claimable_in(lane: Lane) -> Filter:
    """Return the filter for tasks that a supervisor may claim in a lane: ready work without an owner."""
    return lane.where.replace(ready=True, due_to_start=True, work=True, claimable=True)


def by_lane(where: Filter) -> list[Filter]:
    """Return filters for one coder, account and mode each that together find the same tasks as `where`.

    An index can return one such lane in order, but not several. If `where` does not limit all three, it is returned
    alone.
    """
    coders = _merge_names(where.coder, where.coders)
    accounts = _merge_names(where.account, where.accounts)
    modes = _merge_names(where.mode, where.modes)
    if coders is None or accounts is None or modes is None:
        return [where]
    alone = where.replace(coders=None, accounts=None, modes=None)
    ways = product(coders, accounts, modes)
    return [alone.replace(coder=coder, account=account, mode=mode) for coder, account, mode in ways]


def _merge_names(one: str | None, several: tuple[str, ...] | None) -> list[str] | None:
    if several is None:
        return None if one is None else [one]
    return [name for name in dict.fromkeys(several) if one in (None, name)]
