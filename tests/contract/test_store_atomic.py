"""The contract of all stores for atomic writes."""

import pytest

from builders import HOUR, a_comment, a_task, an_edge
from contract.store_builders import a_workspace, next_claim
from fleet.core.errors import BranchTaken, TaskExists
from fleet.core.filter import Filter, Lane
from fleet.core.task import Caller, Verdict
from fleet.store.base import Store


class Stop(Exception):
    """An exception that leaves a block."""


def test_exception_rolls_back_all_writes_of_its_block(store: Store) -> None:
    kept, needed, held = a_task(labels=("x",)), a_task(), a_task(priority=0)
    for task in (kept, needed, held):
        store.tasks.add(task)
    [claim] = store.claims.acquire("host", [Lane(room=1)], room=1, ttl=HOUR)
    before = (store.tasks.find(Filter(), sort="id"), store.edges.find(), store.config.all(), store.tasks.labels())
    with pytest.raises(Stop), store.atomic():
        store.tasks.add(a_task(labels=("new",)))
        store.tasks.save(kept.replace(title="changed", labels=("y",)))
        store.edges.add(an_edge(kept, needed))
        store.comments.add(a_comment(kept))
        store.config.set("a", "b")
        number = store.tasks.next_child(kept.id)
        token = store.tokens.issue(claim, Caller(task_id=held.id, run_id="r", epoch=claim.epoch))
        store.claims.settle(claim, Verdict(status="closed"))
        store.claims.take(needed.id, "ada")
        store.tasks.remove(kept.id)
        raise Stop
    assert (
        store.tasks.find(Filter(), sort="id"),
        store.edges.find(),
        store.config.all(),
        store.tasks.labels(),
    ) == before
    assert store.comments.find([kept.id]) == []
    assert store.tasks.next_child(kept.id) == number
    assert store.tokens.caller(token) is None
    assert len(store.claims.renew([claim], ttl=HOUR)) == 1


@pytest.mark.bd_in_soak
def test_reads_see_the_writes_of_their_block(store: Store) -> None:
    task, needed = a_task(), a_task()
    with store.atomic():
        store.tasks.add(task)
        store.tasks.add(needed)
        store.edges.add(an_edge(task, needed))
        assert store.tasks.get(task.id).is_blocked
        assert [each.id for each in store.tasks.find(Filter(blocked=True))] == [task.id]
    assert store.tasks.get(task.id).is_blocked


def test_nested_block_joins_the_outer_one(store: Store) -> None:
    first, second = a_task(), a_task()
    with pytest.raises(Stop), store.atomic():
        with store.atomic():
            store.tasks.add(first)
        store.tasks.add(second)
        raise Stop
    assert store.tasks.count(Filter()) == {"": 0}


def test_caught_error_keeps_the_other_writes_of_its_block(store: Store) -> None:
    task = a_task()
    with store.atomic():
        store.tasks.add(task)
        with pytest.raises(TaskExists):
            store.tasks.add(task)
        store.comments.add(a_comment(task))
    assert store.tasks.get(task.id) == task
    assert len(store.comments.find([task.id])) == 1


def test_queue_stays_usable_after_a_refused_write(store: Store) -> None:
    task = a_task()
    store.tasks.add(task)
    with pytest.raises(TaskExists):
        store.tasks.add(task)
    store.tasks.add(a_task())
    assert store.tasks.count(Filter()) == {"": 2}


@pytest.mark.bd_in_soak
def test_snapshot_is_read_only_and_can_be_nested(store: Store) -> None:
    task = a_task()
    store.tasks.add(task)
    with store.snapshot(), store.snapshot():
        assert store.tasks.get(task.id) == task
        assert store.tasks.count(Filter()) == {"": 1}
    store.tasks.add(a_task())
    assert store.tasks.count(Filter()) == {"": 2}


def test_lease_and_claim_are_written_together(store: Store) -> None:
    store.tasks.add(a_task(id="t"))
    store.workspaces.lease(a_workspace("u", branch="x"))
    with pytest.raises(BranchTaken), store.atomic():
        next_claim(store)
        store.workspaces.lease(a_workspace("t", branch="x"))
    assert not store.tasks.get("t").is_claimed
