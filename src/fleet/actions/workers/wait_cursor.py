"""Cursors for callers that wait: each end of a task or workflow is reported once.

The caller keeps the whole state in its mark. Any process can answer, also after a restart.
"""

from __future__ import annotations

import hashlib
import re
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.workers import create, workflow_create, workflows
from fleet.core.clock import from_micros, to_micros
from fleet.core.filter import Filter
from fleet.core.task import RESOLVED, Status

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from fleet.actions.workers.workflows import Flow
    from fleet.assembly import Fleet
    from fleet.core.task import Caller, Task

MOST_TASKS, MOST_FLOWS = 1000, 50
#: Statuses in which a task does not continue without help.
AT_REST = (*RESOLVED, Status.BLOCKED)
UNFINISHED = Filter(unfinished=True, not_statuses=AT_REST)
#: A timestamp is taken before its write. An end up to this much older than a mark may have been written after the mark.
LATE = timedelta(minutes=1)
#: Maximum number of ends in a mark. An end beyond it is reported twice, never missed.
MOST_ENDS = 100
STATE_LENGTH, END_LENGTH = 16, 8
_TEXT = re.compile(
    rf"([0-9a-f]{{1,14}})-([0-9a-f]{{{STATE_LENGTH}}})-((?:[0-9a-f]{{{END_LENGTH}}}){{0,{MOST_ENDS}}})", re.ASCII
)


class WaitCursor(NamedTuple):
    """A point in time, and what the caller knew by then."""

    at: datetime
    state: str  # digest of the unfinished work as the caller shows it; empty if nothing was shown yet
    ends: frozenset[str]  # recent ends that are recorded already

    @property
    def text(self) -> str:
        """Return the mark as a short text, which `mark_in` reads."""
        return f"{to_micros(self.at):x}-{self.state}-{''.join(sorted(self.ends))}"


def mark_in(text: str) -> WaitCursor | None:
    """Return the mark in a text, or None if the text is not a mark."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    at, state, ends = found.groups()
    parts = (ends[start : start + END_LENGTH] for start in range(0, len(ends), END_LENGTH))
    return WaitCursor(from_micros(int(at, 16)), state, frozenset(parts))


def mark(fleet: Fleet, caller: Caller | None, state: str = "") -> WaitCursor:
    """Return a mark for now. Tasks already at rest count as known."""
    with fleet.store.snapshot():
        now = fleet.store.now()
        ends = sorted(_ends(fleet, caller, now - LATE), key=lambda end: end[1], reverse=True)
    return WaitCursor(now, state, frozenset(_digest(*end) for end in ends[:MOST_ENDS]))


def unfinished(fleet: Fleet, caller: Caller | None) -> list[str]:
    """Return the tasks and workflows created through tools that are not at rest. A run sees only those of its task."""
    with fleet.store.snapshot():
        tasks, stages = _found(fleet, caller, UNFINISHED, "created")
        # An agent that closed its task before it exits: more will happen.
        if live := tuple(run.task_id for run in fleet.store.runs.live()):
            more = _found(fleet, caller, Filter(statuses=AT_REST, ids=live), "created")
            tasks, stages = tasks + more[0], stages + more[1]
        going = (flow for flow in _flows(fleet, stages) if not flow.rests())
        return [*(task.id for task in tasks), *(flow.workflow.id for flow in going)]


def ended_since(fleet: Fleet, caller: Caller | None, mark: WaitCursor) -> list[str]:
    """Return the tasks and workflows created through tools that came to rest since the mark and still exist."""
    with fleet.store.snapshot():
        after = min(mark.at, fleet.store.now()) - LATE  # a mark can be in the future if the clock was set back
        return [key for key, end in _ends(fleet, caller, after) if _digest(key, end) not in mark.ends]


def _ends(fleet: Fleet, caller: Caller | None, after: datetime) -> Iterator[tuple[str, datetime]]:
    """Return what came to rest after this time, each with the time of its end."""
    tasks, stages = _found(fleet, caller, Filter(statuses=AT_REST, updated_after=after), "updated")
    ends = [(task.id, _end(task)) for task in tasks if task.is_at_rest]
    ends += [(flow.workflow.id, _end_of_flow(flow)) for flow in _flows(fleet, stages) if flow.rests()]
    return ((key, end) for key, end in ends if end > after)


def _found(fleet: Fleet, caller: Caller | None, where: Filter, sort: str) -> tuple[list[Task], list[Task]]:
    """Return single tasks and stages of workflows."""
    where = where if caller is None else where.replace(made_by=caller.task_id)
    found = (where.replace(origins=(origin,)) for origin in (create.ORIGIN, workflow_create.ORIGIN))
    tasks, stages = (fleet.store.tasks.find(each, sort=sort, limit=MOST_TASKS) for each in found)
    return tasks, stages


def _flows(fleet: Fleet, stages: list[Task]) -> Iterator[Flow]:
    keys = list(dict.fromkeys(stage.workflow for stage in stages))
    return (workflows.flow(fleet, key) for key in keys[:MOST_FLOWS])


def _end(task: Task) -> datetime:
    return task.closed_at or task.updated_at


def _end_of_flow(flow: Flow) -> datetime:
    return max(_end(seen.task) for seen in flow.stages if seen.task is not None and seen.task.status in AT_REST)


def _digest(key: str, end: datetime) -> str:
    return hashlib.sha256(f"{key} {to_micros(end)}".encode()).hexdigest()[:END_LENGTH]
