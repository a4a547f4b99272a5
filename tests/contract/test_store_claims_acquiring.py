"""The contract of all stores for claiming: lanes, order and manual claims."""

from datetime import timedelta
from typing import Any

import pytest

from builders import HOUR, NOON, FakeClock, a_task, an_edge
from fleet.core.dependency import PARENT_CHILD
from fleet.core.errors import AlreadyClaimed, NotClaimable
from fleet.core.filter import READY, Filter, Lane
from fleet.core.task import CATEGORIES, NOT_WORK, Claim
from fleet.store.base import Store

ONE, ALL = Lane(room=1), Lane(room=1000)


def claimed(store: Store, *lanes: Lane, room: int = 1000, owner: str = "host") -> str:
    """Return the ids that these lanes claim, in order."""
    return " ".join(claim.task.id for claim in store.claims.acquire(owner, lanes or [ALL], room=room, ttl=HOUR))


def test_task_is_claimed_once(store: Store) -> None:
    store.tasks.add(a_task())
    first = store.claims.acquire("a", [ONE], room=1, ttl=HOUR)
    second = store.claims.acquire("b", [ONE], room=1, ttl=HOUR)
    assert len(first) == 1 and second == []
    assert store.claims.acquire("a", [ONE], room=1, ttl=HOUR) == []


def test_claim_names_owner_epoch_and_expiry(store: Store, clock: FakeClock) -> None:
    task = a_task(labels=("b", "a"), metadata={"k": 1}, cancel_reason="old", hand_in_reason="old", run_id="old")
    store.tasks.add(task.replace(cancel_requested_at=NOON, handed_in_at=NOON, defer_until=NOON))
    clock.advance(timedelta(seconds=7))
    now = store.now()
    [claim] = store.claims.acquire("host", [ONE], room=1, ttl=HOUR)
    held = task.replace(
        labels=("a", "b"),
        status="in_progress",
        assignee="host",
        claim_owner="host",
        epoch=1,
        claim_expires_at=now + HOUR,
        started_at=now,
        updated_at=now,
        cancel_reason="",
        hand_in_reason="",
        run_id="",
    )
    assert claim == Claim(task=held, owner="host", epoch=1, expires_at=now + HOUR)
    assert store.tasks.get(task.id) == held


def test_acquire_keeps_the_first_start_of_a_task(store: Store) -> None:
    store.tasks.add(a_task(started_at=NOON - HOUR))
    [claim] = store.claims.acquire("host", [ONE], room=1, ttl=HOUR)
    assert claim.task.started_at == NOON - HOUR


@pytest.mark.bd_in_soak
def test_tasks_are_claimed_by_priority_and_then_by_age(store: Store) -> None:
    store.tasks.add(a_task(id="d", priority=4, created_at=NOON - 9 * HOUR))
    store.tasks.add(a_task(id="c", priority=2, created_at=NOON))
    store.tasks.add(a_task(id="b", priority=2, created_at=NOON - HOUR))
    store.tasks.add(a_task(id="b2", priority=2, created_at=NOON - HOUR))
    store.tasks.add(a_task(id="a", priority=0, created_at=NOON))
    assert claimed(store, room=3) == "a b b2"
    assert claimed(store) == "c d"


@pytest.mark.bd_in_soak
@pytest.mark.parametrize("room", [0, -1])
def test_nothing_is_claimed_when_no_room_is_left(store: Store, room: int) -> None:
    store.tasks.add(a_task())
    assert claimed(store, room=room) == ""
    assert claimed(store, Lane(room=room)) == ""
    assert store.claims.acquire("host", [], room=5, ttl=HOUR) == []


@pytest.mark.bd_in_soak
def test_acquire_respects_the_room_of_each_lane_and_in_total(store: Store) -> None:
    with store.atomic():
        for number in range(6):
            store.tasks.add(a_task(id=f"c{number}", coder="claude"))
            store.tasks.add(a_task(id=f"x{number}", coder="codex"))
    lanes = [Lane(room=3, where=Filter(coder="claude")), Lane(room=2, where=Filter(coder="codex"))]
    assert claimed(store, *lanes, room=4) == "c0 c1 c2 x0"
    assert claimed(store, *lanes) == "c3 c4 c5 x1 x2"
    assert claimed(store, *lanes) == "x3 x4"


@pytest.mark.bd_in_soak
def test_room_goes_to_the_most_urgent_task_of_all_lanes(store: Store) -> None:
    store.tasks.add(a_task(id="c", coder="claude", priority=2))
    store.tasks.add(a_task(id="x", coder="codex", priority=1))
    lanes = [Lane(room=5, where=Filter(coder="claude")), Lane(room=5, where=Filter(coder="codex"))]
    assert claimed(store, *lanes, room=1) == "x"


@pytest.mark.bd_in_soak
def test_full_lane_does_not_block_another(store: Store) -> None:
    with store.atomic():
        for _ in range(50):
            store.tasks.add(a_task(coder="claude", account="parked", priority=0))
        store.tasks.add(a_task(id="x", coder="codex", priority=4))
    lanes = [
        Lane(room=0, where=Filter(coder="claude", account="parked")),
        Lane(room=1, where=Filter(coder="codex", account="")),
    ]
    assert claimed(store, *lanes, room=3) == "x"


@pytest.mark.bd_in_soak
def test_task_that_matches_two_lanes_is_claimed_once(store: Store) -> None:
    store.tasks.add(a_task(id="a", coder="claude"))
    store.tasks.add(a_task(id="b", coder="claude"))
    assert claimed(store, Lane(room=2, where=Filter(coder="claude")), Lane(room=2)) == "a b"


LANES: list[tuple[Filter, dict[str, Any], dict[str, Any]]] = [
    (Filter(coder="claude"), {"coder": "claude"}, {"coder": "codex"}),
    (Filter(coder=""), {}, {"coder": "codex"}),
    (Filter(account="work"), {"account": "work"}, {"account": "home"}),
    (Filter(coder="claude", account="work"), {"coder": "claude", "account": "work"}, {"coder": "claude"}),
    (Filter(origins=("create", "fanout")), {"origin": "fanout"}, {"origin": "bd"}),
    (Filter(mode="interactive"), {"mode": "interactive"}, {"mode": "headless"}),
    (Filter(labels=("gpu",)), {"labels": ("gpu",)}, {"labels": ("cpu",)}),
    (Filter(repo="/r"), {"repo": "/r"}, {"repo": "/q"}),
]


@pytest.mark.bd_in_soak
@pytest.mark.parametrize(("where", "fits", "misses"), LANES)
def test_lane_claims_only_matching_tasks(
    store: Store, where: Filter, fits: dict[str, Any], misses: dict[str, Any]
) -> None:
    store.tasks.add(a_task(**{"id": "misses", "priority": 0, **misses}))
    store.tasks.add(a_task(**{"id": "fits", **fits}))
    assert claimed(store, Lane(room=5, where=where)) == "fits"


@pytest.mark.bd_in_soak
def test_only_ready_unassigned_work_is_claimed(store: Store) -> None:
    with store.atomic():
        for status in CATEGORIES:
            store.tasks.add(a_task(id=f"status-{status}", status=status))
        for kind in NOT_WORK:
            store.tasks.add(a_task(type=kind))
        store.tasks.add(a_task(assignee="ada"))
        store.tasks.add(a_task(assignee="host"))
        store.tasks.add(a_task(ephemeral=True))
        store.tasks.add(a_task(pinned=True))
        store.tasks.add(a_task(is_template=True))
        store.tasks.add(a_task(defer_until=NOON + HOUR))
        store.tasks.add(a_task(id="blocked"))
        store.edges.add(an_edge("blocked", "status-in_progress"))
        store.tasks.add(a_task(id="of-deferred", type="gate", defer_until=NOON + HOUR))
        store.tasks.add(a_task(id="child"))
        store.edges.add(an_edge("child", "of-deferred", PARENT_CHILD))
    assert claimed(store) == "status-open"


@pytest.mark.bd_in_soak
def test_lane_cannot_claim_blocked_or_assigned_tasks(store: Store) -> None:
    store.tasks.add(a_task(status="blocked"))
    store.tasks.add(a_task(assignee="ada"))
    assert claimed(store, Lane(room=5, where=Filter(ready=False)), Lane(room=5, where=Filter(assignee="ada"))) == ""


def test_epoch_increases_with_each_claim_by_any_owner(store: Store) -> None:
    task = a_task()
    store.tasks.add(task)
    epochs = []
    for owner in ("a", "b", "b", "a"):
        [claim] = store.claims.acquire(owner, [ONE], room=1, ttl=HOUR)
        epochs.append(claim.epoch)
        store.claims.release(claim)
    store.claims.take(task.id, "ada")
    epochs.append(store.tasks.get(task.id).epoch)
    assert epochs == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("status", ["open", "blocked", "deferred", "pinned", "of_my_own"])
def test_held_task_is_not_claimed_again_when_its_status_is_changed_manually(store: Store, status: str) -> None:
    task = a_task()
    store.tasks.add(task)
    [claim] = store.claims.acquire("host", [ONE], room=1, ttl=HOUR)
    with store.atomic():
        store.tasks.save(store.tasks.get(task.id).moved(status, store.now()))
    assert claimed(store, owner="host") == claimed(store, owner="other") == ""
    assert store.tasks.find(READY) == []
    with pytest.raises(AlreadyClaimed):
        store.claims.take(task.id, "ada")
    [renewed] = store.claims.renew([claim], ttl=HOUR)
    assert renewed.task.status == status


def test_manually_taken_task_has_no_expiry_and_a_new_epoch(store: Store, clock: FakeClock) -> None:
    task = a_task(epoch=4)
    store.tasks.add(task)
    clock.advance(HOUR)
    taken = store.claims.take(task.id, "ada")
    assert taken == store.tasks.get(task.id)
    assert (taken.status, taken.assignee, taken.claim_owner, taken.epoch) == ("in_progress", "ada", "ada", 5)
    assert (taken.claim_expires_at, taken.started_at, taken.updated_at) == (None, NOON + HOUR, NOON + HOUR)
    assert claimed(store) == ""


def test_taking_twice_by_the_same_actor_changes_nothing(store: Store, clock: FakeClock) -> None:
    task = a_task()
    store.tasks.add(task)
    first = store.claims.take(task.id, "ada")
    clock.advance(HOUR)
    assert store.claims.take(task.id, "ada") == first


def test_assigned_task_can_be_taken_only_by_its_assignee(store: Store) -> None:
    task = a_task(assignee="ada")
    store.tasks.add(task)
    with pytest.raises(AlreadyClaimed, match="claimed by ada"):
        store.claims.take(task.id, "bob")
    assert store.tasks.get(task.id) == task
    assert store.claims.take(task.id, "ada").claim_owner == "ada"


def test_held_task_cannot_be_taken(store: Store) -> None:
    by_hand, supervised = a_task(), a_task()
    store.tasks.add(by_hand)
    store.claims.take(by_hand.id, "ada")
    store.tasks.add(supervised)
    store.claims.acquire("host", [ONE], room=1, ttl=HOUR)
    for task, holder in ((by_hand, "ada"), (supervised, "host")):
        with pytest.raises(AlreadyClaimed, match=f"claimed by {holder}"):
            store.claims.take(task.id, "bob")


@pytest.mark.bd_in_soak
@pytest.mark.parametrize("status", [status for status in CATEGORIES if status != "open"])
def test_only_an_open_task_can_be_taken(store: Store, status: str) -> None:
    task = a_task(status=status)
    store.tasks.add(task)
    with pytest.raises(NotClaimable, match=status):
        store.claims.take(task.id, "ada")
    assert store.tasks.get(task.id) == task


def test_manually_released_task_is_ready_and_keeps_its_assignee(store: Store) -> None:
    task = a_task()
    store.tasks.add(task)
    store.claims.take(task.id, "ada")
    with store.atomic():
        store.tasks.save(store.tasks.get(task.id).moved("open", store.now()))
    assert [each.id for each in store.tasks.find(READY)] == [task.id]
    assert claimed(store) == ""


@pytest.mark.bd_in_soak
def test_overlapping_lanes_claim_different_tasks(store: Store) -> None:
    for number in range(3):
        store.tasks.add(a_task(id=f"fleet-{number}", priority=number))
    claims = store.claims.acquire("host", [Lane(room=1), Lane(room=1)], room=5, ttl=HOUR)
    assert [claim.task.id for claim in claims] == ["fleet-0", "fleet-1"]
