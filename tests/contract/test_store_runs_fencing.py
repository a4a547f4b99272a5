"""Writes about a run are refused if the caller no longer holds its task."""

from collections.abc import Callable

import pytest

from builders import HOUR, MINUTE, NOON, FakeClock, a_task
from contract.store_builders import a_claim, a_run, next_claim
from fleet.core.errors import ClaimLost
from fleet.core.run import Run
from fleet.core.task import Claim, Verdict
from fleet.store.base import Store

SECOND = MINUTE / 60
Loss = Callable[[Store, FakeClock, Claim], object]


def reaped(store: Store, clock: FakeClock, claim: Claim) -> None:
    clock.advance(claim.expires_at - clock() + SECOND)
    assert [task.id for task in store.claims.reap()] == [claim.task.id]


def taken_by_another(store: Store, clock: FakeClock, claim: Claim) -> None:
    reaped(store, clock, claim)
    assert next_claim(store, "other").task.id == claim.task.id


def taken_by_the_same_again(store: Store, clock: FakeClock, claim: Claim) -> None:
    store.claims.release(claim)
    assert next_claim(store).epoch == claim.epoch + 1


def reopened(store: Store, clock: FakeClock, claim: Claim) -> None:
    with store.atomic():
        store.tasks.save(store.tasks.get(claim.task.id).closed("by hand", clock()).reopened(clock()))


LOSSES: dict[str, Loss] = {
    "released": lambda store, clock, claim: store.claims.release(claim),
    "settled": lambda store, clock, claim: store.claims.settle(claim, Verdict(status="blocked")),
    "reaped": reaped,
    "taken by another": taken_by_another,
    "taken by the same again": taken_by_the_same_again,
    "reopened": reopened,
    "removed": lambda store, clock, claim: store.tasks.remove(claim.task.id),
}
each_loss = pytest.mark.parametrize("loss", LOSSES)


def refused(store: Store, claim: Claim, run: Run) -> bool:
    """Return True if nothing can be written under a claim and nothing was written."""
    before = store.runs.of_task(run.task_id)
    with pytest.raises(ClaimLost, match=claim.task.id):
        store.runs.begin(claim, a_run())
    with pytest.raises(ClaimLost, match=claim.task.id):
        store.runs.fold(claim, run.replace(events=99))
    assert store.runs.fold_all([(claim, run.replace(events=99))]) == [run.id]
    return store.runs.of_task(run.task_id) == before


@each_loss
def test_run_is_not_written_under_a_lost_claim(store: Store, clock: FakeClock, loss: str) -> None:
    claim = a_claim(store)
    run = store.runs.begin(claim, a_run())
    LOSSES[loss](store, clock, claim)
    assert refused(store, claim, run)


@pytest.mark.bd_in_soak
@pytest.mark.parametrize("loss", [name for name in LOSSES if name != "removed"])
def test_end_is_rolled_back_with_a_refused_verdict(store: Store, clock: FakeClock, loss: str) -> None:
    claim = a_claim(store)
    run = store.runs.begin(claim, a_run())
    LOSSES[loss](store, clock, claim)
    task = store.tasks.get(claim.task.id)
    with pytest.raises(ClaimLost), store.atomic():
        store.runs.end(run.replace(ending="finished"))
        store.claims.settle(claim, Verdict(status="closed"))
    assert (store.runs.get(run.id), store.tasks.get(claim.task.id)) == (run, task)


@pytest.mark.bd_in_soak
@each_loss
def test_run_can_be_ended_when_its_claim_is_lost(store: Store, clock: FakeClock, loss: str) -> None:
    claim = a_claim(store)
    run = store.runs.begin(claim, a_run())
    LOSSES[loss](store, clock, claim)
    ended = run.replace(ending="lost", reason="its claim was lost", ended_at=clock())
    store.runs.end(ended)
    assert (store.runs.get(run.id), store.runs.live()) == (ended, [])


@pytest.mark.bd_in_soak
def test_next_run_ends_an_abandoned_one(store: Store, clock: FakeClock) -> None:
    first = a_claim(store, owner="stopped")
    old = store.runs.begin(first, a_run(events=5))
    taken_by_another(store, clock, first)
    [second] = store.claims.renew([first.replace(owner="other", epoch=first.epoch + 1)], ttl=HOUR)
    new = store.runs.begin(second, a_run())
    lost = store.runs.get(old.id)
    assert lost is not None and (lost.ending, lost.ended_at, lost.events) == ("lost", clock(), 5)
    store.runs.end(old.replace(ending="finished"))
    assert store.runs.of_task(old.task_id) == [lost, new]
    assert store.runs.live() == [new]


@pytest.mark.bd_in_soak
@pytest.mark.parametrize("changes", [{"owner": "other"}, {"epoch": 0}, {"epoch": 2}, {"task": a_task()}])
def test_run_is_not_written_under_a_different_claim(store: Store, changes: dict[str, object]) -> None:
    claim = a_claim(store)
    run = store.runs.begin(claim, a_run())
    assert refused(store, claim.replace(**changes), run)
    store.runs.fold(claim, run.replace(events=1))
    for change in ({"owner": "other"}, {"epoch": claim.epoch + 1}, {"epoch": claim.epoch - 1}):
        with pytest.raises(ClaimLost):
            store.runs.end(run.replace(ending="finished", **change))
    assert store.runs.get(run.id) == run.replace(events=1)


@pytest.mark.bd_in_soak
def test_claim_on_one_task_does_not_allow_writing_runs_of_another(store: Store) -> None:
    mine, yours = a_claim(store), a_claim(store)
    run, _ = store.runs.begin(mine, a_run()), store.runs.begin(yours, a_run())
    with pytest.raises(ClaimLost):
        store.runs.fold(yours, run.replace(events=99))
    assert store.runs.get(run.id) == run


@pytest.mark.bd_in_soak
def test_new_claim_does_not_allow_writing_runs_of_the_previous_one(store: Store) -> None:
    claim = a_claim(store)
    run = store.runs.begin(claim, a_run())
    store.claims.release(claim)
    again = next_claim(store)
    assert store.runs.fold_all([(again, run.replace(events=99))]) == [run.id]
    adopted = store.claims.adopt(run.task_id, "host", epoch=again.epoch, ttl=HOUR)
    assert store.runs.fold_all([(adopted, run.replace(events=99))]) == [run.id]
    assert store.runs.get(run.id) == run


@pytest.mark.bd_in_soak
def test_adopted_run_continues_under_the_next_epoch(store: Store, clock: FakeClock) -> None:
    claim = a_claim(store)
    earlier = store.runs.begin(claim, a_run())
    store.runs.end(earlier)
    run = store.runs.begin(claim, a_run())
    store.runs.fold(claim, run.replace(events=1, stdout_offset=5))
    clock.advance(2 * HOUR)
    adopted = store.claims.adopt(claim.task.id, "host", epoch=claim.epoch, ttl=HOUR)
    same = run.replace(events=1, stdout_offset=5, epoch=claim.epoch + 1)
    assert adopted.task.run_id == run.id
    assert store.runs.live("host") == [same]
    store.runs.fold(adopted, same.replace(events=2))
    assert store.runs.get(run.id) == same.replace(events=2)
    assert store.runs.of_task(run.task_id)[0].epoch == claim.epoch


@pytest.mark.bd_in_soak
def test_previous_holder_of_an_adopted_run_is_refused(store: Store) -> None:
    claim = a_claim(store)
    run = store.runs.begin(claim, a_run())
    adopted = store.claims.adopt(claim.task.id, "host", epoch=claim.epoch, ttl=HOUR)
    assert refused(store, claim, run)
    with pytest.raises(ClaimLost):
        store.runs.end(run.replace(ending="finished"))
    [live] = store.runs.live()
    store.runs.end(live.replace(ending="finished"))
    store.claims.settle(adopted, Verdict(status="closed"))
    assert store.runs.get(run.id) == live.replace(ending="finished", ended_at=NOON)


@pytest.mark.bd_in_soak
def test_rolled_back_adoption_leaves_the_run_unchanged(store: Store) -> None:
    claim = a_claim(store)
    run = store.runs.begin(claim, a_run())
    with pytest.raises(ZeroDivisionError), store.atomic():
        store.claims.adopt(claim.task.id, "host", epoch=claim.epoch, ttl=HOUR)
        raise ZeroDivisionError
    store.runs.fold(claim, run.replace(events=1))
    assert store.runs.get(run.id) == run.replace(events=1)


@pytest.mark.bd_in_soak
def test_expired_claim_counts_until_it_is_reaped(store: Store, clock: FakeClock) -> None:
    claim = a_claim(store)
    clock.advance(2 * HOUR)
    run = store.runs.begin(claim, a_run())
    store.runs.fold(claim, run.replace(events=1))
    assert store.runs.get(run.id) == run.replace(events=1)
