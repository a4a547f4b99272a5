"""Claims of fleet and leases of bd: what is renewed here stays held there; what bd gives away is fleet's to judge."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import beads
from builders import HOUR, MINUTE, FakeClock, a_task
from fleet.core import clock as host_clock
from fleet.core.errors import ClaimLost
from fleet.core.filter import Lane
from fleet.core.task import Claim, Verdict
from fleet.store import beads_leases
from fleet.store.beads import BeadsQueue

LANE = (Lane(room=1),)


@pytest.fixture
def queue(version: str, tmp_path: Path, clock: FakeClock) -> Iterator[BeadsQueue]:
    opened = beads.queue_in(tmp_path, version, clock)
    yield opened
    opened.close()


both = pytest.mark.parametrize("version", beads.VERSIONS)
newer = pytest.mark.parametrize("version", [beads.NEW])


def a_claim(queue: BeadsQueue) -> Claim:
    queue.add(a_task())
    [claim] = queue.claim("host", LANE, room=1, ttl=HOUR)
    return claim


def bd(queue: BeadsQueue, *argv: str, actor: str = "ada") -> Any:
    """The real bd, asked without fleet."""
    env = queue.bd.environment(actor)
    done = subprocess.run([queue.bd.program, *argv, "--json"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def shown(queue: BeadsQueue, claim: Claim) -> tuple[str, str]:
    """How a task stands in bd, and who has it."""
    [found] = bd(queue, "show", claim.task.id)
    return found["status"], found.get("assignee", "")


def put_back(queue: BeadsQueue, claim: Claim) -> None:
    """What `bd reclaim` does once a lease is over: the task is open, and nobody's."""
    bd(queue, "update", claim.task.id, "--status=open", "--assignee=", actor=claim.owner)
    assert shown(queue, claim) == ("open", "")


@newer
def test_a_renewed_claim_renews_its_lease(queue: BeadsQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = a_claim(queue)
    first = bd(queue, "show", claim.task.id)[0]["lease_expires_at"]
    monkeypatch.setattr(beads_leases, "BEAT_EVERY", 0.0)
    deadline = time.monotonic() + 30
    while bd(queue, "show", claim.task.id)[0]["lease_expires_at"] <= first:  # it is told in whole seconds
        assert time.monotonic() < deadline
        assert [each.task.id for each in queue.renew([claim], ttl=HOUR)] == [claim.task.id]
    assert bd(queue, "reclaim", "--older-than", "0s")["count"] == 0


@newer
def test_several_leases_are_renewed_in_one_go(queue: BeadsQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = [a_claim(queue), a_claim(queue)]
    monkeypatch.setattr(beads_leases, "BEAT_EVERY", 0.0)
    assert len(queue.renew(claims, ttl=HOUR)) == 2


@newer
def test_a_bd_that_renews_no_lease_keeps_no_claim_from_being_renewed(
    queue: BeadsQueue, tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = a_claim(queue)
    busy = tmp_path / "bd"
    busy.write_text('#!/bin/sh\necho "$1" >> asked\necho "Error: database is locked" >&2\nexit 1\n')
    busy.chmod(0o755)
    monkeypatch.setattr(beads_leases, "BEAT_EVERY", 0.0)
    queue.bd.program = str(busy)
    clock.advance(MINUTE)
    [renewed] = queue.renew([claim], ttl=HOUR)
    assert renewed.expires_at == claim.expires_at + MINUTE
    assert (tmp_path / "asked").read_text() == "heartbeat\n"  # once: it is due again at the next renewal


@both
def test_what_bd_puts_back_under_a_live_claim_is_taken_there_again(queue: BeadsQueue) -> None:
    claim = a_claim(queue)
    put_back(queue, claim)
    assert queue.claim("other", LANE, room=1, ttl=HOUR) == []
    [renewed] = queue.renew([claim], ttl=HOUR)
    assert (renewed.epoch, renewed.task.status, renewed.task.assignee) == (claim.epoch, "in_progress", "host")
    assert shown(queue, claim) == ("in_progress", "host")
    assert queue.settle(renewed, Verdict(status="closed", reason="done")).status == "closed"
    assert shown(queue, claim)[0] == "closed"


@both
def test_what_bd_puts_back_and_somebody_takes_is_theirs(queue: BeadsQueue) -> None:
    claim = a_claim(queue)
    put_back(queue, claim)
    bd(queue, "update", claim.task.id, "--claim", actor="bob")
    assert queue.renew([claim], ttl=HOUR) == []
    with pytest.raises(ClaimLost):
        queue.settle(claim, Verdict(status="closed", reason="done"))
    assert shown(queue, claim) == ("in_progress", "bob")


@both
def test_what_bd_puts_back_from_a_dead_supervisor_is_claimed_anew_once_the_claim_is_over(
    queue: BeadsQueue, clock: FakeClock
) -> None:
    claim = a_claim(queue)
    put_back(queue, claim)
    clock.advance(HOUR)
    assert queue.reap() == [] and queue.claim("host", LANE, room=1, ttl=HOUR) == []
    clock.advance(MINUTE)
    [reaped] = queue.reap()
    assert (reaped.id, reaped.status, reaped.claim_owner) == (claim.task.id, "open", "")
    [again] = queue.claim("host", LANE, room=1, ttl=HOUR)
    assert again.epoch == claim.epoch + 1 and shown(queue, again) == ("in_progress", "host")
    assert queue.renew([claim], ttl=HOUR) == []


@both
def test_what_is_closed_and_reopened_in_bd_is_lost_to_whoever_held_it(queue: BeadsQueue) -> None:
    claim = a_claim(queue)
    bd(queue, "close", claim.task.id, "--force", actor="host")
    assert queue.get(claim.task.id).status == "closed" and len(queue.renew([claim], ttl=HOUR)) == 1
    bd(queue, "reopen", claim.task.id)
    assert queue.renew([claim], ttl=HOUR) == []


@pytest.mark.soak("queues")
@pytest.mark.timeout(600)
def test_bd_reclaims_what_nobody_renews_and_nothing_else(tmp_path: Path) -> None:
    """The real thing, which takes the five minutes that a lease of bd lasts."""
    queue = beads.queue_in(tmp_path, beads.NEW, host_clock.now)
    kept, left = a_claim(queue), a_claim(queue)
    reclaimed: list[str] = []
    deadline = time.monotonic() + 400
    while not reclaimed:
        assert time.monotonic() < deadline
        assert len(queue.renew([kept], ttl=HOUR)) == 1
        time.sleep(10)  # as a supervisor does
        reclaimed = [str(each) for each in bd(queue, "reclaim", "--older-than", "0s")["reclaimed"] or ()]
    assert len(reclaimed) == 1 and left.task.id in reclaimed[0]
    assert (shown(queue, kept), shown(queue, left)) == (("in_progress", "host"), ("open", ""))
    held = queue.renew([kept, left], ttl=HOUR)
    assert [each.task.assignee for each in held] == ["host", "host"]
    assert (shown(queue, kept), shown(queue, left)) == (("in_progress", "host"), ("in_progress", "host"))
    queue.close()
