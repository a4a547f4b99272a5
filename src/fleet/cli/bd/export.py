"""bd export: the queue as JSONL, one task per line ordered by ID, so that two exports can be compared."""

from __future__ import annotations

import sys
from collections import Counter

from fleet.actions.tasks.interchange import pages
from fleet.beads.format import comment, edge, issue
from fleet.cli.bd.issue import counts
from fleet.cli.bd.list_issues import INFRA
from fleet.core.dependency import BLOCKING
from fleet.core.errors import UsageError
from fleet.core.filter import Filter
from fleet.core.jsontext import encode_printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

    from fleet.cli.bd.session import Session
    from fleet.core.task import Task
    from fleet.store.base import Store

FLAGS = {
    "export": """
-o --output TEXT     | the file to write, whole or not at all (default: stdout)
--all                | also infrastructure, templates and ephemeral tasks
--include-infra      | also agents, roles, rigs and messages
--scrub              | leave out what looks like a test: titles that begin with test, tmp, debug and the like
--exclude-owner EACH | leave out what this person made
--include-memories   | accepted; there are none
--no-memories        | accepted; there are none
""",
}

TEST_WORDS = ("test", "benchmark", "sample", "tmp", "temp", "debug", "dummy")
#: Fields that bd writes after an issue's comments.
LATE = ("ephemeral", "no_history", "pinned", "is_template")


def export(session: Session) -> int:
    if session.arguments.words:
        raise UsageError(f"export takes no words, got {session.arguments.words[0]!r}", hint="`bd export -o FILE`")
    path = session.arguments.text("output")
    with session.store.snapshot():
        hidden = _hidden(session)
        if path:
            from fleet.files import atomic_write

            atomic_write(path, lines(session.store, hidden))
            session.warn(f"Exported {session.store.tasks.count(Filter())[''] - len(hidden)} issues to {path}")
            return 0
        sys.stdout.flush()
        for line in lines(session.store, hidden):
            sys.stdout.buffer.write(line)
    return 0


def lines(store: Store, hidden: Collection[str] = ()) -> Iterator[bytes]:
    """Yield each task as one line of JSON, except hidden tasks. Call this function inside `snapshot`."""
    for page in pages(store, Filter()):
        for row in _rows(store, [task for task in page if task.id not in hidden], hidden):
            yield _line(row)


def _hidden(session: Session) -> set[str]:
    """Return the IDs of tasks to leave out. Exported tasks do not mention them either."""
    store, arguments = session.store, session.arguments
    wheres = [Filter(template=True), Filter(ephemeral=True)] * (not arguments.flag("all"))
    if not arguments.flag("all") and not arguments.flag("include-infra"):
        wheres.append(Filter(types=INFRA))
    hidden = {task.id for where in wheres for page in pages(store, where) for task in page}
    owners, scrub = arguments.many("exclude-owner"), arguments.flag("scrub")
    if owners or scrub:
        for page in pages(store, Filter()):
            hidden |= {task.id for task in page if task.created_by in owners or (scrub and _is_test(task.title))}
    return hidden


def _rows(store: Store, page: list[Task], hidden: Collection[str]) -> Iterator[dict[str, Any]]:
    ids = [task.id for task in page]
    down, up = store.edges.find(ids), store.edges.find(ids, up=True) if hidden else []
    unseen = Counter(("dependency_count", e.task) for e in down if e.needs in hidden and e.type in BLOCKING)
    unseen += Counter(("dependent_count", e.needs) for e in up if e.task in hidden and e.type in BLOCKING)
    ties: dict[str, dict[str, list[Any]]] = {key: {} for key in ids}
    for each in sorted(down, key=lambda e: e.needs):
        if each.needs not in hidden:
            ties[each.task].setdefault("dependencies", []).append(edge(each, exact=True))
    for said in sorted(store.comments.find(ids), key=lambda c: (c.created_at, c.id)):
        ties[said.task_id].setdefault("comments", []).append(comment(said, exact=True))
    tallies = store.tasks.tallies(ids)
    for task in page:
        row = issue(task, exact=True)
        late = {name: row.pop(name) for name in (*LATE, *task.extra) if name in row}
        numbers = {name: number - unseen[name, task.id] for name, number in counts(tallies[task.id]).items()}
        yield {"_type": "issue", **row, **ties[task.id], **late, **numbers}


def _line(row: dict[str, Any]) -> bytes:
    return encode_printable(row).encode() + b"\n"


def _is_test(title: str) -> bool:
    lower = title.lower()
    return any(lower.startswith(word) and lower[len(word) : len(word) + 1] in tuple("-_ \t\n") for word in TEST_WORDS)
