"""What every store promises to whoever holds a claim, and to everybody else."""

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
    """A claim on the only task that is ready."""
    [claim] = store.claims.acquire(owner, [Lane(room=1)], room=1, ttl=HOUR)
    return claim


def lost(store: Store, claim: Claim) -> bool:
    """Whether nothing can be written about a claim any more."""
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


def test_renewing_puts_off_the_expiry_and_keeps_the_epoch(store: Store, clock: FakeClock) -> None:
    claim = a_claim(store)
    clock.advance(MINUTE)
    [renewed] = store.claims.renew([claim], ttl=HOUR)
    assert (renewed.owner, renewed.epoch, renewed.expires_at) == ("host", claim.epoch, NOON + MINUTE + HOUR)
    assert renewed.task == store.tasks.get(claim.task.id) == claim.task.replace(claim_expires_at=NOON + MINUTE + HOUR)


def test_renewing_answers_only_for_what_is_still_held(store: Store) -> None:
    kept, released, removed = a_claim(store), a_claim(store), a_claim(store)
    store.claims.release(released)
    store.tasks.remove(removed.task.id)
    assert [each.task.id for each in store.claims.renew(iter([released, kept, removed]), ttl=HOUR)] == [kept.task.id]
    assert store.claims.renew([], ttl=HOUR) == []


@pytest.mark.bd_in_soak
def test_renew_answers_in_the_order_of_the_claims(store: Store) -> None:
    first, second = a_claim(store), a_claim(store)
    adopted = store.claims.adopt(first.task.id, first.owner, epoch=first.epoch, ttl=HOUR)
    renewed = store.claims.renew([first, second, adopted], ttl=HOUR)
    assert [(each.task.id, each.epoch) for each in renewed] == [
        (each.task.id, each.epoch) for each in (second, adopted)
    ]


def test_a_request_to_cancel_is_seen_by_the_holder_at_its_next_renewal(store: Store, clock: FakeClock) -> None:
    claim = a_claim(store)
    clock.advance(MINUTE)
    asked = store.claims.request_cancel(claim.task.id, "enough")
    assert asked == store.tasks.get(claim.task.id)
    [renewed] = store.claims.renew([claim], ttl=HOUR)
    assert (renewed.task.cancel_requested_at, renewed.task.cancel_reason) == (NOON + MINUTE, "enough")
    assert store.claims.release(renewed).cancel_requested_at is None
    assert again(store).task.cancel_reason == ""


@pytest.mark.parametrize("status", [*CATEGORIES, "of_my_own"])
def test_a_verdict_puts_the_task_where_it_says_and_gives_the_claim_back(store: Store, status: str) -> None:
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


def test_a_verdict_without_a_finding_keeps_the_last_one(store: Store) -> None:
    claim = a_claim(store, finding="failed_verify")
    assert store.claims.settle(claim, Verdict(status="open")).finding == "failed_verify"


def test_a_task_sent_back_with_a_time_is_kept_out_until_then(store: Store, clock: FakeClock) -> None:
    claim = a_claim(store)
    store.claims.settle(claim, Verdict(status="open", not_before=NOON + MINUTE))
    clock.advance(MINUTE - SECOND)
    assert store.claims.acquire("host", [Lane(room=1)], room=1, ttl=HOUR) == []
    clock.advance(SECOND)
    assert again(store).task.defer_until is None


def test_settling_unblocks_what_waited_for_the_task(store: Store) -> None:
    claim = a_claim(store)
    dependent = a_task()
    store.tasks.add(dependent)
    store.edges.add(an_edge(dependent, claim.task))
    store.claims.settle(claim, Verdict(status="closed"))
    assert again(store).task.id == dependent.id


def test_what_a_person_closed_meanwhile_stays_closed(store: Store) -> None:
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


def test_a_reopened_task_is_lost_to_whoever_held_it_before(store: Store, clock: FakeClock) -> None:
    claim = a_claim(store)
    with store.atomic():
        store.tasks.save(store.tasks.get(claim.task.id).closed("by hand", store.now()))
    with store.atomic():
        store.tasks.save(store.tasks.get(claim.task.id).reopened(store.now()))
    assert lost(store, claim)
    clock.advance(HOUR + SECOND)
    store.claims.reap()
    assert again(store).epoch > claim.epoch + 1


def test_an_old_epoch_is_refused_even_from_the_same_owner(store: Store) -> None:
    old = a_claim(store)
    store.claims.release(old)
    new = again(store)
    assert lost(store, old)
    assert store.claims.settle(new, Verdict(status="closed")).status == "closed"


@pytest.mark.bd_in_soak
def test_another_owner_is_refused(store: Store) -> None:
    claim = a_claim(store)
    assert lost(store, claim.replace(owner="other"))
    assert lost(store, claim.replace(epoch=claim.epoch + 1))
    assert len(store.claims.renew([claim], ttl=HOUR)) == 1


def test_a_claim_on_a_removed_task_is_gone(store: Store) -> None:
    claim = a_claim(store)
    store.tasks.remove(claim.task.id)
    with pytest.raises(ClaimLost):
        store.claims.settle(claim, Verdict(status="open"))
    with pytest.raises(ClaimLost):
        store.claims.release(claim)
    with pytest.raises(ClaimLost):
        store.tokens.issue(claim, Caller(task_id=claim.task.id, run_id="r", epoch=claim.epoch))


def test_an_expired_claim_still_holds_until_it_is_reaped(store: Store, clock: FakeClock) -> None:
    claim = a_claim(store)
    clock.advance(2 * HOUR)
    assert store.claims.acquire("other", [Lane(room=1)], room=1, ttl=HOUR) == []
    [renewed] = store.claims.renew([claim], ttl=HOUR)
    assert store.claims.reap() == []
    assert store.claims.settle(renewed, Verdict(status="closed")).status == "closed"


def test_a_released_task_is_as_if_it_had_not_been_claimed(store: Store) -> None:
    claim = a_claim(store, failures=2)
    released = store.claims.release(claim)
    assert released == store.tasks.get(claim.task.id)
    assert (released.status, released.assignee, released.claim_owner, released.failures) == ("open", "", "", 2)
    assert (released.claim_expires_at, released.epoch) == (None, claim.epoch)
    assert again(store, "other").task.id == released.id


def test_adopting_is_the_same_owners_claim_with_the_next_epoch(store: Store, clock: FakeClock) -> None:
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
def test_nobody_adopts_what_another_holds_or_nobody_does(store: Store) -> None:
    claim = a_claim(store)
    for owner, epoch in (("other", claim.epoch), ("host", claim.epoch + 1), ("host", claim.epoch - 1)):
        with pytest.raises(ClaimLost):
            store.claims.adopt(claim.task.id, owner, epoch=epoch, ttl=HOUR)
    store.claims.release(claim)
    with pytest.raises(ClaimLost):
        store.claims.adopt(claim.task.id, "host", epoch=claim.epoch, ttl=HOUR)
    with pytest.raises(TaskNotFound):
        store.claims.adopt("nope", "host", epoch=1, ttl=HOUR)


def test_an_expired_claim_is_taken_over_with_its_run_and_the_first_holder_can_write_no_more(
    store: Store, clock: FakeClock
) -> None:
    claim = a_claim(store)
    token = store.tokens.issue(claim, Caller(task_id=claim.task.id, run_id="r", epoch=claim.epoch))
    clock.advance(HOUR)
    with pytest.raises(ClaimLost):  # not expired yet, only due
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
def test_what_a_person_holds_is_never_taken_over(store: Store, clock: FakeClock) -> None:
    task = a_task()
    store.tasks.add(task)
    held = store.claims.take(task.id, "ann")
    clock.advance(100 * HOUR)
    with pytest.raises(ClaimLost):
        store.claims.adopt(task.id, "host", epoch=held.epoch, ttl=HOUR)


def test_only_expired_claims_are_reaped(store: Store, clock: FakeClock) -> None:
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


def test_reaping_spares_those_known_to_be_alive(store: Store, clock: FakeClock) -> None:
    alive, dead = a_claim(store), a_claim(store)
    clock.advance(2 * HOUR)
    assert [task.id for task in store.claims.reap(spare=iter([alive.task.id, "nope"]))] == [dead.task.id]
    assert len(store.claims.renew([alive, dead], ttl=HOUR)) == 1


@pytest.mark.bd_in_soak
def test_a_claim_made_by_hand_is_never_reaped(store: Store, clock: FakeClock) -> None:
    task = a_task()
    store.tasks.add(task)
    taken = store.claims.take(task.id, "ada")
    clock.advance(10_000 * HOUR)
    assert store.claims.reap() == []
    assert store.tasks.get(task.id) == taken


def test_reaping_leaves_what_a_person_closed_closed(store: Store, clock: FakeClock) -> None:
    claim = a_claim(store)
    with store.atomic():
        store.tasks.save(store.tasks.get(claim.task.id).closed("by hand", store.now()))
    clock.advance(2 * HOUR)
    [reaped] = store.claims.reap()
    assert (reaped.status, reaped.close_reason, reaped.claim_owner) == ("closed", "by hand", "")


@pytest.mark.parametrize("status", ["blocked", "deferred"])
def test_what_an_agent_set_its_task_to_stays_when_its_claim_is_lost(
    store: Store, clock: FakeClock, status: str
) -> None:
    claim = a_claim(store)
    with store.atomic():
        store.tasks.save(store.tasks.get(claim.task.id).moved(status, clock()))
    clock.advance(2 * HOUR)
    assert [task.status for task in store.claims.reap()] == [status]
    assert store.tasks.get(claim.task.id).claim_owner == ""
