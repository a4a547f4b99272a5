"""Checks of a task's fields. Each refusal names the fault and a correct value."""

from __future__ import annotations

from fleet.core.errors import BadInput
from fleet.core.task import CATEGORIES, TYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

LONGEST_TITLE = 500
LONGEST_NAME = 255
LONGEST_TEXT = 16 * 1024 * 1024

TYPE_ALIASES = {
    "enhancement": "feature",
    "feat": "feature",
    "dec": "decision",
    "adr": "decision",
    "investigation": "spike",
    "timebox": "spike",
    "user-story": "story",
    "user_story": "story",
    "ms": "milestone",
    "mr": "merge-request",
    "mol": "molecule",
}


def title(text: str) -> str:
    """Return a title: one line of 1 to 500 characters. Raises BadInput."""
    if not text.strip():
        raise BadInput("title is required", hint='`bd create "what is to be done"`')
    if len(text) > LONGEST_TITLE:
        raise BadInput(
            f"title must be {LONGEST_TITLE} characters or less (got {len(text)})",
            hint="move the rest to --description or --body-file",
        )
    return line("title", text, longest=LONGEST_TITLE)


def line(what: str, text: str, *, longest: int = LONGEST_NAME) -> str:
    """Return one line of printable text, such as a name, a label or a reference. Raises BadInput."""
    if len(text) > longest:
        raise BadInput(f"{what} must be {longest} characters or less (got {len(text)})", hint="shorten it")
    for char in text:
        if char < " " or "\x7f" <= char <= "\x9f" or char in "\u2028\u2029":
            raise BadInput(
                f"{what} has the control character U+{ord(char):04X}", hint="write it on one line of plain text"
            )
    return text


def model(text: str) -> str:
    """Return the name of a model. Raises BadInput for an option that was written in its place."""
    if text.startswith("-"):
        raise BadInput(f"{text!r} is not the name of a model", hint="pass --model MODEL.")
    return line("model", text)


def body(what: str, text: str) -> str:
    """Return free text of limited size without NUL. Raises BadInput."""
    if len(text) > LONGEST_TEXT:
        raise BadInput(
            f"{what} is longer than {LONGEST_TEXT // 2**20} MiB", hint="write the text to a file and name the file"
        )
    if "\0" in text:
        raise BadInput(f"{what} contains a NUL character", hint="remove it: fleet passes the text to agents unchanged")
    return text


def priority(text: str) -> int:
    """Return the number of a priority, written as 0 to 4 or P0 to P4. Raises BadInput."""
    digits = text.strip().upper().removeprefix("P")
    if len(digits) == 1 and digits in "01234":
        return int(digits)
    raise BadInput(
        f'invalid priority "{text}" (expected 0-4 or P0-P4, not words like high/medium/low)',
        hint="pass 0 (most urgent) to 4 (backlog); 2 is the default",
    )


def task_type(text: str, config: Mapping[str, str]) -> str:
    """Return a type that bd knows or that the queue's settings add. Raises BadInput."""
    name = TYPE_ALIASES.get(text.lower(), text.lower())
    allowed = (*TYPES, *custom_types(config))
    if name in allowed:
        return name
    raise BadInput(
        f"invalid issue type: {text}",
        hint=f"types: {', '.join(allowed)}; `bd config set types.custom {text}` adds one",
    )


def status(text: str, config: Mapping[str, str]) -> str:
    """Return a status that bd knows or that the queue's settings add. Raises BadInput."""
    allowed = (*CATEGORIES, *custom_statuses(config))
    if text in allowed:
        return text
    raise BadInput(f"invalid status: {text}", hint=f"statuses: {', '.join(allowed)}")


def custom_types(config: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name.strip() for name in config.get("types.custom", "").split(",") if name.strip())


def custom_statuses(config: Mapping[str, str]) -> dict[str, str]:
    """Return the statuses that the settings add, with their categories. The default category is "unspecified"."""
    found = {}
    for entry in config.get("status.custom", "").split(","):
        name, _, category = entry.strip().partition(":")
        if name:
            found[name] = category or "unspecified"
    return found


def custom_status_setting(text: str) -> str:
    """Return a value for `status.custom`: names with an optional category. Raises BadInput."""
    for name, category in custom_statuses({"status.custom": text}).items():
        plain = name.replace("_", "").replace("-", "")
        if not (plain.isascii() and plain.isalnum() and name == name.lower() and name[0].isalpha() and len(name) <= 50):
            raise BadInput(
                f"invalid status name {name!r}", hint="use up to 50 of a-z, 0-9, _ and -, beginning with a letter"
            )
        if name in CATEGORIES:
            raise BadInput(f"status {name!r} is built in", hint="choose another name")
        if category not in ("active", "wip", "done", "frozen", "unspecified"):
            raise BadInput(f"invalid category {category!r} of status {name!r}", hint="pass active, wip, done or frozen")
    return text


def labels(names: list[str]) -> tuple[str, ...]:
    """Return the labels, sorted and each once. Raises BadInput."""
    wanted = {line("label", name.strip()) for name in names if name.strip()}
    return tuple(sorted(wanted))


def metadata_key(key: str) -> str:
    plain = key.replace(".", "").replace("_", "").replace("-", "")
    if key and (key[0].isalpha() or key[0] == "_") and (plain == "" or (plain.isascii() and plain.isalnum())):
        return key
    raise BadInput(f"invalid metadata key {key!r}", hint="use letters, digits, _ . and -, beginning with a letter or _")


def task_id(text: str) -> str:
    """Return an id that a user chose: prefix-name, safe as a folder name. Raises BadInput."""
    name = line("id", text, longest=128)
    plain = name.replace("-", "").replace("_", "").replace(".", "")
    if plain.isascii() and plain.isalnum() and "-" in name.strip("-.") and name[0].isalnum() and ".." not in name:
        return name
    raise BadInput(f"invalid id {text!r}", hint="pass an id like fleet-a3f: a prefix, then letters, digits, - _ and .")
