"""bd label and tag: labels of tasks."""

from __future__ import annotations

from fleet.actions.tasks import tasks
from fleet.beads.format import issue
from fleet.cli.bd.session import NoMatch
from fleet.cli.text import clean
from fleet.core import checks
from fleet.core.errors import BadInput
from fleet.core.filter import Filter
from fleet.core.patch import Patch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.cli.bd.session import Session
    from fleet.core.task import Task

FLAGS: dict[str, str] = {}

RESERVED = "provides:"


def add(session: Session) -> int:
    *words, last = session.arguments.at_least(2)
    names = _new_labels(last)
    keys = _find_all(session, words)
    _change(session, keys, Patch(add_labels=names))
    return _answer(session, keys, names, "added", "Added", "to")


def remove(session: Session) -> int:
    *words, last = session.arguments.at_least(2)
    names = _labels(last)
    keys = _find_all(session, words)
    _change(session, keys, Patch(remove_labels=names))
    return _answer(session, keys, names, "removed", "Removed", "from")


def list_labels(session: Session) -> int:
    (word,) = session.arguments.exactly(1)
    key = session.find(word, doing=f"resolving {word}")
    found = session.store.tasks.get(key).labels
    if session.json:
        return session.answer(list(found))
    if found:
        session.say("\n".join([f"\n🏷 Labels for {key}:", *(f"  - {clean(name)}" for name in found), ""]))
    else:
        session.say(f"\n{key} has no labels")
    return 0


def list_all(session: Session) -> int:
    found = session.store.tasks.labels()
    if session.json:
        return session.answer([{"label": name, "count": count} for name, count in found.items()])
    if not found:
        session.say("\nNo labels found in database")
        return 0
    shown = [(clean(name), count) for name, count in found.items()]
    width = max(len(name) for name, _ in shown)
    session.say(f"\n🏷 All labels ({len(shown)} unique):")
    session.say("\n".join(f"  {name:<{width}}  ({count} issues)" for name, count in shown) + "\n")
    return 0


def propagate(session: Session) -> int:
    word, last = session.arguments.exactly(2)
    names = _new_labels(last)
    parent = session.find(word, doing=f"resolving parent {word}")
    with session.store.atomic():
        keys = [task.id for task in session.store.tasks.find(Filter(parent=parent), sort="id")]
        _change(session, keys, Patch(add_labels=names))
    if not keys and not session.json:
        session.say(f"No children found for {parent}")
        return 0
    return _answer(session, keys, names, "propagated", "Propagated", "to")


def tag(session: Session) -> int:
    word, last = session.arguments.exactly(2)
    names = _new_labels(last)
    key = session.find(word, doing=f"resolving {word}")
    (task,) = _change(session, [key], Patch(add_labels=names))
    if session.json:
        return session.answer(issue(task))
    session.say(f"✓ Added {_quoted(names, chr(34))} to {key} — {clean(task.title)}")
    return 0


def _labels(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not found:
        raise BadInput("label cannot be empty", hint="`bd label add <id…> <label>`")
    return found


def _new_labels(text: str) -> tuple[str, ...]:
    names = _labels(text)
    checks.labels(list(names))
    for name in names:
        if name.startswith(RESERVED):
            raise BadInput(
                f"'{RESERVED}' labels are reserved for cross-project capabilities", hint="choose another word"
            )
    return names


def _find_all(session: Session, words: list[str]) -> list[str]:
    try:
        return list(dict.fromkeys(session.find(word, doing=f'resolving issue ID "{word}"') for word in words))
    except NoMatch as error:
        if len(words) == 1:
            raise
        more = "to add multiple labels, pass one comma-separated argument: bd label add <issue-id> label1,label2"
        raise BadInput(f"{error} ({more})", hint=error.hint) from error


def _change(session: Session, keys: list[str], patch: Patch) -> list[Task]:
    """Change the labels of tasks, all or none, and return the tasks. Tasks without a change are not written."""
    with session.store.atomic():
        found = [session.store.tasks.get(key) for key in keys]
        now = session.store.now()
        return [
            task if patch.on(task, now).labels == task.labels else tasks.update(session.store, task.id, patch)
            for task in found
        ]


def _answer(session: Session, keys: list[str], names: tuple[str, ...], status: str, told: str, link: str) -> int:
    if session.json:
        return session.answer([{"issue_id": key, "label": name, "status": status} for key in keys for name in names])
    session.say("\n".join(f"✓ {told} {_quoted(names, chr(39))} {link} {key}" for key in keys))
    return 0


def _quoted(names: tuple[str, ...], quote: str) -> str:
    return f"label{'s' * (len(names) > 1)} " + ", ".join(f"{quote}{clean(name)}{quote}" for name in names)
