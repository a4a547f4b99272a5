"""Filling bd with exactly the tasks of the home's file, for a queue that moves into bd."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from fleet.beads.format import comments_from, edges_from, line_of, task_from
from fleet.beads.program import BdRefusal, objects
from fleet.beads.pull import is_same_edge, issues_in
from fleet.core.dependency import EXTERNAL
from fleet.core.errors import IllegalMove, StoreFault
from fleet.core.filter import Filter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from fleet.beads.program import Bd
    from fleet.core.dependency import Edge
    from fleet.core.task import Comment, Task
    from fleet.store.base import Store


SECOND = timedelta(seconds=1)
#: Longest value shown in a difference.
LONGEST_SHOWN = 60
_NONE = object()


class StoredTask(NamedTuple):
    """A task of the file with its edges and comments."""

    task: Task
    edges: list[Edge]
    comments: list[Comment]


class Difference(NamedTuple):
    """Tasks that are missing in bd, tasks that differ there, and tasks that only bd has."""

    missing: list[str]
    other: dict[str, list[Comment]]  # the comments of each that bd lacks
    foreign: list[str]
    how: dict[str, list[str]]  # the ways in which each differs, in words

    def __bool__(self) -> bool:
        return bool(self.missing or self.other or self.foreign)

    def __str__(self) -> str:
        other = [f"{key}: {', '.join(words)}" for key, words in self.how.items()]
        parts = (("are not in bd", self.missing), ("differ there", other), ("are only there", self.foreign))
        return "; ".join(f"{len(each)} {words} ({'; '.join(each[:3])})" for words, each in parts if each)


def read_known(store: Store) -> dict[str, StoredTask]:
    """Return each task of the file with its edges and comments, in the form that bd can store."""
    found = {task.id: StoredTask(task, [], []) for task in store.tasks.find(Filter(), sort="id")}
    for edge in store.edges.find():
        found[edge.task].edges.append(edge)
    said: set[tuple[Any, ...]] = set()
    for comment in store.comments.find(list(found)):
        found[comment.task_id].comments.append(_separate_time(comment, said))
    return found


def difference(export: str, known: dict[str, StoredTask]) -> Difference:
    """Return the changes that an update from bd would make to the file. The result is falsy if there are none."""
    told = {found["id"]: found for found in issues_in(export)}
    other, how = {}, {}
    for key, mine in known.items():
        if key in told and (words := _find_differences(mine, told[key], known)):
            taken = {each.id for each in comments_from(told[key], mine.task.created_at)}
            other[key] = [each for each in _find_missing_comments(mine, told[key]) if each.id not in taken]
            how[key] = words
    missing, foreign = [key for key in known if key not in told], [key for key in told if key not in known]
    return Difference(missing, other, foreign, how)


def _find_differences(mine: StoredTask, found: dict[str, Any], known: dict[str, StoredTask]) -> list[str]:
    """Return the differences between bd's task and ours, in words. Return an empty list if they are the same."""
    now = mine.task.created_at
    words = list(_list_changed_fields(mine.task, task_from(found, mine.task, now)))
    if _find_missing_comments(mine, found) or len(comments_from(found, now)) != len(mine.comments):
        words.append("comments")
    have, told = {(each.task, each.needs): each for each in mine.edges}, edges_from(found, now)
    lost = any(ends not in told or not is_same_edge(edge, told[ends]) for ends, edge in have.items())
    # The file cannot hold an edge to a task that does not exist.
    if lost or any(ends not in have and (ends[1] in known or ends[1].startswith(EXTERNAL)) for ends in told):
        words.append("dependencies")
    return words


def _list_changed_fields(here: Task, there: Task) -> Iterator[str]:
    if here == there:
        return
    for name, value in here.as_dict().items():
        other = getattr(there, name)
        if name == "metadata":
            for key in {**value, **other}:
                if value.get(key, _NONE) != other.get(key, _NONE):
                    ours, theirs = _shorten_value(value.get(key)), _shorten_value(other.get(key))
                    yield f"{name} {key} is {ours} here and {theirs} in bd"
        elif value != other:
            yield f"{name} is {_shorten_value(value)} here and {_shorten_value(other)} in bd"


def _shorten_value(value: Any) -> str:
    text = str(value) if isinstance(value, datetime) else repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _separate_time(comment: Comment, said: set[tuple[Any, ...]]) -> Comment:
    """Return the comment with a time that bd can tell apart.

    bd merges comments with the same author and text within one second. So a repeated comment moves to the next free
    second.
    """
    at = comment.created_at.replace(microsecond=0)
    while (same := (comment.task_id, comment.author, comment.text, at)) in said:
        at += SECOND
    said.add(same)
    return comment if at <= comment.created_at else comment.replace(created_at=at)


def _find_missing_comments(mine: StoredTask, found: dict[str, Any]) -> list[Comment]:
    """Return the comments that bd lacks.

    Comments are compared by author and text, because bd assigns its own ids and times.
    """
    said = Counter((each.author, each.text) for each in comments_from(found, mine.task.created_at))
    unsaid = []
    for each in mine.comments:
        said[each.author, each.text] -= 1
        if said[each.author, each.text] < 0:
            unsaid.append(each)
    return unsaid


PART = 500
#: Maximum number of tasks in one call.
MOST_IDS = 100
#: Settings of the queue that bd also uses. bd gets its prefix when its folder is created and never again.
PREFIX = "issue_prefix"
SETTINGS = ("status.custom", "types.custom")
#: The bd setting that names the queue whose tasks bd holds.
NAME = "custom.fleet_queue"


def fill(bd: Bd, store: Store, name: str, *, keep: Callable[[str], None], tell: Callable[[str, int], None]) -> None:
    """Make bd hold exactly the file's tasks, with their edges and comments.

    Tasks that only bd has are deleted there. If bd has extra or different tasks, `keep` first gets bd's whole export.
    Hold the queue's lock during the call. Raises IllegalMove if bd holds tasks of another queue. Raises StoreFault if
    not all tasks arrived, and Refused or StoreAway if bd fails.
    """
    _settle(bd, store.config.all())
    known, export = read_known(store), bd.run("export", "--all")
    found = difference(export, known)
    if found.foreign and _read_setting(bd, NAME) != name:
        raise IllegalMove(
            f"beads already contains other tasks: {', '.join(found.foreign[:3])}",
            hint="move the home's .beads folder away, or export them (`bd export`) and delete them there",
        )
    if found.foreign or found.other:
        keep(export)
    _write_setting(bd, NAME, name)
    # An import adds labels, comments and edges but removes none, so a differing task is deleted and imported again.
    # Deleting a task changes what other tasks say about it in bd, so the last round imports those again.
    for recreate in (False, True, False):
        if not found:
            return
        _send(bd, known, found, recreate=recreate, tell=tell)
        found = difference(bd.run("export", "--all"), known)
    if found:
        raise make_difference_fault(found)


def compare(bd: Bd, store: Store) -> None:
    """Raise StoreFault unless bd holds exactly the tasks of the file. Raises StoreAway if bd does not answer."""
    if found := difference(bd.run("export", "--all"), read_known(store)):
        raise make_difference_fault(found)


def sign(bd: Bd, name: str) -> None:
    """Record in bd which queue its tasks belong to, so that they can move back to that queue."""
    if _read_setting(bd, NAME) != name:
        _write_setting(bd, NAME, name)


def make_difference_fault(found: Difference) -> StoreFault:
    """Return the error for a bd whose tasks differ from the file's."""
    hint = "run the command again, and report the error if it stays; nothing was switched"
    return StoreFault(f"the tasks were not copied completely: {found}", hint=hint)


def _settle(bd: Bd, settings: dict[str, str]) -> None:
    theirs, ours = _read_setting(bd, PREFIX), settings.get(PREFIX, "")
    if ours and theirs and ours != theirs:
        raise IllegalMove(
            f"ids begin with {ours} in this queue and with {theirs} in bd",
            hint=f"run `bd rename-prefix {ours}-` in the home, or move its .beads folder away",
        )
    for key in SETTINGS:
        if value := settings.get(key):
            bd.run("config", "set", key, value)


def _send(
    bd: Bd, known: dict[str, StoredTask], found: Difference, *, recreate: bool, tell: Callable[[str, int], None]
) -> None:
    gone = [*found.foreign, *(found.other if recreate else ())]
    for start in range(0, len(gone), MOST_IDS):
        bd.run("delete", "--force", *gone[start : start + MOST_IDS])
    said = {} if recreate else found.other
    wanted = {*found.missing, *found.other}
    tasks = [key for key in _in_order(known) if key in wanted]
    for start in range(0, len(tasks), PART):
        part = [known[key] for key in tasks[start : start + PART]]
        _import(bd, [each._replace(comments=said.get(each.task.id, each.comments)) for each in part])
        tell("tasks", len(part))


def _import(bd: Bd, part: Iterable[StoredTask]) -> None:
    text = "".join(line_of(each.task, each.edges, each.comments) for each in part)
    answer = objects(bd.run("import", "-", "--allow-stale", "--json", text=text))
    skipped = answer[0].get("skipped_dependencies") if answer else None
    if skipped:
        raise BdRefusal(f"bd rejects these dependencies: {skipped[:3]}")


def _read_setting(bd: Bd, key: str) -> str:
    found = objects(bd.run("config", "list", "--json"))
    return str(found[0].get(key) or "") if found else ""


def _write_setting(bd: Bd, key: str, value: str) -> None:
    bd.run("config", "set", key, value)


def _in_order(known: dict[str, StoredTask]) -> list[str]:
    """Return the ids of the tasks, each after the tasks that it needs. A cycle is broken at its first task."""
    begun, ordered = set[str](), dict[str, None]()
    for first in known:
        todo = [first]
        while todo:
            key = todo[-1]
            begun.add(key)
            left = next((e.needs for e in known[key].edges if e.needs in known and e.needs not in begun), None)
            if left is None:
                ordered[todo.pop()] = None
            else:
                todo.append(left)
    return list(ordered)
