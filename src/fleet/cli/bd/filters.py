"""Filter flags shared by list, ready, count and search."""

from __future__ import annotations

from fleet.core import checks
from fleet.core.errors import BadInput, UsageError
from fleet.core.filter import Filter
from fleet.core.task import CATEGORIES, TYPES, Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from fleet.cli.bd.session import Session

FILTER_FLAGS = """
-s --status LIST          | statuses, or all
--state LIST              | the same
-p --priority TEXT        | 0-4 or P0-P4
--priority-min TEXT       | at least this number
--priority-max TEXT       | at most this number
-t --type LIST            | types
--exclude-type LIST       | not these types
-a --assignee TEXT        | whose
--no-assignee             | without an assignee
-l --label LIST           | with all of these labels
--label-any LIST          | with one of these labels
--exclude-label LIST      | without these labels
--label-pattern TEXT      | with a label like this, with * and ?
--label-regex TEXT        | with a label that fits this expression
--no-labels               | without labels
--title TEXT              | with this in the title
--title-contains TEXT     | the same
--desc-contains TEXT      | with this in the description
--notes-contains TEXT     | with this in the notes
--empty-description       | without a description
--id LIST                 | these ids
--spec TEXT               | whose spec begins so
--parent TEXT             | children of this task
--no-parent               | without a parent
--created-after TEXT      | made after
--created-before TEXT     | made before
--updated-after TEXT      | changed after
--updated-before TEXT     | changed before
--closed-after TEXT       | closed after
--closed-before TEXT      | closed before
--deferred                | put off
--defer-after TEXT        | put off until after
--defer-before TEXT       | put off until before
--due-after TEXT          | due after
--due-before TEXT         | due before
--overdue                 | due already
--pinned                  | pinned
--no-pinned               | not pinned
--metadata-field EACH     | key=value in the metadata
--has-metadata-key TEXT   | with this key in the metadata
"""

_TEXTS = {
    "title": "title_has",
    "title-contains": "title_has",
    "desc-contains": "description_has",
    "notes-contains": "notes_has",
    "assignee": "assignee",
    "label-pattern": "label_glob",
    "label-regex": "label_regex",
    "spec": "spec",
    "has-metadata-key": "metadata_key",
}
_SWITCHES = {
    "no-assignee": ("unassigned", True),
    "unassigned": ("unassigned", True),
    "no-labels": ("unlabelled", True),
    "empty-description": ("undescribed", True),
    "no-parent": ("orphan", True),
    "deferred": ("deferred", True),
    "overdue": ("overdue", True),
    "pinned": ("pinned", True),
    "no-pinned": ("pinned", False),
}
_INSTANTS = (
    *("created-after", "created-before", "updated-after", "updated-before", "closed-after", "closed-before"),
    *("defer-after", "defer-before", "due-after", "due-before"),
)
_NUMBERS = ("priority", "priority-min", "priority-max")
_LISTS = {"label": "labels", "label-any": "any_label", "exclude-label": "not_labels"}
#: fleet's own fields with an index or a plain column. They are queried directly, not through the metadata.
_COLUMNS = ("coder", "account", "mode", "batch", "repo")


def read_filter(session: Session) -> Filter:
    """Return the filter from the flags. `read_statuses` reads the status flags."""
    arguments = session.arguments
    found: dict[str, Any] = {name: arguments.text(flag) for flag, name in _TEXTS.items() if arguments.has(flag)}
    found |= {name: value for flag, (name, value) in _SWITCHES.items() if arguments.flag(flag)}
    found |= {flag.replace("-", "_"): _moment(session, flag) for flag in _INSTANTS if arguments.has(flag)}
    found |= {name: tuple(filter(None, arguments.many(flag))) for flag, name in _LISTS.items() if arguments.has(flag)}
    found |= {flag.replace("-", "_"): checks.priority(arguments.text(flag)) for flag in _NUMBERS if arguments.has(flag)}
    _check_expression(found.get("label_regex", ""))
    return Filter(**{**found, **_types(session), **_ids(session), **_metadata(session)})


def read_statuses(session: Session) -> tuple[str, ...] | None:
    """Return the requested statuses. Return None if the flag is absent or contains `all`."""
    asked = [text for flag in ("status", "state") for text in session.arguments.many(flag)]
    if not asked or "all" in asked:
        return None
    allowed = (*CATEGORIES, *checks.custom_statuses(session.store.config.all()))
    for text in asked:
        if text not in allowed:
            raise BadInput(f'invalid status "{text}" (valid: {", ".join(allowed)})')
    return tuple(asked)


def hidden_statuses(session: Session) -> tuple[str, ...]:
    """Return the statuses that lists hide by default: pinned, and custom statuses that are done or frozen."""
    custom = checks.custom_statuses(session.store.config.all())
    return (Status.PINNED, *(name for name, category in custom.items() if category in ("done", "frozen")))


def limit_of(session: Session, default: int) -> int:
    """Return the maximum number of rows; 0 means all. Raises UsageError."""
    limit = session.arguments.number("limit", default)
    if limit < 0:
        raise UsageError(f'invalid argument "{limit}" for "--limit" flag: 0 (all) or more')
    return limit


def _check_expression(pattern: str) -> None:
    if pattern:
        import re

        try:
            re.compile(pattern)
        except re.error as error:
            raise BadInput(f"invalid --label-regex {pattern!r}: {error}") from error


def _types(session: Session) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for flag, name in (("type", "types"), ("exclude-type", "not_types")):
        if session.arguments.has(flag):
            found[name] = tuple(_type(session, text) for text in session.arguments.many(flag) if text)
    return found


def _type(session: Session, text: str) -> str:
    name = checks.TYPE_ALIASES.get(text, text)
    allowed = (*TYPES, *checks.custom_types(session.store.config.all()))
    if name not in allowed and name not in checks.TYPE_ALIASES.values():
        raise BadInput(f'invalid issue type "{text}" (valid: {", ".join(allowed)})')
    return name


def _ids(session: Session) -> dict[str, Any]:
    arguments = session.arguments
    found: dict[str, Any] = {}
    if arguments.has("id"):
        found["ids"] = tuple(filter(None, arguments.many("id")))
    if arguments.has("parent"):
        found["parent"] = session.find(arguments.text("parent"))
    return found


def _metadata(session: Session) -> dict[str, Any]:
    wanted: dict[str, str] = {}
    found: dict[str, Any] = {}
    for pair in session.arguments.many("metadata-field"):
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f'invalid --metadata-field: expected key=value, got "{pair}"')
        checks.metadata_key(key)
        column = key.removeprefix("fleet.")
        if key != column and column in _COLUMNS:
            found[column] = value
        else:
            wanted[key] = value
    return {**found, "metadata": wanted} if wanted else found


def _moment(session: Session, flag: str) -> datetime:
    from fleet.core import when

    text = session.arguments.text(flag)
    try:
        return when.parse(text, now=session.store.now().astimezone())
    except BadInput as error:
        raise BadInput(
            f'parsing --{flag}: cannot parse time expression: "{text}" (examples: +6h, tomorrow, 2025-01-15)'
        ) from error
