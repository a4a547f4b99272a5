"""Changes to a task, given in parts and applied in one step."""

from __future__ import annotations

from fleet.core.errors import BadInput
from fleet.core.record import Record
from fleet.core.task import SPEC_FIELDS, Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from fleet.core.task import Task

FLEET_KEY = "fleet."


class Patch(Record):
    """A change. Plain fields are given by name, others by how they change."""

    fields: dict[str, Any] = {}  # noqa: RUF012
    status: str | None = None
    append_notes: str | None = None
    set_labels: tuple[str, ...] | None = None
    add_labels: tuple[str, ...] = ()
    remove_labels: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}  # noqa: RUF012 - merged at the top level
    unset_metadata: tuple[str, ...] = ()
    defer_until: datetime | None = None
    undefer: bool = False

    @property
    def is_empty(self) -> bool:
        return self == Patch()

    def on(self, task: Task, now: datetime) -> Task:
        changed = task.moved(self.status, now) if self.status is not None else task
        changes: dict[str, Any] = {**self.fields, **self._labels(task), **self._deferral(changed, now)}
        if self.append_notes is not None:
            changes["notes"] = f"{task.notes}\n{self.append_notes}" if task.notes else self.append_notes
        changed = with_metadata(changed.replace(**changes), self.metadata, self.unset_metadata)
        return changed.replace(updated_at=now)

    def _labels(self, task: Task) -> dict[str, Any]:
        kept = set(task.labels if self.set_labels is None else self.set_labels)
        return {"labels": tuple(sorted((kept | set(self.add_labels)) - set(self.remove_labels)))}

    def _deferral(self, task: Task, now: datetime) -> dict[str, Any]:
        if self.undefer:
            opened = {"status": Status.OPEN} if task.status == Status.DEFERRED else {}
            return {"defer_until": None, **opened}
        if self.defer_until is None:
            return {}
        later = self.defer_until > now and task.status == Status.OPEN and self.status is None
        return {"defer_until": self.defer_until, **({"status": Status.DEFERRED} if later else {})}


def with_metadata(task: Task, merged: dict[str, Any], unset: tuple[str, ...] = ()) -> Task:
    """Return the task with metadata merged in. `fleet.` keys of known fields change those fields."""
    own = {**task.metadata, **{key: value for key, value in merged.items() if not is_fleet_key(key)}}
    fields = {key[len(FLEET_KEY) :]: field_text(key, value) for key, value in merged.items() if is_fleet_key(key)}
    for key in unset:
        own.pop(key, None)
        if is_fleet_key(key):
            fields[key[len(FLEET_KEY) :]] = ""
    return task.replace(metadata=own, **fields)


def is_fleet_key(key: str) -> bool:
    """Return True if a metadata key stands for one of fleet's own fields."""
    return key.startswith(FLEET_KEY) and key[len(FLEET_KEY) :] in SPEC_FIELDS


def field_text(key: str, value: Any) -> str:
    """Return a value for one of fleet's own fields. Raises BadInput if it is not text."""
    if not isinstance(value, str):
        raise BadInput(f"metadata {key} takes text, not {type(value).__name__}")
    return value
