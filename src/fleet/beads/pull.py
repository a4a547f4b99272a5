"""Updating fleet's copy of the tasks from bd's export."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from fleet.beads.format import comments_from, edges_from, is_issue, task_from
from fleet.core.errors import FleetError
from fleet.core.filter import Filter
from fleet.core.jsontext import decode

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fleet.core.dependency import Edge
    from fleet.core.task import Comment, Task
    from fleet.store.base import Store

log = logging.getLogger(__name__)


class Puller:
    """A reader of exports that remembers known lines, so that it processes only changed ones."""

    def __init__(self, store: Store, remove_comment: Callable[[str], object]) -> None:
        self._store = store
        self._remove_comment = remove_comment
        self._lines: dict[str, int] = {}

    def forget(self, task_id: str) -> None:
        """Process a task again at the next merge, even if its line is unchanged."""
        self._lines.pop(task_id, None)

    def merge(self, text: str) -> None:
        """Apply an export to the queue. Call it inside a transaction."""
        known = {task.id: task for task in self._store.tasks.find(Filter())}
        fresh, present = self._fresh(text, known)
        now = self._store.now()
        for found in fresh:
            self._save_task(known.get(found["id"]), task_from(found, known.get(found["id"]), now))
        for task in known.values():
            if task.id not in present and not task.ephemeral:  # ephemeral tasks are not exported
                self._store.tasks.remove(task.id)
                self.forget(task.id)
        ids = [found["id"] for found in fresh]
        edges, said = self._edges(ids), self._comments(ids)
        for found in fresh:
            self._put_edges(edges.get(found["id"], {}), edges_from(found, now))
            self._put_comments(said.get(found["id"], []), comments_from(found, now))

    def _fresh(self, text: str, known: dict[str, Task]) -> tuple[list[dict[str, Any]], set[str]]:
        """Return the issues that changed since the last merge, and the ids of all issues."""
        fresh, present = [], set()
        lines = self._lines
        self._lines = {}
        for line in text.splitlines():
            found = _parse_line(line)
            if not is_issue(found):
                continue
            key, seen = found["id"], hash(line)
            present.add(key)
            self._lines[key] = seen
            if lines.get(key) != seen or key not in known:
                fresh.append(found)
        return fresh, present

    def _save_task(self, before: Task | None, after: Task) -> None:
        if before is None:
            self._store.tasks.add(after)
        elif after != before:
            self._store.tasks.save(after)

    def _edges(self, ids: list[str]) -> dict[str, dict[tuple[str, str], Edge]]:
        edges: dict[str, dict[tuple[str, str], Edge]] = {}
        for each in self._store.edges.find(ids):
            edges.setdefault(each.task, {})[each.task, each.needs] = each
        return edges

    def _comments(self, ids: list[str]) -> dict[str, list[Comment]]:
        said: dict[str, list[Comment]] = {}
        for each in self._store.comments.find(ids):
            said.setdefault(each.task_id, []).append(each)
        return said

    def _put_edges(self, have: dict[tuple[str, str], Edge], told: dict[tuple[str, str], Edge]) -> None:
        for ends, edge in have.items():
            if ends not in told or not is_same_edge(edge, told[ends]):
                self._store.edges.remove(*ends)
        for ends, edge in told.items():
            if ends not in have or not is_same_edge(have[ends], edge):
                try:
                    self._store.edges.add(edge, check_cycles=False)
                except FleetError as error:  # bd allows dependencies that fleet cannot represent
                    log.debug("ignored the dependency of %s on %s: %s", *ends, error)

    def _put_comments(self, have: list[Comment], told: list[Comment]) -> None:
        """Add and remove comments to match bd. A comment that bd gave another id or time stays as it is here."""
        missing = list(told)
        for each in have:
            same = [one for one in missing if (one.author, one.text) == (each.author, each.text)]
            if same:
                missing.remove(same[0])
            else:
                self._remove_comment(each.id)
        for each in missing:
            self._store.comments.add(each)


def issues_in(text: str) -> list[dict[str, Any]]:
    return [found for line in text.splitlines() if is_issue(found := _parse_line(line))]


def is_same_edge(known: Edge, told: Edge) -> bool:
    """Return True if bd's edge equals the known one. bd before 1.3 drops the gate of imported edges."""
    return known.type == told.type and (known.gate == told.gate or told.metadata == "{}")


def _parse_line(line: str) -> Any:
    try:
        return decode(line)
    except (ValueError, RecursionError):
        return None
