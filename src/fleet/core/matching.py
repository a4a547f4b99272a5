"""Whether a task fits a filter: the conditions of `core.filter` over plain data."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from fleet.core.host import required
from fleet.core.task import NOT_WORK, RESOLVED, SPEC_FIELDS, Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import Any

    from fleet.core.filter import Filter
    from fleet.core.task import Task

    #: The tasks one belongs to: its parents, and all above it.
    Kin = Callable[[str], tuple[list[Task], list[Task]]]


def effective(task: Task, key: str) -> Any:
    """A metadata value by its key; fleet's own fields are found under `fleet.`."""
    if key.startswith("fleet.") and key[6:] in SPEC_FIELDS:
        return getattr(task, key[6:]) or None
    return task.metadata.get(key)


def as_text(value: Any) -> str | None:
    """A metadata value the way a person writes it in a filter; lists and objects have no such way."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def matches(task: Task, where: Filter, *, now: datetime, kin: Kin) -> bool:
    """Whether a task fits a filter."""
    for name, wanted in where.as_dict().items():
        if wanted is not None and not _CONDITIONS[name](task, wanted, now, kin):
            return False
    return True


def may_be_claimed(task: Task) -> bool:
    """Whether a supervisor may take a task once its time has come."""
    free = not task.is_blocked and not task.pinned and not task.is_template and not task.is_claimed
    return free and task.status in (Status.OPEN, Status.DEFERRED) and task.assignee == "" and not task.ephemeral


def folded(text: str) -> str:
    """Text as a search compares it."""
    return text.lower()


def globbed(label: str, pattern: str) -> bool:
    """Whether a label fits a shell pattern."""
    return fnmatchcase(label, pattern)


def searched(label: str, pattern: str) -> bool:
    """Whether a regular expression is found in a label."""
    return re.search(pattern, label) is not None


def _later(instant: datetime | None, than: datetime) -> bool:
    return instant is not None and instant > than


def _earlier(instant: datetime | None, than: datetime) -> bool:
    return instant is not None and instant < than


def _is_due_to_start(task: Task, now: datetime, kin: Kin) -> bool:
    holders = [task, *kin(task.id)[0]]
    return all(each.defer_until is None or each.defer_until <= now for each in holders)


_CONDITIONS: dict[str, Callable[[Task, Any, datetime, Kin], bool]] = {
    "ids": lambda t, w, now, up: t.id in w,
    "id_has": lambda t, w, now, up: w in t.id[t.id.find("-") + 1 :],
    "id_after": lambda t, w, now, up: t.id > w,
    "statuses": lambda t, w, now, up: t.status in w,
    "not_statuses": lambda t, w, now, up: t.status not in w,
    "unfinished": lambda t, w, now, up: (t.status != Status.CLOSED) is w,
    "priority": lambda t, w, now, up: t.priority == w,
    "priority_min": lambda t, w, now, up: t.priority >= w,
    "priority_max": lambda t, w, now, up: t.priority <= w,
    "types": lambda t, w, now, up: t.type in w,
    "not_types": lambda t, w, now, up: t.type not in w,
    "assignee": lambda t, w, now, up: t.assignee == w,
    "unassigned": lambda t, w, now, up: (t.assignee == "") is w,
    "labels": lambda t, w, now, up: set(w) <= set(t.labels),
    "any_label": lambda t, w, now, up: not set(w).isdisjoint(t.labels),
    "not_labels": lambda t, w, now, up: set(w).isdisjoint(t.labels),
    "label_glob": lambda t, w, now, up: any(globbed(label, w) for label in t.labels),
    "label_regex": lambda t, w, now, up: any(searched(label, w) for label in t.labels),
    "unlabelled": lambda t, w, now, up: (not t.labels) is w,
    "text": lambda t, w, now, up: any(folded(w) in folded(part) for part in (t.title, t.description, t.id)),
    "title_has": lambda t, w, now, up: folded(w) in folded(t.title),
    "description_has": lambda t, w, now, up: folded(w) in folded(t.description),
    "notes_has": lambda t, w, now, up: folded(w) in folded(t.notes),
    "undescribed": lambda t, w, now, up: (t.description == "") is w,
    "spec": lambda t, w, now, up: t.spec_id.startswith(w),
    "external_ref": lambda t, w, now, up: t.external_ref == w != "",
    "parent": lambda t, w, now, up: any(each.id == w for each in up(t.id)[0]),
    "under": lambda t, w, now, up: any(each.id == w for each in up(t.id)[1]),
    "orphan": lambda t, w, now, up: (not up(t.id)[0]) is w,
    "created_after": lambda t, w, now, up: _later(t.created_at, w),
    "created_before": lambda t, w, now, up: _earlier(t.created_at, w),
    "updated_after": lambda t, w, now, up: _later(t.updated_at, w),
    "updated_before": lambda t, w, now, up: _earlier(t.updated_at, w),
    "closed_after": lambda t, w, now, up: _later(t.closed_at, w),
    "closed_before": lambda t, w, now, up: _earlier(t.closed_at, w),
    "deferred": lambda t, w, now, up: (t.defer_until is not None) is w,
    "defer_after": lambda t, w, now, up: _later(t.defer_until, w),
    "defer_before": lambda t, w, now, up: _earlier(t.defer_until, w),
    "due_after": lambda t, w, now, up: _later(t.due_at, w),
    "due_before": lambda t, w, now, up: _earlier(t.due_at, w),
    "overdue": lambda t, w, now, up: (_earlier(t.due_at, now) and t.status != Status.CLOSED) is w,
    "pinned": lambda t, w, now, up: (t.pinned or t.status == Status.PINNED) is w,
    "template": lambda t, w, now, up: t.is_template is w,
    "ephemeral": lambda t, w, now, up: t.ephemeral is w,
    "metadata": lambda t, w, now, up: all(as_text(effective(t, key)) == value for key, value in w.items()),
    "metadata_key": lambda t, w, now, up: effective(t, w) is not None,
    "ready": lambda t, w, now, up: _is_ready(t, now) is w,
    "due_to_start": lambda t, w, now, up: _is_due_to_start(t, now, up) is w,
    "work": lambda t, w, now, up: (t.type not in NOT_WORK) is w,
    "claimable": lambda t, w, now, up: (_is_ready(t, now) and t.assignee == "" and not t.ephemeral) is w,
    "blocked": lambda t, w, now, up: (t.is_blocked and t.status not in RESOLVED) is w,
    "coder": lambda t, w, now, up: t.coder == w,
    "coders": lambda t, w, now, up: t.coder in w,
    "account": lambda t, w, now, up: t.account == w,
    "accounts": lambda t, w, now, up: t.account in w,
    "mode": lambda t, w, now, up: t.mode == w,
    "modes": lambda t, w, now, up: t.mode in w,
    "origins": lambda t, w, now, up: t.origin in w,
    "not_origins": lambda t, w, now, up: t.origin not in w,
    "offers": lambda t, w, now, up: _is_offered(t, w),
    "requires": lambda t, w, now, up: (t.requires != "") is w,
    "batch": lambda t, w, now, up: t.batch == w != "",
    "made_by": lambda t, w, now, up: t.made_by == w != "",
    "repo": lambda t, w, now, up: t.repo == w,
    "branch": lambda t, w, now, up: t.branch == w != "",
    "branches": lambda t, w, now, up: t.branch in w and t.branch != "",
    "workspace": lambda t, w, now, up: t.workspace == w,
}


def _is_offered(task: Task, words: tuple[str, ...]) -> bool:
    wanted = required(task.requires)
    return wanted is not None and set(wanted) <= set(words)


def _is_ready(task: Task, now: datetime) -> bool:
    return (
        task.can_start(now) and not task.is_blocked and not task.pinned and not task.is_template and not task.is_claimed
    )
