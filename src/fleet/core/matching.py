"""Conditions of `core.filter` that Python evaluates, because databases differ in letters, patterns and numbers."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from fleet.core.task import SPEC_FIELDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fleet.core.filter import Filter
    from fleet.core.task import Task


def effective(task: Task, key: str) -> Any:
    """Return a metadata value by its key. fleet's own fields have keys under `fleet.`."""
    if key.startswith("fleet.") and key[6:] in SPEC_FIELDS:
        return getattr(task, key[6:]) or None
    return task.metadata.get(key)


def as_text(value: Any) -> str | None:
    """Return a metadata value as a person writes it in a filter. None for lists and objects."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def matches(task: Task, where: Filter) -> bool:
    """Return True if a task meets all conditions of a filter that are in `JUDGED`."""
    asked = {name: wanted for name in JUDGED if (wanted := getattr(where, name)) is not None}
    return all(JUDGED[name](task, wanted) for name, wanted in asked.items())


def fold_text(text: str) -> str:
    """Return text in the form that a search compares."""
    return text.lower()


def matches_label_glob(label: str, pattern: str) -> bool:
    return fnmatchcase(label, pattern)


def matches_label_regex(label: str, pattern: str) -> bool:
    return re.search(pattern, label) is not None


JUDGED: dict[str, Callable[[Task, Any], bool]] = {
    "label_glob": lambda t, w: any(matches_label_glob(label, w) for label in t.labels),
    "label_regex": lambda t, w: any(matches_label_regex(label, w) for label in t.labels),
    "text": lambda t, w: any(fold_text(w) in fold_text(part) for part in (t.title, t.description, t.id)),
    "title_has": lambda t, w: fold_text(w) in fold_text(t.title),
    "description_has": lambda t, w: fold_text(w) in fold_text(t.description),
    "notes_has": lambda t, w: fold_text(w) in fold_text(t.notes),
    "metadata": lambda t, w: all(as_text(effective(t, key)) == value for key, value in w.items()),
    "metadata_key": lambda t, w: effective(t, w) is not None,
}
