"""Random work on the tasks and edges of all stores at once, compared with a model after each step."""

import shutil
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from builders import HOUR, MINUTE, FakeClock, a_task, an_edge
from contract.conftest import STORES
from contract.queue_model import Model, ModelTask
from fleet.core.errors import FleetError
from fleet.core.filter import READY, Filter
from fleet.core.task import Task
from fleet.store.base import Store
from leftovers import memory_folder

MOST_TASKS = 9
PICK = st.integers(0, 10_000)
STATUSES = st.sampled_from(["open", "in_progress", "blocked", "deferred", "closed", "closed", "pinned", "review"])
KINDS = st.sampled_from(
    ["blocks", "conditional-blocks", "waits-for", "waits-for", "parent-child", "parent-child", "related"]
)
DELAYS = st.one_of(st.none(), st.sampled_from([-HOUR, 3 * MINUTE, HOUR]))


class Stop(Exception):
    """An exception that leaves a block of writes."""


class TaskMachine(RuleBasedStateMachine):
    """Actions of people on tasks and edges, and the invariants after each step."""

    steps: ClassVar[int] = 0
    kinds: ClassVar[tuple[str, ...]] = ("sqlite",)

    def __init__(self) -> None:
        super().__init__()
        # Use a file system in memory if possible: these tests are about behavior, not about disks.
        self.folder = Path(tempfile.mkdtemp(dir=memory_folder()))
        self.clock = FakeClock()
        self.stores = [STORES[kind](Path(tempfile.mkdtemp(dir=self.folder)), self.clock) for kind in self.kinds]
        self.model = Model(now=self.clock())
        self.made = 0

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        shutil.rmtree(self.folder)

    def key(self, pick: int) -> str:
        """Return one of the present ids."""
        return sorted(self.model.tasks)[pick % len(self.model.tasks)]

    def on_each(self, call: Callable[[Store], Any]) -> Any:
        """Return the result or error of a call, which all stores must share."""
        answers = []
        for store in self.stores:
            try:
                answers.append(call(store))
            except FleetError as error:
                answers.append((type(error).__name__, str(error)))
        assert all(answer == answers[0] for answer in answers), answers
        return answers[0]

    def save(self, key: str, change: Callable[[Task], Task]) -> None:
        """Save the same manual change of a task in each store."""

        def call(store: Store) -> None:
            with store.atomic():
                store.tasks.save(change(store.tasks.get(key)))

        self.on_each(call)

    @initialize(any_child=st.booleans(), delay=DELAYS)
    def start(self, any_child: bool, delay: timedelta | None) -> None:
        """Add a parent with two children and a task that waits for them. Chance alone creates few families."""
        for number in range(5):
            self.add(number % 3, "claude", "task", delay if number == 4 else None)
        self.link(1, 0, "parent-child", False)
        self.link(2, 0, "parent-child", False)
        self.link(3, 0, "waits-for", any_child)

    @precondition(lambda self: len(self.model.tasks) < MOST_TASKS)
    @rule(
        priority=st.integers(0, 4),
        coder=st.sampled_from(["claude", "codex"]),
        kind=st.sampled_from(["task", "task", "task", "epic", "gate"]),
        delay=DELAYS,
    )
    def add(self, priority: int, coder: str, kind: str, delay: timedelta | None) -> None:
        self.made += 1
        defer = None if delay is None else self.model.now + delay
        key = f"fleet-{self.made:04}"
        task = a_task(id=key, priority=priority, coder=coder, type=kind, created_at=self.model.now, defer_until=defer)
        self.on_each(lambda store: store.tasks.add(task))
        self.model.tasks[key] = ModelTask(priority, self.model.now, coder, kind, defer=defer)

    @precondition(lambda self: len(self.model.tasks) > 2)
    @rule(pick=PICK)
    def remove(self, pick: int) -> None:
        key = self.key(pick)
        self.on_each(lambda store: store.tasks.remove(key))
        self.model.remove(key)

    @rule(one=PICK, other=PICK, kind=KINDS, any_child=st.booleans())
    def link(self, one: int, other: int, kind: str, any_child: bool) -> None:
        task, needs = self.key(one), self.key(other)
        metadata = '{"gate": "any-children"}' if any_child else "{}"
        refusal = self.model.refusal(task, needs, kind)
        answer = self.on_each(lambda store: store.edges.add(an_edge(task, needs, kind, metadata=metadata)))
        assert (answer[0] if answer else "") == refusal
        if not refusal:
            self.model.edges.setdefault((task, needs), (kind, any_child))

    @rule(one=PICK, kind=st.sampled_from(["blocks", "related"]))
    def link_outside(self, one: int, kind: str) -> None:
        task, needs = self.key(one), "external:other:thing"
        refusal = self.model.refusal(task, needs, kind)
        answer = self.on_each(lambda store: store.edges.add(an_edge(task, needs, kind)))
        assert (answer[0] if answer else "") == refusal
        if not refusal:
            self.model.edges.setdefault((task, needs), (kind, False))

    @precondition(lambda self: self.model.edges)
    @rule(pick=PICK)
    def unlink(self, pick: int) -> None:
        task, needs = sorted(self.model.edges)[pick % len(self.model.edges)]
        assert self.on_each(lambda store: store.edges.remove(task, needs)) is True
        assert self.on_each(lambda store: store.edges.remove(task, needs)) is False
        del self.model.edges[task, needs]

    @rule(pick=PICK, status=STATUSES)
    def move(self, pick: int, status: str) -> None:
        key = self.key(pick)
        self.save(key, lambda task: task.moved(status, self.model.now))
        self.model.move(key, status)

    @rule(pick=PICK)
    def reopen(self, pick: int) -> None:
        key = self.key(pick)
        self.save(key, lambda task: task.reopened(self.model.now))
        self.model.move(key, "open")
        self.model.tasks[key].defer = None

    @rule(pick=PICK, delay=DELAYS, pinned=st.booleans())
    def postpone_or_pin(self, pick: int, delay: timedelta | None, pinned: bool) -> None:
        key = self.key(pick)
        defer = None if delay is None else self.model.now + delay
        self.save(key, lambda task: task.replace(defer_until=defer, pinned=pinned))
        self.model.tasks[key].defer, self.model.tasks[key].pinned = defer, pinned

    @rule(one=PICK, other=PICK)
    def begin_and_give_up(self, one: int, other: int) -> None:
        task, needs = self.key(one), self.key(other)

        def call(store: Store) -> None:
            with pytest.raises(Stop), store.atomic():
                store.tasks.add(a_task(id="fleet-never"))
                store.edges.add(an_edge("fleet-never", task))
                store.edges.add(an_edge(task, "external:never:there"))
                store.tasks.save(store.tasks.get(needs).moved("closed", self.model.now).replace(claim_owner="nobody"))
                store.tasks.remove(needs)
                raise Stop

        self.on_each(call)

    @rule(step=st.sampled_from([MINUTE, MINUTE, 5 * MINUTE, 11 * MINUTE]))
    def time_passes(self, step: timedelta) -> None:
        self.clock.advance(step)
        self.model.now = self.clock()

    @invariant()
    def every_queue_is_what_the_model_says(self) -> None:
        type(self).steps += 1
        blocked, ready = self.model.blocked(), self.model.ready()
        expected = {
            key: (t.status, t.assignee, t.owner, t.epoch, t.expires, t.defer, t.cancel, t.failures, key in blocked)
            for key, t in self.model.tasks.items()
        }
        kept = []
        for store in self.stores:
            tasks = store.tasks.find(Filter(), sort="id")
            assert {t.id: _seen(t) for t in tasks} == expected
            assert [task.id for task in store.tasks.find(READY)] == ready
            assert store.tasks.count(Filter(blocked=True))[""] == len(
                [key for key in blocked if self.model.tasks[key].status not in ("closed", "pinned")]
            )
            assert {(e.task, e.needs): e.type for e in store.edges.find()} == {
                k: v[0] for k, v in self.model.edges.items()
            }
            kept.append(tasks)
        assert all(tasks == kept[0] for tasks in kept)


def _seen(task: Task) -> tuple[object, ...]:
    cancel = task.cancel_requested_at is not None
    held = (task.status, task.assignee, task.claim_owner, task.epoch, task.claim_expires_at)
    return (*held, task.defer_until, cancel, task.failures, task.is_blocked)
