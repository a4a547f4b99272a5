"""Atomic writes with bd: the writes of a failed transaction are undone there."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import beads
from builders import HOUR, FakeClock, a_task, an_edge
from fleet.beads.store import BeadsStore
from fleet.core.errors import ClaimLost, StoreFault
from fleet.core.filter import Filter, Lane
from fleet.core.task import Verdict

LANE = (Lane(room=1),)


class GivenUp(Exception):
    """An exception that leaves a transaction."""


both = pytest.mark.parametrize("version", beads.VERSIONS)


@pytest.fixture
def store(version: str, tmp_path: Path, clock: FakeClock) -> Iterator[BeadsStore]:
    opened = beads.store_in(tmp_path, version, clock)
    yield opened
    opened.close()


def bd(store: BeadsStore, *argv: str, actor: str = "ada") -> Any:
    """Run the real bd without fleet. Return its parsed output."""
    env = store.mirror.bd.environment(actor)
    done = subprocess.run([store.mirror.bd.program, *argv], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def kept(store: BeadsStore) -> dict[str, dict[str, Any]]:
    """Return everything that bd has, except for timestamps."""
    found = bd(store, "export", "--all")
    dated = ("created_at", "updated_at", "started_at", "claim_fence", "revision")
    return {each["id"]: {name: value for name, value in each.items() if name not in dated} for each in found}


@both
def test_claims_are_released_in_bd_when_their_transaction_fails(store: BeadsStore) -> None:
    tasks = [a_task(status="deferred", defer_until=store.now() - HOUR), a_task(), a_task()]
    with store.atomic():
        for task in tasks:
            store.tasks.add(task)
    before = kept(store)
    with pytest.raises(GivenUp), store.atomic():
        assert len(store.claims.acquire("host", [Lane(room=2)], room=2, ttl=HOUR)) == 2
        raise GivenUp
    assert kept(store) == before
    assert [
        (task.status, task.assignee, task.claim_owner, task.epoch) for task in store.tasks.find(Filter(), sort="id")
    ] == [(task.status, "", "", 0) for task in tasks]
    assert len(store.claims.acquire("host", [Lane(room=3)], room=3, ttl=HOUR)) == 3


@both
def test_task_is_changed_in_bd_when_it_is_saved_and_claimed_in_one_transaction(store: BeadsStore) -> None:
    task = a_task()
    store.tasks.add(task)
    with store.atomic():
        store.tasks.save(task.replace(title="another", labels=("x",)))
        [claim] = store.claims.acquire("host", LANE, room=1, ttl=HOUR)
    assert (claim.task.title, claim.task.labels) == ("another", ("x",))
    found = kept(store)[task.id]
    assert (found["title"], found["labels"], found["assignee"]) == ("another", ["x"], "host")


@both
def test_new_task_is_not_claimed_in_the_transaction_that_adds_it(store: BeadsStore) -> None:
    with store.atomic():
        store.tasks.add(a_task())
        assert store.claims.acquire("host", LANE, room=1, ttl=HOUR) == []
    assert len(store.claims.acquire("host", LANE, room=1, ttl=HOUR)) == 1


@both
def test_earlier_writes_are_undone_in_bd_when_a_later_one_is_refused(store: BeadsStore) -> None:
    first, second = a_task(title="first", labels=("x",)), a_task(title="second")
    with store.atomic():
        store.tasks.add(first)
        store.tasks.add(second)
    before = kept(store)
    with pytest.raises(StoreFault, match="never_heard_of"), store.atomic():
        store.tasks.add(a_task(id="born"))
        store.edges.add(an_edge("born", first))
        store.tasks.save(first.replace(title="changed", labels=("y",), metadata={"a": 1}, priority=0))
        store.tasks.save(second.replace(status="never_heard_of"))
    after = kept(store)
    after[first.id].pop("metadata", None)  # empty metadata stays
    assert after == before
    assert [task.title for task in store.tasks.find(Filter(), sort="id")] == ["first", "second"]


@both
def test_bd_call_counts_for_no_task_when_it_reached_only_some(store: BeadsStore) -> None:
    first, second = a_task(), a_task()
    with store.atomic():
        store.tasks.add(first)
        store.tasks.add(second)
    with pytest.raises(StoreFault, match=second.id), store.atomic():
        store.tasks.save(first.replace(notes="both"))
        store.tasks.save(second.replace(notes="both"))
        bd(store, "delete", second.id, "--force")
    assert not kept(store)[first.id].get("notes")
    assert [task.notes for task in store.tasks.find(Filter())] == [""]


@both
def test_settling_writes_nothing_when_the_claim_was_lost(store: BeadsStore) -> None:
    store.tasks.add(a_task())
    [claim] = store.claims.acquire("host", LANE, room=1, ttl=HOUR)
    force = ("--force",) if store.mirror.fenced else ()
    with pytest.raises(ClaimLost) if store.mirror.fenced else pytest.raises(GivenUp), store.atomic():
        store.tasks.add(a_task(id="next-stage"))
        store.claims.settle(claim, Verdict(status="closed", reason="done"))
        bd(store, "update", claim.task.id, "--assignee=bob", *force)
        if not store.mirror.fenced:  # a bd without guards cannot notice this
            raise GivenUp
    found = kept(store)
    assert list(found) == [claim.task.id]
    assert (found[claim.task.id]["status"], found[claim.task.id]["assignee"]) == ("in_progress", "bob")
    assert store.claims.renew([claim], ttl=HOUR) == []
