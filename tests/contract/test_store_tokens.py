"""The contract of all stores for tokens, which identify calls of a run."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from builders import HOUR, FakeClock
from contract.store_builders import a_claim, next_claim
from fleet.core.task import Caller, Claim, Verdict
from fleet.store.base import Store


@pytest.mark.bd_in_soak
def test_token_identifies_its_run_only_while_the_claim_lives(store: Store, clock: FakeClock) -> None:
    def expire(claim: Claim) -> None:
        clock.advance(claim.expires_at - store.now() + timedelta(seconds=1))
        store.claims.reap()

    ways: tuple[Callable[[Claim], object], ...] = (
        store.claims.release,
        lambda claim: store.claims.settle(claim, Verdict(status="blocked")),
        expire,
        lambda claim: store.tasks.remove(claim.task.id),
    )
    for end in ways:
        claim = a_claim(store, priority=0)
        caller = Caller(
            task_id=claim.task.id, run_id="r", epoch=claim.epoch, depth=2, budget_usd=1.5, repos=("/a", "/ü")
        )
        token = store.tokens.issue(claim, caller)
        assert store.tokens.caller(token) == caller
        store.claims.renew([claim], ttl=HOUR)
        assert store.tokens.caller(token) == caller
        end(claim)
        assert store.tokens.caller(token) is None


@pytest.mark.bd_in_soak
def test_token_of_an_earlier_claim_is_invalid(store: Store) -> None:
    old = a_claim(store)
    token = store.tokens.issue(old, Caller(task_id=old.task.id, run_id="r", epoch=old.epoch))
    store.claims.release(old)
    new = next_claim(store)
    caller = Caller(task_id=new.task.id, run_id="r2", epoch=new.epoch)
    assert store.tokens.caller(token) is None
    assert store.tokens.caller(store.tokens.issue(new, caller)) == caller


@pytest.mark.bd_in_soak
def test_expired_token_is_still_recognized_as_one_of_a_run(store: Store) -> None:
    claim = a_claim(store)
    token = store.tokens.issue(claim, Caller(task_id=claim.task.id, run_id="r", epoch=claim.epoch))
    store.claims.release(claim)
    assert store.tokens.caller(token) is None
    assert store.tokens.was_issued(token)
    assert not store.tokens.was_issued("nope") and not store.tokens.was_issued("")


@pytest.mark.bd_in_soak
def test_token_stays_valid_when_its_run_is_adopted(store: Store) -> None:
    claim = a_claim(store)
    token = store.tokens.issue(claim, Caller(task_id=claim.task.id, run_id="r", epoch=claim.epoch))
    adopted = store.claims.adopt(claim.task.id, claim.owner, epoch=claim.epoch, ttl=HOUR)
    assert store.tokens.caller(token) == Caller(task_id=claim.task.id, run_id="r", epoch=adopted.epoch)


@pytest.mark.bd_in_soak
def test_run_id_identifies_a_caller_only_while_the_claim_lives(store: Store) -> None:
    claim = a_claim(store)
    run_id = f"{claim.task.id}/1"
    assert store.tokens.caller_in(run_id) is None, "it has no token yet"
    caller = Caller(task_id=claim.task.id, run_id=run_id, epoch=claim.epoch, depth=2, repos=("/a",))
    store.tokens.issue(claim, caller)
    assert store.tokens.caller_in(run_id) == caller
    adopted = store.claims.adopt(claim.task.id, claim.owner, epoch=claim.epoch, ttl=HOUR)
    assert store.tokens.caller_in(run_id) == caller.replace(epoch=adopted.epoch)
    for other in (f"{claim.task.id}/2", claim.task.id, "", "'", "\udcff/1"):
        assert store.tokens.caller_in(other) is None
    store.claims.release(adopted)
    assert store.tokens.caller_in(run_id) is None


@pytest.mark.bd_in_soak
@pytest.mark.parametrize("token", ["", "nope", "'", "\udcff", "ü" * 1000])
def test_unknown_token_identifies_no_run(store: Store, token: str) -> None:
    claim = a_claim(store)
    store.tokens.issue(claim, Caller(task_id=claim.task.id, run_id="r", epoch=claim.epoch))
    assert store.tokens.caller(token) is None


@pytest.mark.bd_in_soak
def test_tokens_are_unique_and_stored_hashed(store: Store, tmp_path: Path) -> None:
    claim = a_claim(store)
    caller = Caller(task_id=claim.task.id, run_id="r", epoch=claim.epoch)
    tokens = {store.tokens.issue(claim, caller) for _ in range(3)}
    assert len(tokens) == 3 and all(len(token) >= 32 for token in tokens)
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    assert not any(token.encode() in kept or bytes.fromhex(token) in kept for token in tokens)
