"""The rights of a run: read everything, and change only its own task and the tasks that it made.

Only this module decides about rights. User interfaces pass `as_seen_by(fleet, caller)` to actions, so that no action
can skip the check.
"""

from __future__ import annotations

import os
from functools import cached_property

from fleet.actions.tasks.bounds import BOUND, bounds_of
from fleet.core.errors import IllegalMove
from fleet.core.task import MERGED, RESOLVED, RESOLVES, SPEC_FIELDS, Caller
from fleet.descent import descents, is_same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, ClassVar

    from fleet.actions.tasks.bounds import CreationBounds
    from fleet.assembly import Fleet
    from fleet.core.dependency import Edge
    from fleet.core.task import Comment, Task
    from fleet.store.base import Store

#: What a run may use of the store without a check.
FREE = frozenset({"close", "is_shared", "listening", "health", "confirm", "now", "atomic", "snapshot", "was_moved"})

#: Fields of any task that a run may not set: its maker and origin, its finding, its reason and its path.
_NOT_ITS_WORD = ("made_by", "origin", "finding", "reason", "path")
#: Fields of the run's own task that it may not set either: where and how the work is done and judged, and its limits.
_NOT_OF_ITS_OWN = tuple(dict.fromkeys((*_NOT_ITS_WORD, *SPEC_FIELDS)))


def refuse_agents(caller: Caller | None, doing: str) -> None:
    """Raise IllegalMove if an agent calls: some actions are only for people."""
    if caller is not None:
        raise IllegalMove(f"an agent may not {doing}", hint="append a `## Q:` block to Q&A.md to ask a person")


def caller_of(fleet: Fleet, token: str | None) -> Caller | None:
    """Return the run that shows this token or that this process descends from. Return None for a person.

    A run of another queue counts as a person. A caller whose run has ended or is unknown may not change anything.
    """
    store = fleet.store
    if token and (found := store.tokens.caller(token) or (Caller.over() if store.tokens.was_issued(token) else None)):
        return found
    for home, run in reversed(descents()):  # outermost first: what an agent starts can pretend to be a shim
        if run and (found := store.tokens.caller_in(run)):
            return found
        if is_same(home, fleet.home.root):
            return Caller.over() if run else Caller.unknown()
    said = os.environ.get("FLEET_RUN_ID")  # names a live run here, but does not prove it
    return Caller.unknown() if said and store.tokens.caller_in(said) else None


def may_change(caller: Caller, task: Task) -> bool:
    """Return True if the task is the run's own, or if the run or an earlier run of its task made it."""
    return caller.task_id in (task.id, task.made_by)


def as_seen_by(fleet: Fleet, caller: Caller | None) -> Store:
    """Return the store with the rights of this caller.

    A person gets the store itself; for a run it raises IllegalMove.
    """
    seen: Any = fleet.store if caller is None else RestrictedStore(fleet, caller)
    return seen  # type: ignore[no-any-return]


class RestrictedStore:
    """A store that lets a run change only what is its own. Ports and methods that are not named here are refused."""

    def __init__(self, fleet: Fleet, caller: Caller) -> None:
        self._store = fleet.store
        self._judge = _RightsCheck(fleet, caller)

    @cached_property
    def tasks(self) -> RestrictedTasks:
        return RestrictedTasks(self._store.tasks, self._judge)

    @cached_property
    def edges(self) -> RestrictedEdges:
        return RestrictedEdges(self._store.edges, self._judge)

    @cached_property
    def comments(self) -> RestrictedComments:
        return RestrictedComments(self._store.comments, self._judge)

    @cached_property
    def claims(self) -> RestrictedClaims:
        return RestrictedClaims(self._store.claims, self._judge)

    @cached_property
    def tokens(self) -> RestrictedTokens:
        return RestrictedTokens(self._store.tokens, self._judge)

    @cached_property
    def config(self) -> RestrictedConfig:
        return RestrictedConfig(self._store.config, self._judge)

    def __getattr__(self, name: str) -> Any:
        if name in FREE:
            return getattr(self._store, name)
        raise AttributeError(name)


class RestrictedPort:
    """A port that lets a run read everything and change only what is its own."""

    #: Methods that a run may call without a check: reads, and methods that change no task.
    free: frozenset[str] = frozenset()
    #: Methods that only a supervisor or a person may call.
    refused: ClassVar[Mapping[str, str]] = {}

    def __init__(self, port: Any, judge: _RightsCheck) -> None:
        self._port = port
        self._judge = judge

    def __getattr__(self, name: str) -> Any:
        if name in self.free:
            return getattr(self._port, name)
        if name in self.refused:
            refuse_agents(self._judge.caller, self.refused[name])
        raise AttributeError(name)


class RestrictedTasks(RestrictedPort):
    """Tasks. A run may add tasks, and change and remove its own."""

    free = frozenset({"get", "find", "count", "size", "next_child", "tallies", "labels"})

    def add(self, task: Task) -> None:
        """Add a task that records its maker, within the maker's bounds."""
        bounds = self._judge.bounds()
        bounds.check()
        task = bounds.applied(task).replace(made_by=self._judge.caller.task_id, finding="", reason="")
        self._port.add(task.replace(metadata=_metadata(task, None)))

    def save(self, task: Task) -> None:
        """Save a changed task, except for fields that the run may not set."""
        kept = self._judge.judged(task.id)
        if kept.is_supervised and task.claim_owner != kept.claim_owner:
            raise IllegalMove(
                f"an agent may not return {task.id} to the queue",
                hint="end your run: unfinished tasks return to the queue automatically",
            )
        own = task.id == self._judge.caller.task_id
        if own:
            _check_own(kept, task)
        elif any(getattr(kept, name) != getattr(task, name) for name in BOUND):
            task = self._judge.bounds().applied(task, kept)
        names = _NOT_OF_ITS_OWN if own else _NOT_ITS_WORD
        held = {name: getattr(kept, name) for name in names}
        self._port.save(task.replace(**held, metadata=_metadata(task, kept)))

    def remove(self, task_id: str) -> None:
        task = self._judge.judged(task_id)
        if task_id == self._judge.caller.task_id or task.is_supervised:
            raise IllegalMove(
                f"an agent may not delete {task_id}: an agent is working on it",
                hint=f"run `bd close {task_id}` to end it",
            )
        if self._judge.bounds().left and self._judge.store.runs.of_task(task_id):
            raise IllegalMove(
                f"an agent may not delete {task_id}: its cost counts against the budget",
                hint=f"run `bd close {task_id}` to end it",
            )
        self._port.remove(task_id)


class RestrictedEdges(RestrictedPort):
    """Dependencies. A run may change those of its own tasks."""

    free = frozenset({"find", "ancestors"})

    def add(self, edge: Edge, *, check_cycles: bool = True) -> None:
        """Add an edge. It changes the task that waits or belongs, not the task that it waits for."""
        self._judge.judged(edge.task)
        self._port.add(edge, check_cycles=check_cycles)

    def remove(self, task_id: str, needs: str) -> bool:
        self._judge.judged(task_id)
        removed: bool = self._port.remove(task_id, needs)
        return removed


class RestrictedComments(RestrictedPort):
    """Comments. Every run may add them."""

    free = frozenset({"find"})

    def add(self, comment: Comment) -> None:
        """Add a comment to any task. Its author is always the run, whatever the comment says."""
        self._port.add(comment.replace(author=self._judge.caller.run_id))


class RestrictedClaims(RestrictedPort):
    """Claims. Only a supervisor makes them, except for manual claims."""

    free = frozenset({"waiting_coders", "expired"})
    refused: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("acquire", "renew", "settle", "release", "adopt", "reap"), "supervise tasks"),
        "request_cancel": "stop tasks",
    }

    def take(self, task_id: str, actor: str) -> Task:
        self._judge.judged(task_id, "claim")
        task: Task = self._port.take(task_id, actor)
        return task


class RestrictedTokens(RestrictedPort):
    """Tokens. Only a supervisor issues them."""

    free = frozenset({"caller", "caller_in", "was_issued"})
    refused: ClassVar[Mapping[str, str]] = {"issue": "supervise tasks"}


class RestrictedConfig(RestrictedPort):
    """The queue's settings. A run may read them."""

    free = frozenset({"all"})
    refused: ClassVar[Mapping[str, str]] = {"set": "change the queue's settings"}


class _RightsCheck:
    """The checks of which tasks are a run's own, and of its remaining bounds."""

    def __init__(self, fleet: Fleet, caller: Caller) -> None:
        self._fleet = fleet
        self.store = fleet.store
        self.caller = caller
        self._bound: CreationBounds | None = None

    def judged(self, task_id: str, doing: str = "change") -> Task:
        """Return a task that the run may change. Raises IllegalMove, TaskNotFound."""
        task = self.store.tasks.get(task_id)
        if may_change(self.caller, task):
            return task
        raise IllegalMove(
            f"an agent may not {doing} {task_id}: {self.caller.task_id} neither works on it nor created it",
            hint=f"run `bd comment {task_id} TEXT` to write to its agent, or `bd create` to create your own task",
        )

    def bounds(self) -> CreationBounds:
        """Return the run's remaining bounds. They are read once."""
        if self._bound is None:
            self._bound = bounds_of(self._fleet, self.caller)
        return self._bound


def _metadata(task: Task, kept: Task | None) -> dict[str, Any]:
    """Return the metadata of a task, in which only fleet sets the merge entries."""
    before = kept.metadata if kept is not None else {}
    ours = {name: before[name] for name in (MERGED, RESOLVES) if name in before}
    return {name: value for name, value in task.metadata.items() if name not in (MERGED, RESOLVES)} | ours


def _check_own(kept: Task, task: Task) -> None:
    """Raise IllegalMove if a run tries to end or reopen its own task. Only a receipt or a person ends it."""
    if kept.status in RESOLVED and task.status != kept.status:
        raise IllegalMove(f"{task.id} is {kept.status}: a person closed it", hint="stop working on it")
    if task.status in RESOLVED and task.status != kept.status:
        raise IllegalMove(
            f"{task.id} becomes {task.status} only after fleet has checked the work",
            hint=f"run `bd close {task.id}` to hand in the work",
        )
