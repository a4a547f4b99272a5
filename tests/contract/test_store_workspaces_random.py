"""Random leases, runs and removals on all stores at once: the stores agree, and no two tasks share anything."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from builders import HOUR, MINUTE, FakeClock, a_task
from contract.conftest import STORES
from contract.store_builders import a_run, a_workspace
from fleet.core.errors import FleetError
from fleet.core.filter import Filter, Lane
from fleet.core.task import Claim
from fleet.core.workspace import Workspace
from fleet.store.base import Store
from leftovers import memory_folder

TASKS = st.sampled_from(["a", "b", "c", "d"])
BRANCHES = st.sampled_from(["x", "y", "z"])
SEED = 20260301


class WorkspaceMachine(RuleBasedStateMachine):
    """A few tasks that compete for a few branches and paths."""

    steps: ClassVar[int] = 0
    kinds: ClassVar[tuple[str, ...]] = ("sqlite",)

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(dir=memory_folder()))
        self.clock = FakeClock()
        self.stores: list[Store] = [STORES[kind](self.folder, self.clock) for kind in self.kinds]
        self.claims: dict[str, Claim] = {}

    def teardown(self) -> None:
        for store in self.stores:
            store.close()
        shutil.rmtree(self.folder)

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

    def standing(self) -> list[Workspace]:
        """Return the workspaces of the first store that are not removed."""
        return self.stores[0].workspaces.find()

    @rule(task=TASKS, branch=BRANCHES, path=BRANCHES, common=st.sampled_from(["/r", "/s"]), count=st.integers(0, 4))
    def lease(self, task: str, branch: str, path: str, common: str, count: int) -> None:
        def choose(leased: frozenset[int]) -> int:
            return next(first for first in range(9, 99) if leased.isdisjoint(range(first, first + count)))

        self.clock.advance(MINUTE)
        before = self.standing()
        wanted = a_workspace(task, branch=branch, path=path, common=common, made_at=self.clock(), port_count=count)
        answer = self.on_each(lambda store: store.workspaces.lease(wanted, ports=choose if count else None))
        own = [each for each in before if each.task_id == task]
        taken = [each for each in before if each.path == path or (each.common, each.branch) == (common, branch)]
        if own:
            assert answer == own[0] or (own[0].removing_at and answer[0] == "IllegalMove")
        elif taken:
            assert answer[0] == "BranchTaken"
        else:
            assert answer == wanted.replace(first_port=answer.first_port)

    @rule(task=TASKS, ready=st.booleans())
    def keep(self, task: str, ready: bool) -> None:
        known = self.stores[0].workspaces.get(task) or a_workspace(task)
        kept = known.replace(ready_at=self.clock() if ready else None, path="moved")
        self.on_each(lambda store: store.workspaces.save(kept))

    @rule(task=TASKS)
    def begin_removal(self, task: str) -> None:
        answer = self.on_each(lambda store: store.workspaces.begin_removal(task))
        assert task not in self.claims or isinstance(answer, tuple)

    @rule(task=TASKS)
    def end_removal(self, task: str) -> None:
        self.on_each(lambda store: store.workspaces.end_removal(task, '["r"]'))

    @rule(task=TASKS)
    def begin_run(self, task: str) -> None:
        if task in self.claims:
            return
        for store in self.stores:
            if not store.tasks.find(Filter(ids=(task,))):
                store.tasks.add(a_task(id=task, title="one"))
        lane = Lane(room=1, where=Filter(ids=(task,)))
        (self.claims[task],) = self.on_each(lambda store: store.claims.acquire("host", [lane], room=1, ttl=HOUR))
        self.on_each(lambda store: store.runs.begin(self.claims[task], a_run()))

    @rule(task=TASKS, delete=st.booleans())
    def end_run(self, task: str, delete: bool) -> None:
        claim = self.claims.pop(task, None)
        if claim is not None:
            (live,) = [run for run in self.stores[0].runs.live() if run.task_id == task]
            self.on_each(lambda store: store.runs.end(live))
            self.on_each(lambda store: store.tasks.remove(task) if delete else bool(store.claims.release(claim)))

    @invariant()
    def nothing_belongs_to_two(self) -> None:
        type(self).steps += 1
        kept = self.on_each(lambda store: store.workspaces.find(gone=True))
        standing = self.on_each(lambda store: store.workspaces.find())
        assert standing == [each for each in kept if not each.is_gone]
        for of in (lambda each: each.task_id, lambda each: each.path, lambda each: (each.common, each.branch)):
            assert len({of(each) for each in standing}) == len(standing)
        ports = [port for each in standing for port in each.ports]
        assert len(ports) == len(set(ports))


class SharedWorkspaceMachine(WorkspaceMachine):
    """The same machine with a database that hosts share."""

    kinds = ("sqlite", "postgres")


@pytest.mark.parametrize(("machine", "examples"), [(WorkspaceMachine, 60), (SharedWorkspaceMachine, 12)])
def test_random_leases_never_share_a_branch_path_or_port(machine: type[WorkspaceMachine], examples: int) -> None:
    machine.steps = 0
    run_state_machine_as_test(
        seed(int(os.environ.get("FLEET_SEED", SEED)))(machine),
        settings=settings(
            max_examples=examples,
            stateful_step_count=50,
            deadline=None,
            database=None,
            print_blob=True,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
    assert machine.steps >= 33 * examples
