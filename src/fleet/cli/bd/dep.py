"""bd dep: add and remove dependencies between tasks."""

from __future__ import annotations

from fleet.actions.tasks import dependencies
from fleet.cli.bd.session import enveloped, read_source
from fleet.cli.text import clean
from fleet.core.dependency import BLOCKS, EXTERNAL
from fleet.core.errors import BadInput, DependencyRefused, FleetError, UsageError
from fleet.core.jsontext import decode, encode_printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fleet.cli.bd.session import Session

_UNCHECKED = "--no-cycle-check | with --file, look for circles once at the end instead of at each line"

FLAGS = {
    "dep": f"""
-b --blocks TEXT | the task that waits for the one named
{_UNCHECKED}
""",
    "add": f"""
--blocked-by TEXT | what the task waits for, instead of a second id
--depends-on TEXT | the same
-t --type TEXT    | blocks (default), parent-child, related, discovered-from, tracks, …
--file TEXT       | read JSONL, - for stdin: {{"from": ID, "to": ID, "type": TYPE}}; all or nothing
{_UNCHECKED}
""",
}

#: Phrases for dependency types. Types without an entry read "depends on".
PHRASES = {
    "parent-child": "is a child of",
    "conditional-blocks": "conditionally depends on",
    "waits-for": "waits for",
    "related": "is related to",
    "relates-to": "relates to",
    "discovered-from": "was discovered from",
    "replies-to": "replies to",
    "duplicates": "duplicates",
    "supersedes": "is superseded by",
    "authored-by": "was authored by",
    "assigned-to": "is assigned to",
    "approved-by": "was approved by",
    "attests": "attests",
    "tracks": "tracks",
    "until": "is active until",
    "caused-by": "was caused by",
    "validates": "validates",
    "delegated-from": "was delegated from",
}


def dep(session: Session) -> int:
    arguments = session.arguments
    if len(arguments.words) > 1:
        raise UsageError(
            f"accepts at most 1 arg(s), received {len(arguments.words)}", hint="`bd dep add A B`: A waits for B"
        )
    if not arguments.has("blocks"):
        from fleet.cli.bd.verbs import Verb, show_verb

        return show_verb(Verb("dep"))
    if not arguments.words:
        raise UsageError("--blocks requires exactly one issue ID argument")
    blocker = _find(session, arguments.words[0])
    blocked = _find(session, arguments.text("blocks"))
    dependencies.add(session.store, blocked, blocker, actor=session.actor)
    if session.json:
        return session.answer({"status": "added", "blocker_id": blocker, "blocked_id": blocked, "type": BLOCKS})
    session.say(f"✓ Added dependency: {_named(session, blocker)} blocks {_named(session, blocked)}")
    return 0


def add(session: Session) -> int:
    if session.arguments.has("file"):
        return _add_file(session)
    first, second = _two_ids(session)
    kind = dependencies.known_type(session.arguments.text("type", BLOCKS))
    task, needs = _find(session, first), _find_needed(session, second)
    dependencies.add(session.store, task, needs, kind, actor=session.actor)
    if session.json:
        return session.answer({"status": "added", "issue_id": task, "depends_on_id": needs, "type": kind})
    phrase = PHRASES.get(kind, "depends on")
    session.say(f"✓ Added dependency: {_named(session, task)} {phrase} {_named(session, needs)} ({kind})")
    return 0


def remove(session: Session) -> int:
    first, second = session.arguments.exactly(2)
    task = _find(session, first)
    needs = second if second.startswith(EXTERNAL) else _find_needed(session, second)
    session.store.edges.remove(task, needs)
    if session.json:
        return session.answer({"status": "removed", "issue_id": task, "depends_on_id": needs})
    session.say(f"✓ Removed dependency: {_named(session, task)} → {_named(session, needs)}")
    return 0


def relate(session: Session) -> int:
    one, other = _pair(session)
    try:
        dependencies.relate(session.store, one, other, actor=session.actor)
    except DependencyRefused as error:
        raise BadInput(f"failed to add relates-to {one} -> {other}: {error}", hint=error.hint) from error
    return _answer_pair(session, one, other, "related", "Linked")


def unrelate(session: Session) -> int:
    one, other = _pair(session)
    dependencies.unrelate(session.store, one, other)
    return _answer_pair(session, one, other, "unrelated", "Unlinked")


def _two_ids(session: Session) -> tuple[str, str]:
    arguments = session.arguments
    other = arguments.text("blocked-by") or arguments.text("depends-on")
    if other and len(arguments.words) == 2:
        raise UsageError("cannot use both positional depends-on-id and --blocked-by/--depends-on flag")
    words = [*arguments.words, other] if other else arguments.words
    if len(words) != 2:
        raise UsageError(
            f"requires 2 arg(s), only received {len(arguments.words)} (or use --blocked-by/--depends-on flag)",
            hint="`bd dep add A B`: A waits for B",
        )
    return words[0], words[1]


def _add_file(session: Session) -> int:
    arguments = session.arguments
    if arguments.words or arguments.has("blocked-by") or arguments.has("depends-on"):
        raise UsageError("--file cannot be used with positional issue IDs")
    text = read_source(arguments.text("file"))
    kind = dependencies.known_type(arguments.text("type", BLOCKS))
    ties: list[tuple[str, str, str]] = []
    problems: list[str] = []
    with session.store.atomic():
        for number, line in enumerate(text.split("\n"), 1):
            try:
                ties += [_tie(session, line, kind)] if line.strip() else []
            except FleetError as error:
                problems.append(f"line {number}: {error}")
        if problems:
            raise BadInput("\n  ".join(["bulk dependency validation failed:", *problems]))
        if not ties:
            raise BadInput("no dependency edges found", hint='one object a line: {"from": "fleet-a", "to": "fleet-b"}')
        check_each = not arguments.flag("no-cycle-check")
        dependencies.add_all(session.store, ties, actor=session.actor, check_each=check_each)
    if session.json:
        rows = [{"issue_id": task, "depends_on_id": needs, "type": type_} for task, needs, type_ in ties]
        return session.answer({"status": "added", "count": len(rows), "dependencies": rows})
    session.say(f"✓ Added {len(ties)} dependenc{'y' if len(ties) == 1 else 'ies'}")
    return 0


def _tie(session: Session, line: str, kind: str) -> tuple[str, str, str]:
    try:
        row = decode(line)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"invalid JSON: {error}") from error
    if not isinstance(row, dict):
        raise BadInput("invalid JSON: not an object")
    task, needs = _text_of(row, "from", "issue_id"), _text_of(row, "to", "depends_on_id")
    kind = dependencies.known_type(_text_of(row, "type", default=kind))
    return _find(session, task), _find_needed(session, needs), kind


def _text_of(row: dict[str, Any], *names: str, default: str = "") -> str:
    value = next((row[name] for name in names if row.get(name)), default)
    if not isinstance(value, str):
        raise BadInput(f"invalid JSON: {names[0]} is not text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadInput(f"invalid JSON: {names[0]} has half of a surrogate pair") from None
    if not value.strip():
        raise BadInput(f"missing {names[0]}")
    return value.strip()


def _pair(session: Session) -> tuple[str, str]:
    one, other = session.arguments.exactly(2)
    return session.find(one, doing=f"failed to resolve {one}"), session.find(other, doing=f"failed to resolve {other}")


def _find(session: Session, text: str) -> str:
    return session.find(text, doing=f"resolving issue ID {text}")


def _find_needed(session: Session, text: str) -> str:
    if text.startswith(EXTERNAL):
        return dependencies.check_external(text)
    return session.find(text, doing=f"resolving dependency ID {text}: resolving issue ID {text}")


def _named(session: Session, key: str) -> str:
    return clean(key) if key.startswith(EXTERNAL) else f"{key} ({clean(session.store.tasks.get(key).title)})"


def _answer_pair(session: Session, one: str, other: str, word: str, told: str) -> int:
    answer = {"id1": one, "id2": other, word: True}
    if session.json and enveloped():
        return session.answer(answer)
    # bd prints this one answer without its schema version.
    session.say(encode_printable(answer, 2) if session.json else f"✓ {told} {one} ↔ {other}")
    return 0
