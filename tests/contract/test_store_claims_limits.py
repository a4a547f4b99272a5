"""The contract of all stores for the agent limit of an account, across hosts."""

from typing import Any

import pytest

from builders import HOUR, FakeClock, a_task
from contract.store_builders import a_run
from fleet.core.filter import Filter, Lane
from fleet.core.task import Claim, Status, Verdict
from fleet.store.base import Store

pytestmark = pytest.mark.bd_in_soak


def lane(limit: int | None, account: str = "work", *, room: int = 10) -> Lane:
    """Return a lane for tasks that may use an account of claude."""
    where = Filter(coders=("", "claude"), accounts=("", account), modes=("", "headless"))
    return Lane(room=room, where=where, limit=limit, seat=("claude", account))


def claim(store: Store, *lanes: Lane, owner: str = "host") -> list[Claim]:
    return store.claims.acquire(owner, lanes, room=10, ttl=HOUR)


def add(store: Store, count: int, **changes: Any) -> None:
    for _ in range(count):
        store.tasks.add(a_task(**changes))


def test_account_limit_holds_across_hosts(store: Store) -> None:
    add(store, 9)
    assert [len(claim(store, lane(3), owner=f"host-{number}")) for number in range(3)] == [3, 0, 0]
    assert len(claim(store, lane(5), owner="host-4")) == 2
    assert len(claim(store, lane(None), owner="host-5")) == 4


def test_ended_run_frees_its_place(store: Store) -> None:
    add(store, 5)
    first, second = claim(store, lane(2))
    run = store.runs.begin(first, a_run(coder="claude", account="work"))
    assert claim(store, lane(2), owner="other") == []
    store.runs.end(run)
    store.claims.settle(first, Verdict(status=Status.CLOSED, reason="done"))
    store.claims.release(second)
    assert len(claim(store, lane(2), owner="other")) == 2


def test_run_counts_only_for_the_account_it_uses(store: Store) -> None:
    add(store, 4)
    for each in claim(store, lane(2)):
        store.runs.begin(each, a_run(coder="claude", account="work"))
    assert claim(store, lane(2)) == []
    assert len(claim(store, lane(1, "home"))) == 1
    assert len(claim(store, lane(None, "home"))) == 1


def test_claimed_task_without_a_run_counts_for_each_account_it_may_use(store: Store) -> None:
    add(store, 2)
    add(store, 2, account="work")
    add(store, 2, account="home")
    assert len(claim(store, lane(2))) == 2
    assert claim(store, lane(2, "home")) == []
    assert len(claim(store, lane(3, "home"))) == 1


def test_released_claim_frees_the_place_of_its_run(store: Store, clock: FakeClock) -> None:
    add(store, 1)
    (first,) = claim(store, lane(1))
    store.runs.begin(first, a_run(coder="claude", account="work"))
    clock.advance(2 * HOUR)
    assert len(store.claims.reap()) == 1
    assert [each.seat for each in claim(store, lane(1), owner="other")] == [("claude", "work")]


def test_tasks_of_other_coders_and_manual_claims_do_not_count(store: Store) -> None:
    add(store, 2, coder="codex")
    add(store, 2)
    assert len(claim(store, Lane(room=5, where=Filter(coder="codex")))) == 2
    store.claims.take(store.tasks.find(Filter(ready=True), sort="oldest")[0].id, "ada")
    assert len(claim(store, lane(1))) == 1


def test_claim_names_the_account_it_was_made_for(store: Store) -> None:
    add(store, 2, priority=0)
    add(store, 1, account="home")
    found = claim(store, lane(2), lane(2, "home"), Lane(room=1))
    assert [each.seat for each in found] == [("claude", "work"), ("claude", "work"), ("claude", "home")]
    add(store, 1)
    assert [each.seat for each in claim(store, Lane(room=1))] == [("", "")]
