"""What every queue promises to whoever holds a claim, and to everybody else."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from builders import HOUR, MINUTE, NOON, FakeClock, a_task, an_edge
from fleet.core.errors import ClaimLost, TaskNotFound
from fleet.core.filter import READY, Lane
from fleet.core.task import CATEGORIES, COUNTS, Caller, Claim, Task, Verdict
from fleet.store.base import Queue

SECOND = MINUTE / 60


def a_claim(queue: Queue, *, owner: str = "host", **changes: object) -> Claim:
    """A claim on a task made for it."""
    queue.add(a_task(**changes))
    [claim] = queue.claim(owner, [Lane(room=1)], room=1, ttl=HOUR)
    return claim


def again(queue: Queue, owner: str = "host") -> Claim:
    """A claim on the only task that is ready."""
    [claim] = queue.claim(owner, [Lane(room=1)], room=1, ttl=HOUR)
    return claim


def lost(queue: Queue, claim: Claim) -> bool:
    """Whether nothing can be written about a claim any more."""
    before = queue.get(claim.task.id)
    with pytest.raises(ClaimLost, match=claim.task.id):
        queue.settle(claim, Verdict(status="closed"))
    with pytest.raises(ClaimLost, match=claim.task.id):
        queue.release(claim)
    with pytest.raises(ClaimLost):
        queue.admit(claim, Caller(task_id=claim.task.id, run_id="r", epoch=claim.epoch))
    with pytest.raises(ClaimLost):
        queue.adopt(claim.task.id, claim.owner, epoch=claim.epoch, ttl=HOUR)
    assert queue.renew([claim], ttl=HOUR) == []
    return queue.get(claim.task.id) == before


def test_renewing_puts_off_the_expiry_and_keeps_the_epoch(queue: Queue, clock: FakeClock) -> None:
    claim = a_claim(queue)
    clock.advance(MINUTE)
    [renewed] = queue.renew([claim], ttl=HOUR)
    assert (renewed.owner, renewed.epoch, renewed.expires_at) == ("host", claim.epoch, NOON + MINUTE + HOUR)
    assert renewed.task == queue.get(claim.task.id) == claim.task.replace(claim_expires_at=NOON + MINUTE + HOUR)


def test_renewing_answers_only_for_what_is_still_held(queue: Queue) -> None:
    kept, released, removed = a_claim(queue), a_claim(queue), a_claim(queue)
    queue.release(released)
    queue.remove(removed.task.id)
    assert [each.task.id for each in queue.renew(iter([released, kept, removed]), ttl=HOUR)] == [kept.task.id]
    assert queue.renew([], ttl=HOUR) == []


@pytest.mark.bd_in_soak
def test_renew_answers_in_the_order_of_the_claims(queue: Queue) -> None:
    first, second = a_claim(queue), a_claim(queue)
    adopted = queue.adopt(first.task.id, first.owner, epoch=first.epoch, ttl=HOUR)
    renewed = queue.renew([first, second, adopted], ttl=HOUR)
    assert [(each.task.id, each.epoch) for each in renewed] == [
        (each.task.id, each.epoch) for each in (second, adopted)
    ]


def test_a_request_to_cancel_is_seen_by_the_holder_at_its_next_renewal(queue: Queue, clock: FakeClock) -> None:
    claim = a_claim(queue)
    clock.advance(MINUTE)
    asked = queue.request_cancel(claim.task.id, "enough")
    assert asked == queue.get(claim.task.id)
    [renewed] = queue.renew([claim], ttl=HOUR)
    assert (renewed.task.cancel_requested_at, renewed.task.cancel_reason) == (NOON + MINUTE, "enough")
    assert queue.release(renewed).cancel_requested_at is None
    assert again(queue).task.cancel_reason == ""


@pytest.mark.parametrize("status", [*CATEGORIES, "of_my_own"])
def test_a_verdict_puts_the_task_where_it_says_and_gives_the_claim_back(queue: Queue, status: str) -> None:
    counts: dict[str, Any] = {name: number for number, name in enumerate(COUNTS, 1)}
    claim = a_claim(queue, **counts)
    verdict = Verdict(status=status, reason="so", finding="verified", **counts)
    settled = queue.settle(claim, verdict)
    assert settled == queue.get(claim.task.id)
    assert (settled.status, settled.reason, settled.finding) == (status, "so", "verified")
    assert [getattr(settled, name) for name in COUNTS] == [2, 4, 6, 8, 10, 12, 14]
    assert (settled.claim_owner, settled.assignee, settled.claim_expires_at, settled.run_id) == ("", "", None, "")
    assert (settled.closed_at, settled.close_reason) == ((NOON, "so") if status == "closed" else (None, ""))
    assert bool(queue.find(READY)) is (status == "open")
    assert lost(queue, claim)


def test_a_verdict_without_a_finding_keeps_the_last_one(queue: Queue) -> None:
    claim = a_claim(queue, finding="failed_verify")
    assert queue.settle(claim, Verdict(status="open")).finding == "failed_verify"


def test_a_task_sent_back_with_a_time_is_kept_out_until_then(queue: Queue, clock: FakeClock) -> None:
    claim = a_claim(queue)
    queue.settle(claim, Verdict(status="open", not_before=NOON + MINUTE))
    clock.advance(MINUTE - SECOND)
    assert queue.claim("host", [Lane(room=1)], room=1, ttl=HOUR) == []
    clock.advance(SECOND)
    assert again(queue).task.defer_until is None


def test_settling_unblocks_what_waited_for_the_task(queue: Queue) -> None:
    claim = a_claim(queue)
    dependent = a_task()
    queue.add(dependent)
    queue.link(an_edge(dependent, claim.task))
    queue.settle(claim, Verdict(status="closed"))
    assert again(queue).task.id == dependent.id


def test_what_a_person_closed_meanwhile_stays_closed(queue: Queue) -> None:
    ways: tuple[Callable[[Claim], Task], ...] = (
        lambda claim: queue.settle(claim, Verdict(status="open", reason="again", failures=1)),
        queue.release,
    )
    for way in ways:
        claim = a_claim(queue)
        with queue.atomic():
            queue.save(queue.get(claim.task.id).closed("by hand", queue.now()))
        after = way(claim)
        assert (after.status, after.close_reason, after.closed_at) == ("closed", "by hand", NOON)
        assert (after.claim_owner, after.claim_expires_at) == ("", None)
        assert after == queue.get(claim.task.id)


def test_a_reopened_task_is_lost_to_whoever_held_it_before(queue: Queue, clock: FakeClock) -> None:
    claim = a_claim(queue)
    with queue.atomic():
        queue.save(queue.get(claim.task.id).closed("by hand", queue.now()))
    with queue.atomic():
        queue.save(queue.get(claim.task.id).reopened(queue.now()))
    assert lost(queue, claim)
    clock.advance(HOUR + SECOND)
    queue.reap()
    assert again(queue).epoch > claim.epoch + 1


def test_an_old_epoch_is_refused_even_from_the_same_owner(queue: Queue) -> None:
    old = a_claim(queue)
    queue.release(old)
    new = again(queue)
    assert lost(queue, old)
    assert queue.settle(new, Verdict(status="closed")).status == "closed"


@pytest.mark.bd_in_soak
def test_another_owner_is_refused(queue: Queue) -> None:
    claim = a_claim(queue)
    assert lost(queue, claim.replace(owner="other"))
    assert lost(queue, claim.replace(epoch=claim.epoch + 1))
    assert len(queue.renew([claim], ttl=HOUR)) == 1


def test_a_claim_on_a_removed_task_is_gone(queue: Queue) -> None:
    claim = a_claim(queue)
    queue.remove(claim.task.id)
    with pytest.raises(ClaimLost):
        queue.settle(claim, Verdict(status="open"))
    with pytest.raises(ClaimLost):
        queue.release(claim)
    with pytest.raises(ClaimLost):
        queue.admit(claim, Caller(task_id=claim.task.id, run_id="r", epoch=claim.epoch))


def test_an_expired_claim_still_holds_until_it_is_reaped(queue: Queue, clock: FakeClock) -> None:
    claim = a_claim(queue)
    clock.advance(2 * HOUR)
    assert queue.claim("other", [Lane(room=1)], room=1, ttl=HOUR) == []
    [renewed] = queue.renew([claim], ttl=HOUR)
    assert queue.reap() == []
    assert queue.settle(renewed, Verdict(status="closed")).status == "closed"


def test_a_released_task_is_as_if_it_had_not_been_claimed(queue: Queue) -> None:
    claim = a_claim(queue, failures=2)
    released = queue.release(claim)
    assert released == queue.get(claim.task.id)
    assert (released.status, released.assignee, released.claim_owner, released.failures) == ("open", "", "", 2)
    assert (released.claim_expires_at, released.epoch) == (None, claim.epoch)
    assert again(queue, "other").task.id == released.id


def test_adopting_is_the_same_owners_claim_with_the_next_epoch(queue: Queue, clock: FakeClock) -> None:
    claim = a_claim(queue)
    with queue.atomic():
        queue.save(queue.get(claim.task.id).replace(run_id="run-1"))
    clock.advance(2 * HOUR)
    adopted = queue.adopt(claim.task.id, "host", epoch=claim.epoch, ttl=HOUR)
    assert (adopted.owner, adopted.epoch, adopted.expires_at) == ("host", claim.epoch + 1, NOON + 3 * HOUR)
    assert adopted.task == queue.get(claim.task.id)
    assert (adopted.task.run_id, adopted.task.status) == ("run-1", "in_progress")
    assert lost(queue, claim)
    assert queue.reap() == []
    assert queue.settle(adopted, Verdict(status="closed")).status == "closed"


@pytest.mark.bd_in_soak
def test_nobody_adopts_what_another_holds_or_nobody_does(queue: Queue) -> None:
    claim = a_claim(queue)
    for owner, epoch in (("other", claim.epoch), ("host", claim.epoch + 1), ("host", claim.epoch - 1)):
        with pytest.raises(ClaimLost):
            queue.adopt(claim.task.id, owner, epoch=epoch, ttl=HOUR)
    queue.release(claim)
    with pytest.raises(ClaimLost):
        queue.adopt(claim.task.id, "host", epoch=claim.epoch, ttl=HOUR)
    with pytest.raises(TaskNotFound):
        queue.adopt("nope", "host", epoch=1, ttl=HOUR)


def test_an_expired_claim_is_taken_over_with_its_run_and_the_first_holder_can_write_no_more(
    queue: Queue, clock: FakeClock
) -> None:
    claim = a_claim(queue)
    token = queue.admit(claim, Caller(task_id=claim.task.id, run_id="r", epoch=claim.epoch))
    clock.advance(HOUR)
    with pytest.raises(ClaimLost):  # not expired yet, only due
        queue.adopt(claim.task.id, "other", epoch=claim.epoch, ttl=HOUR)
    clock.advance(SECOND)
    taken = queue.adopt(claim.task.id, "other", epoch=claim.epoch, ttl=HOUR)
    assert (taken.owner, taken.epoch) == ("other", claim.epoch + 1)
    assert (taken.task.claim_owner, taken.task.assignee) == ("other", "other")
    assert lost(queue, claim)
    assert queue.renew([claim], ttl=HOUR) == []
    with pytest.raises(ClaimLost):
        queue.release(claim)
    with pytest.raises(ClaimLost):
        queue.adopt(claim.task.id, "host", epoch=claim.epoch, ttl=HOUR)
    assert queue.caller(token) == Caller(task_id=claim.task.id, run_id="r", epoch=taken.epoch)


@pytest.mark.bd_in_soak
def test_what_a_person_holds_is_never_taken_over(queue: Queue, clock: FakeClock) -> None:
    task = a_task()
    queue.add(task)
    held = queue.take(task.id, "ann")
    clock.advance(100 * HOUR)
    with pytest.raises(ClaimLost):
        queue.adopt(task.id, "host", epoch=held.epoch, ttl=HOUR)


def test_only_expired_claims_are_reaped(queue: Queue, clock: FakeClock) -> None:
    early = a_claim(queue)
    clock.advance(MINUTE)
    late = a_claim(queue)
    clock.advance(HOUR - MINUTE)
    assert queue.expired() == queue.reap() == []
    clock.advance(SECOND)
    assert queue.expired() == [early.task.id]
    [reaped] = queue.reap()
    assert queue.expired() == []
    assert reaped == queue.get(early.task.id)
    assert (reaped.id, reaped.status, reaped.claim_owner, reaped.assignee) == (early.task.id, "open", "", "")
    assert lost(queue, early)
    assert queue.get(late.task.id).claim_owner == "host"


def test_reaping_spares_those_known_to_be_alive(queue: Queue, clock: FakeClock) -> None:
    alive, dead = a_claim(queue), a_claim(queue)
    clock.advance(2 * HOUR)
    assert [task.id for task in queue.reap(spare=iter([alive.task.id, "nope"]))] == [dead.task.id]
    assert len(queue.renew([alive, dead], ttl=HOUR)) == 1


@pytest.mark.bd_in_soak
def test_a_claim_made_by_hand_is_never_reaped(queue: Queue, clock: FakeClock) -> None:
    task = a_task()
    queue.add(task)
    taken = queue.take(task.id, "ada")
    clock.advance(10_000 * HOUR)
    assert queue.reap() == []
    assert queue.get(task.id) == taken


def test_reaping_leaves_what_a_person_closed_closed(queue: Queue, clock: FakeClock) -> None:
    claim = a_claim(queue)
    with queue.atomic():
        queue.save(queue.get(claim.task.id).closed("by hand", queue.now()))
    clock.advance(2 * HOUR)
    [reaped] = queue.reap()
    assert (reaped.status, reaped.close_reason, reaped.claim_owner) == ("closed", "by hand", "")


@pytest.mark.bd_in_soak
def test_a_token_is_known_only_while_its_claim_lives(queue: Queue, clock: FakeClock) -> None:
    def expire(claim: Claim) -> None:
        clock.advance(claim.expires_at - queue.now() + SECOND)
        queue.reap()

    ways: tuple[Callable[[Claim], object], ...] = (
        queue.release,
        lambda claim: queue.settle(claim, Verdict(status="blocked")),
        expire,
        lambda claim: queue.remove(claim.task.id),
    )
    for end in ways:
        claim = a_claim(queue, priority=0)
        caller = Caller(
            task_id=claim.task.id, run_id="r", epoch=claim.epoch, depth=2, budget_usd=1.5, repos=("/a", "/ü")
        )
        token = queue.admit(claim, caller)
        assert queue.caller(token) == caller
        queue.renew([claim], ttl=HOUR)
        assert queue.caller(token) == caller
        end(claim)
        assert queue.caller(token) is None


@pytest.mark.bd_in_soak
def test_a_token_of_an_earlier_claim_is_worth_nothing_in_the_next(queue: Queue) -> None:
    old = a_claim(queue)
    token = queue.admit(old, Caller(task_id=old.task.id, run_id="r", epoch=old.epoch))
    queue.release(old)
    new = again(queue)
    caller = Caller(task_id=new.task.id, run_id="r2", epoch=new.epoch)
    assert queue.caller(token) is None
    assert queue.caller(queue.admit(new, caller)) == caller


@pytest.mark.bd_in_soak
def test_a_token_that_is_worth_nothing_any_more_is_still_known_as_a_runs(queue: Queue) -> None:
    claim = a_claim(queue)
    token = queue.admit(claim, Caller(task_id=claim.task.id, run_id="r", epoch=claim.epoch))
    queue.release(claim)
    assert queue.caller(token) is None
    assert queue.gave_out(token)
    assert not queue.gave_out("nope") and not queue.gave_out("")


@pytest.mark.bd_in_soak
def test_a_token_goes_on_working_when_its_run_is_adopted(queue: Queue) -> None:
    claim = a_claim(queue)
    token = queue.admit(claim, Caller(task_id=claim.task.id, run_id="r", epoch=claim.epoch))
    adopted = queue.adopt(claim.task.id, claim.owner, epoch=claim.epoch, ttl=HOUR)
    assert queue.caller(token) == Caller(task_id=claim.task.id, run_id="r", epoch=adopted.epoch)


@pytest.mark.bd_in_soak
def test_a_run_that_is_known_by_its_id_is_a_caller_while_its_claim_lives(queue: Queue) -> None:
    claim = a_claim(queue)
    run_id = f"{claim.task.id}/1"
    assert queue.caller_in(run_id) is None, "it has no token yet"
    caller = Caller(task_id=claim.task.id, run_id=run_id, epoch=claim.epoch, depth=2, repos=("/a",))
    queue.admit(claim, caller)
    assert queue.caller_in(run_id) == caller
    adopted = queue.adopt(claim.task.id, claim.owner, epoch=claim.epoch, ttl=HOUR)
    assert queue.caller_in(run_id) == caller.replace(epoch=adopted.epoch)
    for other in (f"{claim.task.id}/2", claim.task.id, "", "'", "\udcff/1"):
        assert queue.caller_in(other) is None
    queue.release(adopted)
    assert queue.caller_in(run_id) is None


@pytest.mark.parametrize("status", ["blocked", "deferred"])
def test_what_an_agent_set_its_task_to_stays_when_its_claim_is_lost(
    queue: Queue, clock: FakeClock, status: str
) -> None:
    claim = a_claim(queue)
    with queue.atomic():
        queue.save(queue.get(claim.task.id).moved(status, clock()))
    clock.advance(2 * HOUR)
    assert [task.status for task in queue.reap()] == [status]
    assert queue.get(claim.task.id).claim_owner == ""


@pytest.mark.bd_in_soak
@pytest.mark.parametrize("token", ["", "nope", "'", "\udcff", "ü" * 1000])
def test_an_unknown_token_is_nobodys(queue: Queue, token: str) -> None:
    claim = a_claim(queue)
    queue.admit(claim, Caller(task_id=claim.task.id, run_id="r", epoch=claim.epoch))
    assert queue.caller(token) is None


@pytest.mark.bd_in_soak
def test_tokens_differ_and_are_not_stored_in_clear(queue: Queue, tmp_path: Path) -> None:
    claim = a_claim(queue)
    caller = Caller(task_id=claim.task.id, run_id="r", epoch=claim.epoch)
    tokens = {queue.admit(claim, caller) for _ in range(3)}
    assert len(tokens) == 3 and all(len(token) >= 32 for token in tokens)
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert not any(token.encode() in kept or bytes.fromhex(token) in kept for token in tokens)
