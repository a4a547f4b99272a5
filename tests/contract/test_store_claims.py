"""The contract of all stores for holders of claims and for everyone else."""

from collections.abc import Callable
from typing import Any

import pytest

from builders import HOUR, MINUTE, NOON, FakeClock, a_task, an_edge
from contract.store_builders import a_claim
from fleet.core.errors import ClaimLost, TaskNotFound
from fleet.core.filter import READY, Lane
from fleet.core.task import CATEGORIES, COUNTS, Caller, Claim, Task, Verdict
from fleet.store.base import Store

SECOND = MINUTE / 60


def again(store: Store, owner: str = "host") -> Claim:
    """Return a claim on the only ready task."""
    [claim] = store.claims.acquire(owner, [Lane(room=1)], room=1, ttl=HOUR)
    return claim


def lost(store: Store, claim: Claim) -> bool:
    """Return True if nothing can be written under a claim any more."""
    before = store.tasks.get(claim.task.id)
    with pytest.raises(ClaimLost, match=claim.task.id):
        store.claims.settle(claim, Verdict(status="closed"))
    with pytest.raises(ClaimLost, match=claim.task.id):
        store.claims.release(claim)
    with pytest.raises(ClaimLost):
        store.tokens.issue(claim, Caller(task_id=claim.task.id, run_id="r", epoch=claim.epoch))
    with pytest.raises(ClaimLost):
        store.claims.adopt(claim.task.id, claim.owner, epoch=claim.epoch, ttl=HOUR)
    assert store.claims.renew([claim], ttl=HOUR) == []
    return store.tasks.get(claim.task.id) == before


def test_renew_extends_the_expiry_and_keeps_the_epoch(store: Store, clock: FakeClock) -> None:
    claim = a_claim(store)
    clock.advance(MINUTE)
    [renewed] = store.claims.renew([claim], ttl=HOUR)
    assert (renewed.owner, renewed.epoch, renewed.expires_at) == ("host", claim.epoch, NOON + MINUTE + HOUR)
    assert renewed.task == store.tasks.get(claim.task.id) == claim.task.replace(claim_expires_at=NOON + MINUTE + HOUR)


def test_renew_returns_only_claims_that_are_still_held(store: Store) -> None:
    kept, released, removed = a_claim(store), a_claim(store), a_claim(store)
    store.claims.release(released)
    store.tasks.remove(removed.task.id)
    assert [each.task.id for each in store.claims.renew(iter([released, kept, removed]), ttl=HOUR)] == [kept.task.id]
    assert store.claims.renew([], ttl=HOUR) == []


@pytest.mark.bd_in_soak
def test_renew_keeps_the_order_of_the_claims(store: Store) -> None:
    first, second = a_claim(store), a_claim(store)
    adopted = store.claims.adopt(first.task.id, first.owner, epoch=first.epoch, ttl=HOUR)
    renewed = store.claims.renew([first, second, adopted], ttl=HOUR)
    assert [(each.task.id, each.epoch) for each in renewed] == [
        (each.task.id, each.epoch) for each in (second, adopted)
    ]


def test_holder_sees_a_cancel_request_at_its_next_renewal(store: Store, clock: FakeClock) -> None:
    claim = a_claim(store)
    clock.advance(MINUTE)
    asked = store.claims.request_cancel(claim.task.id, "enough")
    assert asked == store.tasks.get(claim.task.id)
    [renewed] = store.claims.renew([claim], ttl=HOUR)
    assert (renewed.task.cancel_requested_at, renewed.task.cancel_reason) == (NOON + MINUTE, "enough")
    assert store.claims.release(renewed).cancel_requested_at is None
    assert again(store).task.cancel_reason == ""


@pytest.mark.parametrize("status", [*CATEGORIES, "of_my_own"])
def test_settle_applies_the_verdict_and_releases_the_claim(store: Store, status: str) -> None:
    counts: dict[str, Any] = {name: number for number, name in enumerate(COUNTS, 1)}
    claim = a_claim(store, **counts)
    verdict = Verdict(status=status, reason="so", finding="verified", **counts)
    settled = store.claims.settle(claim, verdict)
    assert settled == store.tasks.get(claim.task.id)
    assert (settled.status, settled.reason, settled.finding) == (status, "so", "verified")
    assert [getattr(settled, name) for name in COUNTS] == [2, 4, 6, 8, 10, 12, 14]
    assert (settled.claim_owner, settled.assignee, settled.claim_expires_at, settled.run_id) == ("", "", None, "")
    assert (settled.closed_at, settled.close_reason) == ((NOON, "so") if status == "closed" else (None, ""))
    assert bool(store.tasks.find(READY)) is (status == "open")
    assert lost(store, claim)


def test_settle_keeps_the_last_finding_when_the_verdict_has_none(store: Store) -> None:
    claim = a_claim(store, finding="failed_verify")
    assert store.claims.settle(claim, Verdict(status="open")).finding == "failed_verify"


def test_deferred_task_is_not_claimed_before_its_time(store: Store, clock: FakeClock) -> None:
    claim = a_claim(store)
    store.claims.settle(claim, Verdict(status="open", not_before=NOON + MINUTE))
    clock.advance(MINUTE - SECOND)
    assert store.claims.acquire("host", [Lane(room=1)], room=1, ttl=HOUR) == []
    clock.advance(SECOND)
    assert again(store).task.defer_until is None


def test_settle_unblocks_dependent_tasks(store: Store) -> None:
    claim = a_claim(store)
    dependent = a_task()
    store.tasks.add(dependent)
    store.edges.add(an_edge(dependent, claim.task))
    store.claims.settle(claim, Verdict(status="closed"))
    assert again(store).task.id == dependent.id


def test_task_stays_closed_when_a_person_closed_it_meanwhile(store: Store) -> None:
    ways: tuple[Callable[[Claim], Task], ...] = (
        lambda claim: store.claims.settle(claim, Verdict(status="open", reason="again", failures=1)),
        store.claims.release,
    )
    for way in ways:
        claim = a_claim(store)
        with store.atomic():
            store.tasks.save(store.tasks.get(claim.task.id).closed("by hand", store.now()))
        after = way(claim)
        assert (after.status, after.close_reason, after.closed_at) == ("closed", "by hand", NOON)
        assert (after.claim_owner, after.claim_expires_at) == ("", None)
        assert after == store.tasks.get(claim.task.id)


def test_claim_is_lost_when_its_task_was_reopened(store: Store, clock: FakeClock) -> None:
    claim = a_claim(store)
    with store.atomic():
        store.tasks.save(store.tasks.get(claim.task.id).closed("by hand", store.now()))
    with store.atomic():
        store.tasks.save(store.tasks.get(claim.task.id).reopened(store.now()))
    assert lost(store, claim)
    clock.advance(HOUR + SECOND)
    store.claims.reap()
    assert again(store).epoch > claim.epoch + 1


def test_earlier_epoch_is_refused_even_from_the_same_owner(store: Store) -> None:
    old = a_claim(store)
    store.claims.release(old)
    new = again(store)
    assert lost(store, old)
    assert store.claims.settle(new, Verdict(status="closed")).status == "closed"


@pytest.mark.bd_in_soak
def test_claim_of_another_owner_is_refused(store: Store) -> None:
    claim = a_claim(store)
    assert lost(store, claim.replace(owner="other"))
    assert lost(store, claim.replace(epoch=claim.epoch + 1))
    assert len(store.claims.renew([claim], ttl=HOUR)) == 1


def test_claim_is_lost_when_its_task_was_removed(store: Store) -> None:
    claim = a_claim(store)
    store.tasks.remove(claim.task.id)
    with pytest.raises(ClaimLost):
        store.claims.settle(claim, Verdict(status="open"))
    with pytest.raises(ClaimLost):
        store.claims.release(claim)
    with pytest.raises(ClaimLost):
        store.tokens.issue(claim, Caller(task_id=claim.task.id, run_id="r", epoch=claim.epoch))


def test_expired_claim_holds_until_it_is_reaped(store: Store, clock: FakeClock) -> None:
    claim = a_claim(store)
    clock.advance(2 * HOUR)
    assert store.claims.acquire("other", [Lane(room=1)], room=1, ttl=HOUR) == []
    [renewed] = store.claims.renew([claim], ttl=HOUR)
    assert store.claims.reap() == []
    assert store.claims.settle(renewed, Verdict(status="closed")).status == "closed"


def test_released_task_is_as_if_it_had_not_been_claimed(store: Store) -> None:
    claim = a_claim(store, failures=2)
    released = store.claims.release(claim)
    assert released == store.tasks.get(claim.task.id)
    assert (released.status, released.assignee, released.claim_owner, released.failures) == ("open", "", "", 2)
    assert (released.claim_expires_at, released.epoch) == (None, claim.epoch)
    assert again(store, "other").task.id == released.id


def test_adopt_returns_the_claim_with_the_next_epoch(store: Store, clock: FakeClock) -> None:
    claim = a_claim(store)
    with store.atomic():
        store.tasks.save(store.tasks.get(claim.task.id).replace(run_id="run-1"))
    clock.advance(2 * HOUR)
    adopted = store.claims.adopt(claim.task.id, "host", epoch=claim.epoch, ttl=HOUR)
    assert (adopted.owner, adopted.epoch, adopted.expires_at) == ("host", claim.epoch + 1, NOON + 3 * HOUR)
    assert adopted.task == store.tasks.get(claim.task.id)
    assert (adopted.task.run_id, adopted.task.status) == ("run-1", "in_progress")
    assert lost(store, claim)
    assert store.claims.reap() == []
    assert store.claims.settle(adopted, Verdict(status="closed")).status == "closed"


@pytest.mark.bd_in_soak
def test_adopt_refuses_claims_of_others_and_unclaimed_tasks(store: Store) -> None:
    claim = a_claim(store)
    for owner, epoch in (("other", claim.epoch), ("host", claim.epoch + 1), ("host", claim.epoch - 1)):
        with pytest.raises(ClaimLost):
            store.claims.adopt(claim.task.id, owner, epoch=epoch, ttl=HOUR)
    store.claims.release(claim)
    with pytest.raises(ClaimLost):
        store.claims.adopt(claim.task.id, "host", epoch=claim.epoch, ttl=HOUR)
    with pytest.raises(TaskNotFound):
        store.claims.adopt("nope", "host", epoch=1, ttl=HOUR)


def test_expired_claim_is_taken_over_with_its_run_and_its_first_holder_is_fenced(
    store: Store, clock: FakeClock
) -> None:
    claim = a_claim(store)
    token = store.tokens.issue(claim, Caller(task_id=claim.task.id, run_id="r", epoch=claim.epoch))
    clock.advance(HOUR)
    with pytest.raises(ClaimLost):  # only due, not expired
        store.claims.adopt(claim.task.id, "other", epoch=claim.epoch, ttl=HOUR)
    clock.advance(SECOND)
    taken = store.claims.adopt(claim.task.id, "other", epoch=claim.epoch, ttl=HOUR)
    assert (taken.owner, taken.epoch) == ("other", claim.epoch + 1)
    assert (taken.task.claim_owner, taken.task.assignee) == ("other", "other")
    assert lost(store, claim)
    assert store.claims.renew([claim], ttl=HOUR) == []
    with pytest.raises(ClaimLost):
        store.claims.release(claim)
    with pytest.raises(ClaimLost):
        store.claims.adopt(claim.task.id, "host", epoch=claim.epoch, ttl=HOUR)
    assert store.tokens.caller(token) == Caller(task_id=claim.task.id, run_id="r", epoch=taken.epoch)


@pytest.mark.bd_in_soak
def test_claim_of_a_person_is_never_taken_over(store: Store, clock: FakeClock) -> None:
    task = a_task()
    store.tasks.add(task)
    held = store.claims.take(task.id, "ann")
    clock.advance(100 * HOUR)
    with pytest.raises(ClaimLost):
        store.claims.adopt(task.id, "host", epoch=held.epoch, ttl=HOUR)


def test_reap_removes_only_expired_claims(store: Store, clock: FakeClock) -> None:
    early = a_claim(store)
    clock.advance(MINUTE)
    late = a_claim(store)
    clock.advance(HOUR - MINUTE)
    assert store.claims.expired() == store.claims.reap() == []
    clock.advance(SECOND)
    assert store.claims.expired() == [early.task.id]
    [reaped] = store.claims.reap()
    assert store.claims.expired() == []
    assert reaped == store.tasks.get(early.task.id)
    assert (reaped.id, reaped.status, reaped.claim_owner, reaped.assignee) == (early.task.id, "open", "", "")
    assert lost(store, early)
    assert store.tasks.get(late.task.id).claim_owner == "host"


def test_reap_spares_claims_that_are_known_to_be_alive(store: Store, clock: FakeClock) -> None:
    alive, dead = a_claim(store), a_claim(store)
    clock.advance(2 * HOUR)
    assert [task.id for task in store.claims.reap(spare=iter([alive.task.id, "nope"]))] == [dead.task.id]
    assert len(store.claims.renew([alive, dead], ttl=HOUR)) == 1


@pytest.mark.bd_in_soak
def test_manual_claim_is_never_reaped(store: Store, clock: FakeClock) -> None:
    task = a_task()
    store.tasks.add(task)
    taken = store.claims.take(task.id, "ada")
    clock.advance(10_000 * HOUR)
    assert store.claims.reap() == []
    assert store.tasks.get(task.id) == taken


def test_reap_keeps_closed_tasks_closed(store: Store, clock: FakeClock) -> None:
    claim = a_claim(store)
    with store.atomic():
        store.tasks.save(store.tasks.get(claim.task.id).closed("by hand", store.now()))
    clock.advance(2 * HOUR)
    [reaped] = store.claims.reap()
    assert (reaped.status, reaped.close_reason, reaped.claim_owner) == ("closed", "by hand", "")


@pytest.mark.parametrize("status", ["blocked", "deferred"])
def test_status_set_by_an_agent_stays_when_its_claim_is_lost(store: Store, clock: FakeClock, status: str) -> None:
    claim = a_claim(store)
    with store.atomic():
        store.tasks.save(store.tasks.get(claim.task.id).moved(status, clock()))
    clock.advance(2 * HOUR)
    assert [task.status for task in store.claims.reap()] == [status]
    assert store.tasks.get(claim.task.id).claim_owner == ""
