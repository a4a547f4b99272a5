"""What a run may do: change its own task and the tasks it made, read all, and nothing that is for people.

This is the one place that judges. A face hands its verbs `as_seen_by(fleet, caller)`: no verb can forget to ask.
"""

from __future__ import annotations

import os
from functools import cached_property

from fleet.actions.bounds import BOUND, bounds_of
from fleet.core.errors import IllegalMove
from fleet.core.task import MERGED, RESOLVED, RESOLVES, SPEC_FIELDS, Caller
from fleet.descent import descents, is_same

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, ClassVar

    from fleet.actions.bounds import Bounds
    from fleet.assembly import Fleet
    from fleet.core.dependency import Edge
    from fleet.core.task import Comment, Task
    from fleet.store.base import Store

#: What a run may use of the store as it is.
FREE = frozenset({"close", "is_shared", "listening", "health", "confirm", "now", "atomic", "snapshot", "was_moved"})

#: What is not a run's to say about any task: who made it and how, what its receipt shows and why it is where it is.
_NOT_ITS_WORD = ("made_by", "origin", "finding", "reason", "path")
#: And about its own: where and how it is worked on and judged, and what it may spend.
_NOT_OF_ITS_OWN = tuple(dict.fromkeys((*_NOT_ITS_WORD, *SPEC_FIELDS)))


def refuse_agents(caller: Caller | None, doing: str) -> None:
    """Raise IllegalMove when it is an agent that calls: some things are for people."""
    if caller is not None:
        raise IllegalMove(f"an agent may not {doing}", hint="ask: append a `## Q:` block to Q&A.md.")


def caller_of(fleet: Fleet, token: str | None) -> Caller | None:
    """The run that shows this token, or that this process descends from; none for a person. Another queue's is one.

    One whose run is over may change nothing any more, nor may one whose run is not known.
    """
    store = fleet.store
    if token and (found := store.tokens.caller(token) or (Caller.over() if store.tokens.was_issued(token) else None)):
        return found
    for home, run in reversed(descents()):  # from above: what an agent starts can pretend to be a shim
        if run and (found := store.tokens.caller_in(run)):
            return found
        if is_same(home, fleet.home.root):
            return Caller.over() if run else Caller.unknown()
    said = os.environ.get("FLEET_RUN_ID")  # of a live run here, which it does not prove to be
    return Caller.unknown() if said and store.tokens.caller_in(said) else None


def may_change(caller: Caller, task: Task) -> bool:
    """Whether a task is the run's own, or one that it or an earlier run of its task made."""
    return caller.task_id in (task.id, task.made_by)


def as_seen_by(fleet: Fleet, caller: Caller | None) -> Store:
    """The store as this caller may use it: for a person the store itself, for a run one that raises IllegalMove."""
    seen: Any = fleet.store if caller is None else RestrictedStore(fleet, caller)
    return seen  # type: ignore[no-any-return]


class RestrictedStore:
    """A store that lets a run change what is its own. A port or method that is not named here is refused."""

    def __init__(self, fleet: Fleet, caller: Caller) -> None:
        self._store = fleet.store
        self._judge = _Judge(fleet, caller)

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
    """A port that lets a run read, and change what is its own."""

    #: What a run may call as it is: reading, and whatever changes no task.
    free: frozenset[str] = frozenset()
    #: What only a supervisor does, or a person.
    refused: ClassVar[Mapping[str, str]] = {}

    def __init__(self, port: Any, judge: _Judge) -> None:
        self._port = port
        self._judge = judge

    def __getattr__(self, name: str) -> Any:
        if name in self.free:
            return getattr(self._port, name)
        if name in self.refused:
            refuse_agents(self._judge.caller, self.refused[name])
        raise AttributeError(name)


class RestrictedTasks(RestrictedPort):
    """Tasks, of which a run adds, changes and removes its own."""

    free = frozenset({"get", "find", "count", "size", "next_child", "tallies", "labels"})

    def add(self, task: Task) -> None:
        """Put a task in that says who made it, within what its maker leaves to it."""
        bounds = self._judge.bounds()
        bounds.check()
        task = bounds.applied(task).replace(made_by=self._judge.caller.task_id, finding="", reason="")
        self._port.add(task.replace(metadata=_metadata(task, None)))

    def save(self, task: Task) -> None:
        """Keep a changed task, but for what is not the run's to say."""
        kept = self._judge.judged(task.id)
        if kept.is_supervised and task.claim_owner != kept.claim_owner:
            raise IllegalMove(
                f"an agent may not give {task.id} back", hint="end: what is not handed in goes back by itself."
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
                f"an agent may not delete {task_id}: it is being worked on", hint=f"`bd close {task_id}` ends it."
            )
        if self._judge.bounds().left and self._judge.store.runs.of_task(task_id):
            raise IllegalMove(
                f"an agent may not delete {task_id}: what it took counts", hint=f"`bd close {task_id}` ends it."
            )
        self._port.remove(task_id)


class RestrictedEdges(RestrictedPort):
    """Dependencies, of which a run changes those of its own tasks."""

    free = frozenset({"find", "ancestors"})

    def add(self, edge: Edge, *, check_cycles: bool = True) -> None:
        """Add an edge: it changes the task that waits or belongs, not the one that is waited for."""
        self._judge.judged(edge.task)
        self._port.add(edge, check_cycles=check_cycles)

    def remove(self, task_id: str, needs: str) -> bool:
        self._judge.judged(task_id)
        removed: bool = self._port.remove(task_id, needs)
        return removed


class RestrictedComments(RestrictedPort):
    """Comments, which every run may add."""

    free = frozenset({"find"})

    def add(self, comment: Comment) -> None:
        """Keep a comment on any task; it bears the name of the run, whatever it says of its author."""
        self._port.add(comment.replace(author=self._judge.caller.run_id))


class RestrictedClaims(RestrictedPort):
    """Claims, which are a supervisor's but for those made by hand."""

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
    """Tokens, which only a supervisor issues."""

    free = frozenset({"caller", "caller_in", "was_issued"})
    refused: ClassVar[Mapping[str, str]] = {"issue": "supervise tasks"}


class RestrictedConfig(RestrictedPort):
    """The queue's settings, which a run reads."""

    free = frozenset({"all"})
    refused: ClassVar[Mapping[str, str]] = {"set": "change the queue's settings"}


class _Judge:
    """Says which tasks are a run's own, and what it has left."""

    def __init__(self, fleet: Fleet, caller: Caller) -> None:
        self._fleet = fleet
        self.store = fleet.store
        self.caller = caller
        self._bound: Bounds | None = None

    def judged(self, task_id: str, doing: str = "change") -> Task:
        """Return a task of the run's own. Raises IllegalMove, TaskNotFound."""
        task = self.store.tasks.get(task_id)
        if may_change(self.caller, task):
            return task
        raise IllegalMove(
            f"an agent may not {doing} {task_id}: it neither works on it ({self.caller.task_id}) nor made it",
            hint=f"`bd comment {task_id} TEXT` tells whoever does; `bd create` makes a task of your own.",
        )

    def bounds(self) -> Bounds:
        """Return what the run may still have, read once."""
        if self._bound is None:
            self._bound = bounds_of(self._fleet, self.caller)
        return self._bound


def _metadata(task: Task, kept: Task | None) -> dict[str, Any]:
    """The metadata of a task, in which only fleet says what was merged."""
    before = kept.metadata if kept is not None else {}
    ours = {name: before[name] for name in (MERGED, RESOLVES) if name in before}
    return {name: value for name, value in task.metadata.items() if name not in (MERGED, RESOLVES)} | ours


def _check_own(kept: Task, task: Task) -> None:
    """A run's own task is ended by its receipt or by a person, and never by the run's word."""
    if kept.status in RESOLVED and task.status != kept.status:
        raise IllegalMove(f"{task.id} is {kept.status}: a person ended it", hint="stop here.")
    if task.status in RESOLVED and task.status != kept.status:
        raise IllegalMove(
            f"{task.id} becomes {task.status} once it is settled, not by its agent's word",
            hint=f"`bd close {task.id}` hands it in.",
        )
