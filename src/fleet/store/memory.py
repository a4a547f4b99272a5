"""A queue in plain dictionaries: for simulations and tests, with the same promises as the others."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from fleet.core import clock
from fleet.core.dependency import BLOCKING, EXTERNAL, PARENT_CHILD, Edge
from fleet.core.errors import ClaimLost, TaskExists, TaskNotFound
from fleet.core.filter import SORTS, Filter, Lane, claimable_in
from fleet.core.health import State as Health
from fleet.core.health import Vital
from fleet.core.matching import matches, may_be_claimed
from fleet.core.tally import Tally
from fleet.core.task import RESOLVED, Caller, Claim, Comment, Task, Verdict
from fleet.core.tokens import hashed, new_token
from fleet.store import memory_edges
from fleet.store.edge_rules import check_edge
from fleet.store.memory_state import Holder, State, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime
    from typing import Any

    from fleet.core.clock import Clock


class MemoryQueue:
    """Tasks in this process alone, safe between threads."""

    is_shared = False

    def __init__(self, *, now: Clock = clock.now) -> None:
        self.now = now
        self._holder = Holder()

    @property
    def state(self) -> State:
        """What the history shares, so that this queue's transactions take its writes back too."""
        return self._holder.state

    def close(self) -> None:
        """Nothing to let go of."""

    def listening(self, call: Callable[[], None]) -> AbstractContextManager[None]:
        return nullcontext()

    def health(self) -> list[Vital]:
        return [
            Vital(name="memory", state=Health.OK, fact=f"{len(self.state.tasks)} tasks, kept until this process ends")
        ]

    def confirm(self) -> None:
        pass

    def was_moved(self) -> bool:
        return False

    def atomic(self) -> Transaction:
        return Transaction(self._holder)

    snapshot = atomic

    def add(self, task: Task) -> None:
        with self.atomic():
            if task.id in self.state.tasks:
                raise TaskExists(f"task {task.id} exists already")
            self._put(task.replace(is_blocked=False))
            parent, _, number = task.id.rpartition(".")
            if parent and number.isdigit():
                last = max(self.state.counters.get(parent, 0), int(number))
                self.state.counters = {**self.state.counters, parent: last}

    def get(self, task_id: str) -> Task:
        try:
            return self.state.tasks[task_id]
        except KeyError:
            raise TaskNotFound(task_id) from None

    def save(self, task: Task) -> None:
        with self.atomic():
            before = self.get(task.id)
            self._put(task.replace(is_blocked=before.is_blocked))
            if (before.status in RESOLVED) != (task.status in RESOLVED):
                memory_edges.refresh(self.state, memory_edges.watchers(self.state, task.id))

    def remove(self, task_id: str) -> None:
        with self.atomic():
            self.get(task_id)
            state = self.state
            affected = memory_edges.watchers(state, task_id) + memory_edges.children(state, task_id)
            affected += memory_edges.waiters(state, task_id)
            del state.tasks[task_id]
            state.edges = {key: edge for key, edge in state.edges.items() if task_id not in key}
            state.comments = [each for each in state.comments if each.task_id != task_id]
            state.callers = {key: each for key, each in state.callers.items() if each.task_id != task_id}
            memory_edges.refresh(state, [key for key in affected if key in state.tasks])

    def find(self, where: Filter, *, sort: str = "priority", reverse: bool = False, limit: int = 0) -> list[Task]:
        with self._holder.lock:
            now = self.now()
            found = [
                task
                for task in self.state.tasks.values()
                if matches(task, where, now=now, kin=partial(memory_edges.kin, self.state))
            ]
        found.sort(key=lambda task: task.id, reverse=reverse)
        for name, descending in reversed(SORTS[sort]):
            _sort_by(found, name, now, descending != reverse)
        return found[:limit] if limit else found

    def count(self, where: Filter, *, by: str = "") -> dict[str, int]:
        found = self.find(where)
        if not by:
            return {"": len(found)}
        if by == "label":
            return dict(Counter(label for task in found for label in task.labels))
        return dict(Counter(str(getattr(task, by)) for task in found))

    def size(self, prefix: str) -> int:
        return sum(1 for key in self.state.tasks if "." not in key and key.startswith(prefix + "-"))

    def next_child(self, parent: str) -> int:
        with self.atomic():
            start = parent + "."
            tails = [key[len(start) :] for key in self.state.tasks if key.startswith(start)]
            highest = max((int(tail) for tail in tails if tail.isdigit()), default=0)
            number = max(self.state.counters.get(parent, 0), highest) + 1
            self.state.counters = {**self.state.counters, parent: number}
            return number

    def tallies(self, task_ids: Sequence[str]) -> dict[str, Tally]:
        with self._holder.lock:
            edges = list(self.state.edges.values())
            said = Counter(each.task_id for each in self.state.comments)
        hard = [each for each in edges if each.type in BLOCKING]
        counts = [Counter(each.task for each in some) for some in (edges, hard)]
        counts += [Counter(each.needs for each in some) for some in (edges, hard)]
        down, hard_down, up, hard_up = counts
        return {
            key: Tally(
                dependencies=down[key],
                dependents=up[key],
                blockers=hard_down[key],
                blocked=hard_up[key],
                comments=said[key],
            )
            for key in task_ids
        }

    def link(self, edge: Edge, *, check_cycles: bool = True) -> None:
        with self.atomic():
            self.get(edge.task)
            if not edge.needs.startswith(EXTERNAL):
                self.get(edge.needs)
            existing = [each for key, each in self.state.edges.items() if key == (edge.task, edge.needs)]
            reaches = partial(memory_edges.reaches, self.state) if check_cycles else None
            check_edge(edge, existing, reaches=reaches, ancestors=self.ancestors)
            if not existing:
                self.state.edges = {**self.state.edges, (edge.task, edge.needs): edge}
                self._edge_changed(edge)

    def unlink(self, task_id: str, needs: str) -> bool:
        with self.atomic():
            edges = dict(self.state.edges)
            edge = edges.pop((task_id, needs), None)
            self.state.edges = edges
            if edge is not None:
                self._edge_changed(edge)
            return edge is not None

    def edges(self, task_ids: Iterable[str] | None = None, *, up: bool = False) -> list[Edge]:
        with self._holder.lock:
            edges = sorted(
                self.state.edges.values(), key=lambda each: (each.needs, each.task) if up else (each.task, each.needs)
            )
        if task_ids is None:
            return edges
        wanted = set(task_ids)
        return [each for each in edges if (each.needs if up else each.task) in wanted]

    def ancestors(self, task_id: str) -> list[str]:
        return memory_edges.ancestors(self.state, task_id)

    def comment(self, comment: Comment) -> None:
        with self.atomic():
            self.get(comment.task_id)
            self.state.comments = [*self.state.comments, comment]

    def comments(self, task_ids: Sequence[str]) -> list[Comment]:
        found = [each for each in self.state.comments if each.task_id in task_ids]
        return sorted(found, key=lambda each: (each.task_id, each.created_at, each.id))

    def labels(self) -> dict[str, int]:
        return dict(sorted(self.count(Filter(), by="label").items()))

    def claim(self, owner: str, lanes: Sequence[Lane], *, room: int, ttl: timedelta) -> list[Claim]:
        with self.atomic():
            found: dict[str, Task] = {}
            seats: dict[str, tuple[str, str]] = {}
            for lane in lanes:
                limit = min(lane.room, room)
                if lane.limit is not None:
                    limit = min(limit, lane.limit - self._at_work(*lane.seat))
                fitting = self.find(claimable_in(lane), sort="urgent", limit=limit + len(found)) if limit > 0 else []
                fresh = [each for each in fitting if each.id not in found][:limit]
                found |= {task.id: task for task in fresh}
                seats |= dict.fromkeys((task.id for task in fresh), lane.seat)
            now = self.now()
            chosen = sorted(found.values(), key=lambda task: (task.priority, task.created_at, task.id))[: max(room, 0)]
            claims = [_claim_of(self._saved(task.claimed(owner, now, now + ttl))) for task in chosen]
            return [claim.replace(seat=seats[claim.task.id]) for claim in claims]

    def waiting_coders(self) -> list[str]:
        return sorted({task.coder for task in self.state.tasks.values() if may_be_claimed(task)})

    def take(self, task_id: str, actor: str) -> Task:
        with self.atomic():
            return self._saved(self.get(task_id).taken(actor, self.now()))

    def renew(self, claims: Iterable[Claim], *, ttl: timedelta) -> list[Claim]:
        with self.atomic():
            held = []
            for claim in claims:
                task = self.state.tasks.get(claim.task.id)
                if task is not None and (task.claim_owner, task.epoch) == (claim.owner, claim.epoch):
                    held.append(_claim_of(self._saved(task.replace(claim_expires_at=self.now() + ttl))))
            return held

    def settle(self, claim: Claim, verdict: Verdict) -> Task:
        with self.atomic():
            return self._saved(verdict.on(self._held(claim), self.now()))

    def release(self, claim: Claim) -> Task:
        with self.atomic():
            return self._saved(self._held(claim).freed(self.now()))

    def adopt(self, task_id: str, owner: str, *, epoch: int, ttl: timedelta) -> Claim:
        with self.atomic():
            now = self.now()
            task = self.get(task_id).adopted(owner, epoch, now, now + ttl)
            self.state.callers = {
                key: each.replace(epoch=epoch + 1) if (each.task_id, each.epoch) == (task_id, epoch) else each
                for key, each in self.state.callers.items()
            }
            self.state.runs = {
                key: run.replace(epoch=epoch + 1, owner=owner)
                if run.is_live and (run.task_id, run.epoch) == (task_id, epoch)
                else run
                for key, run in self.state.runs.items()
            }
            return _claim_of(self._saved(task))

    def expired(self) -> list[str]:
        now = self.now()
        held = [task for task in self.state.tasks.values() if task.claim_expires_at is not None]
        expired = [task for task in held if task.claim_expires_at is not None and task.claim_expires_at < now]
        return [task.id for task in sorted(expired, key=lambda task: _sortable(task.claim_expires_at))]

    def reap(self, *, spare: Iterable[str] = ()) -> list[Task]:
        spared = set(spare)
        with self.atomic():
            return [self._saved(self.get(key).freed(self.now())) for key in self.expired() if key not in spared]

    def request_cancel(self, task_id: str, reason: str) -> Task:
        with self.atomic():
            return self._saved(self.get(task_id).replace(cancel_requested_at=self.now(), cancel_reason=reason))

    def admit(self, claim: Claim, caller: Caller) -> str:
        with self.atomic():
            self._held(claim)
            token = new_token()
            self.state.callers = {**self.state.callers, hashed(token): caller}
            return token

    def caller(self, token: str) -> Caller | None:
        return self._live(self.state.callers.get(hashed(token)))

    def caller_in(self, run_id: str) -> Caller | None:
        return next(
            filter(None, (self._live(each) for each in self.state.callers.values() if each.run_id == run_id)), None
        )

    def _live(self, caller: Caller | None) -> Caller | None:
        task = self.state.tasks.get(caller.task_id) if caller else None
        return caller if caller and task and task.epoch == caller.epoch and task.is_claimed else None

    def gave_out(self, token: str) -> bool:
        return hashed(token) in self.state.callers

    def config(self) -> dict[str, str]:
        return dict(sorted(self.state.config.items()))

    def set_config(self, key: str, value: str | None) -> None:
        with self.atomic():
            config = {name: each for name, each in self.state.config.items() if name != key}
            self.state.config = config if value is None else {**config, key: value}

    def _at_work(self, coder: str, account: str) -> int:
        """The agents of an account: those on record, and what was claimed and may become one."""
        count = 0
        for task in self.state.tasks.values():
            run = self.state.runs.get(task.run_id)
            fits = run is not None and (run.coder, run.account) == (coder, account)
            may_fit = not task.run_id and task.coder in ("", coder) and task.account in ("", account)
            count += task.claim_expires_at is not None and (fits or may_fit)
        return count

    def _put(self, task: Task) -> None:
        self.state.tasks[task.id] = task.replace(labels=tuple(sorted(set(task.labels))))

    def _saved(self, task: Task) -> Task:
        self.save(task)
        return self.get(task.id)

    def _held(self, claim: Claim) -> Task:
        try:
            task = self.get(claim.task.id)
        except TaskNotFound:  # nobody holds what was deleted
            raise ClaimLost(claim.task.id, claim.epoch) from None
        if (task.claim_owner, task.epoch) != (claim.owner, claim.epoch):
            raise ClaimLost(task.id, claim.epoch)
        return task

    def _edge_changed(self, edge: Edge) -> None:
        waiting = memory_edges.waiters(self.state, edge.needs) if edge.type == PARENT_CHILD else []
        memory_edges.refresh(self.state, [edge.task, *waiting])


def _claim_of(task: Task) -> Claim:
    assert task.claim_expires_at is not None
    return Claim(task=task, owner=task.claim_owner, epoch=task.epoch, expires_at=task.claim_expires_at)


def _sort_by(found: list[Task], name: str, now: datetime, descending: bool) -> None:
    found.sort(key=lambda task: _sortable(_sort_value(task, name, now)), reverse=descending)


def _sort_value(task: Task, name: str, now: datetime) -> Any:
    is_old = task.created_at < now - timedelta(days=2)
    derived = {
        "is_old": is_old,
        "young_priority": 0 if is_old else task.priority,
        "title_in_lower_case": task.title.encode().lower(),  # of ASCII letters alone, as SQLite does
    }
    return derived[name] if name in derived else getattr(task, name)


def _sortable(value: Any) -> tuple[bool, Any]:
    return (value is not None, value if value is not None else 0)
