"""Permanent deletion of tasks, and its effects on related tasks."""

from __future__ import annotations

from fleet.core.dependency import BLOCKING, EXTERNAL, PARENT_CHILD
from fleet.core.errors import IllegalMove
from fleet.core.filter import Filter
from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fleet.core.dependency import Edge
    from fleet.core.task import Task
    from fleet.store.base import Store

TEXTS = ("description", "design", "acceptance", "notes")


class Deletion(Record):
    """The tasks and edges that a deletion removes, and the remaining tasks that it changes."""

    asked: tuple[str, ...]
    tasks: tuple[Task, ...]  # the requested tasks, and with `cascade` their dependents
    edges: tuple[Edge, ...]
    orphans: tuple[str, ...]  # remaining tasks that depended on a deleted task
    mentioning: tuple[Task, ...]  # remaining tasks, with their updated texts

    @property
    def labels(self) -> int:
        return sum(len(task.labels) for task in self.tasks)


def plan(store: Store, task_ids: Iterable[str], *, cascade: bool = False) -> Deletion:
    """Return the effects of deleting these tasks. Raises TaskNotFound."""
    asked = tuple(dict.fromkeys(task_ids))
    going = {key: store.tasks.get(key) for key in asked}
    if cascade:
        going |= {task.id: task for task in _dependents(store, asked)}
    up = store.edges.find(going, up=True)
    edges = {(edge.task, edge.needs): edge for edge in [*store.edges.find(going), *up]}
    near = {end for pair in edges for end in pair if end not in going and not end.startswith(EXTERNAL)}
    changed = [_without_mentions(task, going) for task in _tasks(store, near)]
    return Deletion(
        asked=asked,
        tasks=tuple(going.values()),
        edges=tuple(edges.values()),
        orphans=tuple(sorted({edge.task for edge in up if edge.task not in going})),
        mentioning=tuple(task for task in changed if task is not None),
    )


def check(deletion: Deletion, *, cascade: bool = False) -> None:
    """Raise IllegalMove if only `--force` allows the deletion.

    Such deletions orphan dependents or remove a task that a supervisor holds.
    """
    for task in deletion.tasks:
        if task.is_supervised:
            raise IllegalMove(
                f"issue {task.id} is being worked on: {task.claim_owner} holds it",
                hint="wait until it ends or cancel it first, or pass --force to delete it anyway",
            )
    gone = {task.id for task in deletion.tasks}
    left = {edge.needs for edge in deletion.edges if edge.task not in gone}
    for key in deletion.asked if not cascade else ():
        if key in left:
            raise IllegalMove(
                f"issue {key} has dependents not in deletion set; "
                "use --cascade to delete them or --force to orphan them"
            )


def delete(store: Store, task_ids: Iterable[str], *, cascade: bool = False) -> Deletion:
    """Delete tasks permanently, all or none. Mentions of them in related tasks are marked. Raises TaskNotFound."""
    with store.atomic():
        done = plan(store, task_ids, cascade=cascade)
        now = store.now()
        for task in done.mentioning:
            store.tasks.save(task.replace(updated_at=now))
        for task in done.tasks:
            store.tasks.remove(task.id)
        return done


def struck(text: str, key: str) -> str:
    """Return a text with every mention of a task ID, as a whole word, marked as deleted."""
    parts, start, at = [], 0, text.find(key)
    while at >= 0:
        end = at + len(key)
        if _is_word(text, at, end) and not text.endswith("[deleted:", 0, at):
            parts += [text[start:at], f"[deleted:{key}]"]
            start = end
        at = text.find(key, end)
    return "".join([*parts, text[start:]])


def _dependents(store: Store, asked: Sequence[str]) -> list[Task]:
    # Follow only edges that block or contain work. Merely related tasks stay.
    seen = set(asked)
    frontier = list(asked)
    while frontier:
        kinds = (*BLOCKING, PARENT_CHILD)
        frontier = list({edge.task for edge in store.edges.find(frontier, up=True) if edge.type in kinds} - seen)
        seen |= set(frontier)
    return _tasks(store, seen - set(asked))


def _tasks(store: Store, keys: Iterable[str]) -> list[Task]:
    wanted = tuple(keys)
    return store.tasks.find(Filter(ids=wanted), sort="id") if wanted else []


def _without_mentions(task: Task, going: Iterable[str]) -> Task | None:
    changes = {}
    for field in TEXTS:
        text = before = getattr(task, field)
        for key in going if text else ():
            text = struck(text, key)
        if text != before:
            changes[field] = text
    return task.replace(**changes) if changes else None


def _is_word(text: str, at: int, end: int) -> bool:
    # A dot either ends a sentence or starts a child's number: fleet-abc.1 is another task.
    after = text[end : end + 2]
    child = len(after) == 2 and after[0] == "." and after[1].isalnum()
    return not (at > 0 and _in_id(text[at - 1])) and not (after and _in_id(after[0])) and not child


def _in_id(char: str) -> bool:
    return char.isascii() and (char.isalnum() or char in "-_")
