"""What every queue promises about writes that belong together."""

import pytest

from builders import HOUR, a_comment, a_task, an_edge
from contract.history_builders import a_workspace, next_claim
from fleet.core.errors import BranchTaken, TaskExists
from fleet.core.filter import Filter, Lane
from fleet.core.task import Caller, Verdict
from fleet.store.base import History, Queue


class Stop(Exception):
    """What a test raises to leave a block."""


def test_an_exception_takes_back_everything_done_inside(queue: Queue) -> None:
    kept, needed, held = a_task(labels=("x",)), a_task(), a_task(priority=0)
    for task in (kept, needed, held):
        queue.add(task)
    [claim] = queue.claim("host", [Lane(room=1)], room=1, ttl=HOUR)
    before = (queue.find(Filter(), sort="id"), queue.edges(), queue.config(), queue.labels())
    with pytest.raises(Stop), queue.atomic():
        queue.add(a_task(labels=("new",)))
        queue.save(kept.replace(title="changed", labels=("y",)))
        queue.link(an_edge(kept, needed))
        queue.comment(a_comment(kept))
        queue.set_config("a", "b")
        number = queue.next_child(kept.id)
        token = queue.admit(claim, Caller(task_id=held.id, run_id="r", epoch=claim.epoch))
        queue.settle(claim, Verdict(status="closed"))
        queue.take(needed.id, "ada")
        queue.remove(kept.id)
        raise Stop
    assert (queue.find(Filter(), sort="id"), queue.edges(), queue.config(), queue.labels()) == before
    assert queue.comments([kept.id]) == []
    assert queue.next_child(kept.id) == number
    assert queue.caller(token) is None
    assert len(queue.renew([claim], ttl=HOUR)) == 1


@pytest.mark.bd_in_soak
def test_reads_inside_see_the_writes_made_there(queue: Queue) -> None:
    task, needed = a_task(), a_task()
    with queue.atomic():
        queue.add(task)
        queue.add(needed)
        queue.link(an_edge(task, needed))
        assert queue.get(task.id).is_blocked
        assert [each.id for each in queue.find(Filter(blocked=True))] == [task.id]
    assert queue.get(task.id).is_blocked


def test_a_nested_block_joins_the_outer_one(queue: Queue) -> None:
    first, second = a_task(), a_task()
    with pytest.raises(Stop), queue.atomic():
        with queue.atomic():
            queue.add(first)
        queue.add(second)
        raise Stop
    assert queue.count(Filter()) == {"": 0}


def test_an_error_caught_inside_leaves_the_rest_of_the_block_standing(queue: Queue) -> None:
    task = a_task()
    with queue.atomic():
        queue.add(task)
        with pytest.raises(TaskExists):
            queue.add(task)
        queue.comment(a_comment(task))
    assert queue.get(task.id) == task
    assert len(queue.comments([task.id])) == 1


def test_a_refused_write_leaves_the_queue_usable(queue: Queue) -> None:
    task = a_task()
    queue.add(task)
    with pytest.raises(TaskExists):
        queue.add(task)
    queue.add(a_task())
    assert queue.count(Filter()) == {"": 2}


@pytest.mark.bd_in_soak
def test_a_snapshot_is_for_reading_and_can_be_nested(queue: Queue) -> None:
    task = a_task()
    queue.add(task)
    with queue.snapshot(), queue.snapshot():
        assert queue.get(task.id) == task
        assert queue.count(Filter()) == {"": 1}
    queue.add(a_task())
    assert queue.count(Filter()) == {"": 2}


def test_a_lease_and_a_claim_are_one_write(queue: Queue, history: History) -> None:
    queue.add(a_task(id="t"))
    history.lease(a_workspace("u", branch="x"))
    with pytest.raises(BranchTaken), queue.atomic():
        next_claim(queue)
        history.lease(a_workspace("t", branch="x"))
    assert not queue.get("t").is_claimed
