"""Claims of fleet and leases of bd: renewed claims stay held in bd, and fleet judges the tasks that bd releases."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import beads
from builders import HOUR, MINUTE, FakeClock, a_task
from fleet.beads import mirror
from fleet.beads.store import BeadsStore
from fleet.core import clock as host_clock
from fleet.core.errors import ClaimLost
from fleet.core.filter import Lane
from fleet.core.task import Claim, Verdict

LANE = (Lane(room=1),)


@pytest.fixture
def store(version: str, tmp_path: Path, clock: FakeClock) -> Iterator[BeadsStore]:
    opened = beads.store_in(tmp_path, version, clock)
    yield opened
    opened.close()


both = pytest.mark.parametrize("version", beads.VERSIONS)
newer = pytest.mark.parametrize("version", [beads.NEW])


def a_claim(store: BeadsStore) -> Claim:
    store.tasks.add(a_task())
    [claim] = store.claims.acquire("host", LANE, room=1, ttl=HOUR)
    return claim


def bd(store: BeadsStore, *argv: str, actor: str = "ada") -> Any:
    """Run the real bd without fleet. Return its parsed output."""
    env = store.mirror.bd.environment(actor)
    done = subprocess.run([store.mirror.bd.program, *argv, "--json"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def shown(store: BeadsStore, claim: Claim) -> tuple[str, str]:
    """Return the status and the assignee of a task in bd."""
    [found] = bd(store, "show", claim.task.id)
    return found["status"], found.get("assignee", "")


def put_back(store: BeadsStore, claim: Claim) -> None:
    """Release a task as `bd reclaim` does when a lease has expired: open and without an assignee."""
    bd(store, "update", claim.task.id, "--status=open", "--assignee=", actor=claim.owner)
    assert shown(store, claim) == ("open", "")


@newer
def test_renewing_a_claim_renews_its_bd_lease(store: BeadsStore, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = a_claim(store)
    first = bd(store, "show", claim.task.id)[0]["lease_expires_at"]
    monkeypatch.setattr(mirror, "BEAT_EVERY", 0.0)
    deadline = time.monotonic() + 60
    while bd(store, "show", claim.task.id)[0]["lease_expires_at"] <= first:  # bd prints whole seconds
        assert time.monotonic() < deadline
        assert [each.task.id for each in store.claims.renew([claim], ttl=HOUR)] == [claim.task.id]
    assert bd(store, "reclaim", "--older-than", "0s")["count"] == 0


@newer
def test_several_leases_are_renewed_by_one_call(store: BeadsStore, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = [a_claim(store), a_claim(store)]
    monkeypatch.setattr(mirror, "BEAT_EVERY", 0.0)
    assert len(store.claims.renew(claims, ttl=HOUR)) == 2


@newer
def test_claim_is_renewed_when_bd_fails_to_renew_its_lease(
    store: BeadsStore, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = a_claim(store)
    busy = tmp_path / "bd"
    busy.write_text('#!/bin/sh\necho "$1" >> asked\necho "Error: database is locked" >&2\nexit 1\n')
    busy.chmod(0o755)
    monkeypatch.setattr(mirror, "BEAT_EVERY", 0.0)
    store.mirror.bd.program = str(busy)
    clock.advance(MINUTE)
    [renewed] = store.claims.renew([claim], ttl=HOUR)
    assert renewed.expires_at == claim.expires_at + MINUTE
    assert (tmp_path / "asked").read_text() == "heartbeat\n"  # once: the lease is due again at the next renewal


@both
def test_live_claim_takes_its_task_again_when_bd_put_it_back(store: BeadsStore) -> None:
    claim = a_claim(store)
    put_back(store, claim)
    assert store.claims.acquire("other", LANE, room=1, ttl=HOUR) == []
    [renewed] = store.claims.renew([claim], ttl=HOUR)
    assert (renewed.epoch, renewed.task.status, renewed.task.assignee) == (claim.epoch, "in_progress", "host")
    assert shown(store, claim) == ("in_progress", "host")
    assert store.claims.settle(renewed, Verdict(status="closed", reason="done")).status == "closed"
    assert shown(store, claim)[0] == "closed"


@both
def test_claim_is_lost_when_a_person_takes_the_task_that_bd_put_back(store: BeadsStore) -> None:
    claim = a_claim(store)
    put_back(store, claim)
    bd(store, "update", claim.task.id, "--claim", actor="bob")
    assert store.claims.renew([claim], ttl=HOUR) == []
    with pytest.raises(ClaimLost):
        store.claims.settle(claim, Verdict(status="closed", reason="done"))
    assert shown(store, claim) == ("in_progress", "bob")


@both
def test_task_is_claimed_again_only_after_the_claim_of_a_dead_supervisor_expired(
    store: BeadsStore, clock: FakeClock
) -> None:
    claim = a_claim(store)
    put_back(store, claim)
    clock.advance(HOUR)
    assert store.claims.reap() == [] and store.claims.acquire("host", LANE, room=1, ttl=HOUR) == []
    clock.advance(MINUTE)
    [reaped] = store.claims.reap()
    assert (reaped.id, reaped.status, reaped.claim_owner) == (claim.task.id, "open", "")
    [again] = store.claims.acquire("host", LANE, room=1, ttl=HOUR)
    assert again.epoch == claim.epoch + 1 and shown(store, again) == ("in_progress", "host")
    assert store.claims.renew([claim], ttl=HOUR) == []


@both
def test_claim_is_lost_when_its_task_is_closed_and_reopened_in_bd(store: BeadsStore) -> None:
    claim = a_claim(store)
    bd(store, "close", claim.task.id, "--force", actor="host")
    assert store.tasks.get(claim.task.id).status == "closed" and len(store.claims.renew([claim], ttl=HOUR)) == 1
    bd(store, "reopen", claim.task.id)
    assert store.claims.renew([claim], ttl=HOUR) == []


@pytest.mark.soak("queues")
@pytest.mark.timeout(600)
def test_bd_reclaims_only_unrenewed_tasks(tmp_path: Path) -> None:
    """This takes the five minutes of a real lease of bd."""
    store = beads.store_in(tmp_path, beads.NEW, host_clock.now)
    kept, left = a_claim(store), a_claim(store)
    reclaimed: list[str] = []
    deadline = time.monotonic() + 400
    while not reclaimed:
        assert time.monotonic() < deadline
        assert len(store.claims.renew([kept], ttl=HOUR)) == 1
        time.sleep(10)  # as often as a supervisor does
        reclaimed = [str(each) for each in bd(store, "reclaim", "--older-than", "0s")["reclaimed"] or ()]
    assert len(reclaimed) == 1 and left.task.id in reclaimed[0]
    assert (shown(store, kept), shown(store, left)) == (("in_progress", "host"), ("open", ""))
    held = store.claims.renew([kept, left], ttl=HOUR)
    assert [each.task.assignee for each in held] == ["host", "host"]
    assert (shown(store, kept), shown(store, left)) == (("in_progress", "host"), ("in_progress", "host"))
    store.close()
