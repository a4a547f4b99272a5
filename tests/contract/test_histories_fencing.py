"""What every history refuses: words about a run from whoever no longer holds its task."""

from collections.abc import Callable

import pytest

from builders import HOUR, MINUTE, NOON, FakeClock, a_task
from contract.history_builders import a_claim, a_run, next_claim
from fleet.core.errors import ClaimLost
from fleet.core.run import Run
from fleet.core.task import Claim, Verdict
from fleet.store.base import History, Queue

SECOND = MINUTE / 60
Loss = Callable[[Queue, FakeClock, Claim], object]


def reaped(queue: Queue, clock: FakeClock, claim: Claim) -> None:
    clock.advance(claim.expires_at - clock() + SECOND)
    assert [task.id for task in queue.reap()] == [claim.task.id]


def taken_by_another(queue: Queue, clock: FakeClock, claim: Claim) -> None:
    reaped(queue, clock, claim)
    assert next_claim(queue, "other").task.id == claim.task.id


def taken_by_the_same_again(queue: Queue, clock: FakeClock, claim: Claim) -> None:
    queue.release(claim)
    assert next_claim(queue).epoch == claim.epoch + 1


def reopened(queue: Queue, clock: FakeClock, claim: Claim) -> None:
    with queue.atomic():
        queue.save(queue.get(claim.task.id).closed("by hand", clock()).reopened(clock()))


LOSSES: dict[str, Loss] = {
    "released": lambda queue, clock, claim: queue.release(claim),
    "settled": lambda queue, clock, claim: queue.settle(claim, Verdict(status="blocked")),
    "reaped": reaped,
    "taken by another": taken_by_another,
    "taken by the same again": taken_by_the_same_again,
    "reopened": reopened,
    "removed": lambda queue, clock, claim: queue.remove(claim.task.id),
}
each_loss = pytest.mark.parametrize("loss", LOSSES)


def refused(queue: Queue, history: History, claim: Claim, run: Run) -> bool:
    """Whether nothing can be written under a claim, and nothing was."""
    before = history.runs(run.task_id)
    with pytest.raises(ClaimLost, match=claim.task.id):
        history.begin(claim, a_run())
    with pytest.raises(ClaimLost, match=claim.task.id):
        history.fold(claim, run.replace(events=99))
    assert history.fold_all([(claim, run.replace(events=99))]) == [run.id]
    return history.runs(run.task_id) == before


@each_loss
def test_nothing_is_written_under_a_claim_that_is_lost(
    queue: Queue, history: History, clock: FakeClock, loss: str
) -> None:
    claim = a_claim(queue)
    run = history.begin(claim, a_run())
    LOSSES[loss](queue, clock, claim)
    assert refused(queue, history, claim, run)


@pytest.mark.bd_in_soak
@pytest.mark.parametrize("loss", [name for name in LOSSES if name != "removed"])
def test_a_late_end_goes_with_the_verdict_that_is_refused(
    queue: Queue, history: History, clock: FakeClock, loss: str
) -> None:
    claim = a_claim(queue)
    run = history.begin(claim, a_run())
    LOSSES[loss](queue, clock, claim)
    task = queue.get(claim.task.id)
    with pytest.raises(ClaimLost), queue.atomic():
        history.end(run.replace(ending="finished"))
        queue.settle(claim, Verdict(status="closed"))
    assert (history.run(run.id), queue.get(claim.task.id)) == (run, task)


@pytest.mark.bd_in_soak
@each_loss
def test_a_run_whose_claim_is_lost_can_still_be_ended(
    queue: Queue, history: History, clock: FakeClock, loss: str
) -> None:
    claim = a_claim(queue)
    run = history.begin(claim, a_run())
    LOSSES[loss](queue, clock, claim)
    ended = run.replace(ending="lost", reason="its claim was lost", ended_at=clock())
    history.end(ended)
    assert (history.run(run.id), history.live()) == (ended, [])


@pytest.mark.bd_in_soak
def test_the_next_run_ends_one_that_nobody_ended(queue: Queue, history: History, clock: FakeClock) -> None:
    first = a_claim(queue, owner="stopped")
    old = history.begin(first, a_run(events=5))
    taken_by_another(queue, clock, first)
    [second] = queue.renew([first.replace(owner="other", epoch=first.epoch + 1)], ttl=HOUR)
    new = history.begin(second, a_run())
    lost = history.run(old.id)
    assert lost is not None and (lost.ending, lost.ended_at, lost.events) == ("lost", clock(), 5)
    history.end(old.replace(ending="finished"))
    assert history.runs(old.task_id) == [lost, new]
    assert history.live() == [new]


@pytest.mark.bd_in_soak
@pytest.mark.parametrize("changes", [{"owner": "other"}, {"epoch": 0}, {"epoch": 2}, {"task": a_task()}])
def test_another_claim_does_not_do(queue: Queue, history: History, changes: dict[str, object]) -> None:
    claim = a_claim(queue)
    run = history.begin(claim, a_run())
    assert refused(queue, history, claim.replace(**changes), run)
    history.fold(claim, run.replace(events=1))
    for change in ({"owner": "other"}, {"epoch": claim.epoch + 1}, {"epoch": claim.epoch - 1}):
        with pytest.raises(ClaimLost):
            history.end(run.replace(ending="finished", **change))
    assert history.run(run.id) == run.replace(events=1)


@pytest.mark.bd_in_soak
def test_the_claim_on_one_task_says_nothing_about_the_run_of_another(queue: Queue, history: History) -> None:
    mine, yours = a_claim(queue), a_claim(queue)
    run, _ = history.begin(mine, a_run()), history.begin(yours, a_run())
    with pytest.raises(ClaimLost):
        history.fold(yours, run.replace(events=99))
    assert history.run(run.id) == run


@pytest.mark.bd_in_soak
def test_a_new_claim_says_nothing_about_the_run_of_the_one_before(queue: Queue, history: History) -> None:
    claim = a_claim(queue)
    run = history.begin(claim, a_run())
    queue.release(claim)
    again = next_claim(queue)
    assert history.fold_all([(again, run.replace(events=99))]) == [run.id]
    adopted = queue.adopt(run.task_id, "host", epoch=again.epoch, ttl=HOUR)
    assert history.fold_all([(adopted, run.replace(events=99))]) == [run.id]
    assert history.run(run.id) == run


@pytest.mark.bd_in_soak
def test_an_adopted_run_goes_on_under_the_next_epoch(queue: Queue, history: History, clock: FakeClock) -> None:
    claim = a_claim(queue)
    earlier = history.begin(claim, a_run())
    history.end(earlier)
    run = history.begin(claim, a_run())
    history.fold(claim, run.replace(events=1, stdout_offset=5))
    clock.advance(2 * HOUR)
    adopted = queue.adopt(claim.task.id, "host", epoch=claim.epoch, ttl=HOUR)
    same = run.replace(events=1, stdout_offset=5, epoch=claim.epoch + 1)
    assert adopted.task.run_id == run.id
    assert history.live("host") == [same]
    history.fold(adopted, same.replace(events=2))
    assert history.run(run.id) == same.replace(events=2)
    assert history.runs(run.task_id)[0].epoch == claim.epoch


@pytest.mark.bd_in_soak
def test_whoever_had_a_run_before_it_was_adopted_is_refused(queue: Queue, history: History) -> None:
    claim = a_claim(queue)
    run = history.begin(claim, a_run())
    adopted = queue.adopt(claim.task.id, "host", epoch=claim.epoch, ttl=HOUR)
    assert refused(queue, history, claim, run)
    with pytest.raises(ClaimLost):
        history.end(run.replace(ending="finished"))
    [live] = history.live()
    history.end(live.replace(ending="finished"))
    queue.settle(adopted, Verdict(status="closed"))
    assert history.run(run.id) == live.replace(ending="finished", ended_at=NOON)


@pytest.mark.bd_in_soak
def test_an_adoption_taken_back_leaves_the_run_where_it_was(queue: Queue, history: History) -> None:
    claim = a_claim(queue)
    run = history.begin(claim, a_run())
    with pytest.raises(ZeroDivisionError), queue.atomic():
        queue.adopt(claim.task.id, "host", epoch=claim.epoch, ttl=HOUR)
        raise ZeroDivisionError
    history.fold(claim, run.replace(events=1))
    assert history.run(run.id) == run.replace(events=1)


@pytest.mark.bd_in_soak
def test_an_expired_claim_still_counts_until_it_is_reaped(queue: Queue, history: History, clock: FakeClock) -> None:
    claim = a_claim(queue)
    clock.advance(2 * HOUR)
    run = history.begin(claim, a_run())
    history.fold(claim, run.replace(events=1))
    assert history.run(run.id) == run.replace(events=1)
