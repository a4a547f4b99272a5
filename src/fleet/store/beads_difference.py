"""Differences between bd's export and the home's file. Comparing only reads; it writes to neither."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.dependency import EXTERNAL
from fleet.core.filter import Filter
from fleet.store.beads_issue import comments_from, edges_from, task_from
from fleet.store.beads_pull import is_same_edge, issues_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from fleet.core.dependency import Edge
    from fleet.core.task import Comment, Task
    from fleet.store.base import Store

SECOND = timedelta(seconds=1)
#: Longest value shown in a difference.
LONGEST_SHOWN = 60
_NONE = object()


class Known(NamedTuple):
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
        parts = (("are not in bd", self.missing), ("are others there", other), ("are only there", self.foreign))
        return "; ".join(f"{len(each)} {words} ({'; '.join(each[:3])})" for words, each in parts if each)


def known_in(store: Store) -> dict[str, Known]:
    """Return each task of the file with its edges and comments, in the form that bd can store."""
    found = {task.id: Known(task, [], []) for task in store.tasks.find(Filter(), sort="id")}
    for edge in store.edges.find():
        found[edge.task].edges.append(edge)
    said: set[tuple[Any, ...]] = set()
    for comment in store.comments.find(list(found)):
        found[comment.task_id].comments.append(_apart(comment, said))
    return found


def difference(export: str, known: dict[str, Known]) -> Difference:
    """Return the changes that an update from bd would make to the file. The result is falsy if there are none."""
    told = {found["id"]: found for found in issues_in(export)}
    other, how = {}, {}
    for key, mine in known.items():
        if key in told and (words := _otherwise(mine, told[key], known)):
            taken = {each.id for each in comments_from(told[key], mine.task.created_at)}
            other[key] = [each for each in _unsaid(mine, told[key]) if each.id not in taken]
            how[key] = words
    missing, foreign = [key for key in known if key not in told], [key for key in told if key not in known]
    return Difference(missing, other, foreign, how)


def _otherwise(mine: Known, found: dict[str, Any], known: dict[str, Known]) -> list[str]:
    """Return the differences between bd's task and ours, in words. Return an empty list if they are the same."""
    now = mine.task.created_at
    words = list(_fields(mine.task, task_from(found, mine.task, now)))
    if _unsaid(mine, found) or len(comments_from(found, now)) != len(mine.comments):
        words.append("comments")
    have, told = {(each.task, each.needs): each for each in mine.edges}, edges_from(found, now)
    lost = any(ends not in told or not is_same_edge(edge, told[ends]) for ends, edge in have.items())
    # The file cannot hold an edge to a task that does not exist.
    if lost or any(ends not in have and (ends[1] in known or ends[1].startswith(EXTERNAL)) for ends in told):
        words.append("dependencies")
    return words


def _fields(here: Task, there: Task) -> Iterator[str]:
    if here == there:
        return
    for name, value in here.as_dict().items():
        other = getattr(there, name)
        if name == "metadata":
            for key in {**value, **other}:
                if value.get(key, _NONE) != other.get(key, _NONE):
                    yield f"{name} {key} is {_shown(value.get(key))} here and {_shown(other.get(key))} in bd"
        elif value != other:
            yield f"{name} is {_shown(value)} here and {_shown(other)} in bd"


def _shown(value: Any) -> str:
    text = str(value) if isinstance(value, datetime) else repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _apart(comment: Comment, said: set[tuple[Any, ...]]) -> Comment:
    """Return the comment with a time that bd can tell apart.

    bd merges comments with the same author and text within one second. So a repeated comment moves to the next free
    second.
    """
    at = comment.created_at.replace(microsecond=0)
    while (same := (comment.task_id, comment.author, comment.text, at)) in said:
        at += SECOND
    said.add(same)
    return comment if at <= comment.created_at else comment.replace(created_at=at)


def _unsaid(mine: Known, found: dict[str, Any]) -> list[Comment]:
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
