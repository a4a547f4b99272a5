"""The contract of all stores for blocked and ready tasks, which are current after every change."""

import itertools

import pytest

from builders import HOUR, NOON, FakeClock, a_task, an_edge
from fleet.core.dependency import ALL_CHILDREN, ANY_CHILDREN, BLOCKS, CONDITIONAL, PARENT_CHILD, WAITS_FOR, WELL_KNOWN
from fleet.core.filter import READY, Filter, Lane
from fleet.core.task import CATEGORIES, NOT_WORK, RESOLVED
from fleet.store.base import Store

pytestmark = pytest.mark.bd_in_soak

NEVER_BLOCKING = [kind for kind in WELL_KNOWN if kind not in (BLOCKS, CONDITIONAL, WAITS_FOR, PARENT_CHILD)]
ANY = '{"gate": "any-children"}'


def tree(store: Store, *, waits: str = "") -> None:
    """Add p with its children p.1 and p.2, and g above them. w waits for the children of p."""
    with store.atomic():
        for key in ("g", "p", "p.1", "p.2", "x", "w"):
            store.tasks.add(a_task(id=key))
        for child, parent in (("p", "g"), ("p.1", "p"), ("p.2", "p")):
            store.edges.add(an_edge(child, parent, PARENT_CHILD))
        if waits:
            store.edges.add(an_edge("w", "p", WAITS_FOR, metadata=f'{{"gate": "{waits}"}}'))


def move(store: Store, key: str, status: str) -> None:
    """Change a status as `bd update --status` does."""
    with store.atomic():
        store.tasks.save(store.tasks.get(key).moved(status, store.now()))


def blocked(store: Store) -> str:
    """Return the ids of all blocked tasks."""
    return " ".join(task.id for task in store.tasks.find(Filter(blocked=True), sort="id"))


def ready(store: Store) -> str:
    """Return the ids of all ready tasks."""
    return " ".join(task.id for task in store.tasks.find(READY, sort="id"))


@pytest.mark.parametrize("kind", [BLOCKS, CONDITIONAL])
def test_task_is_blocked_until_its_dependency_is_resolved(store: Store, kind: str) -> None:
    tree(store)
    store.edges.add(an_edge("x", "w", kind))
    assert (blocked(store), "x" in ready(store)) == ("x", False)
    for status in (*CATEGORIES, "of_my_own"):
        move(store, "w", status)
        assert (status, blocked(store)) == (status, "" if status in RESOLVED else "x")


def test_task_stays_blocked_until_all_dependencies_are_resolved(store: Store) -> None:
    tree(store)
    store.edges.add(an_edge("x", "w"))
    store.edges.add(an_edge("x", "g"))
    move(store, "w", "closed")
    assert blocked(store) == "x"
    move(store, "g", "closed")
    assert blocked(store) == ""


def test_reopened_dependency_blocks_again(store: Store) -> None:
    tree(store)
    store.edges.add(an_edge("x", "w"))
    move(store, "w", "closed")
    assert "x" in ready(store)
    with store.atomic():
        store.tasks.save(store.tasks.get("w").reopened(store.now()))
    assert blocked(store) == "x"


def test_closed_dependency_does_not_block(store: Store) -> None:
    tree(store)
    move(store, "w", "closed")
    store.edges.add(an_edge("x", "w"))
    assert blocked(store) == ""


def test_removing_the_edge_or_the_dependency_unblocks(store: Store) -> None:
    tree(store)
    store.edges.add(an_edge("x", "w"))
    store.edges.remove("x", "w")
    assert blocked(store) == ""
    store.edges.add(an_edge("x", "w"))
    store.tasks.remove("w")
    assert blocked(store) == ""


def test_external_dependency_blocks_until_its_edge_is_removed(store: Store) -> None:
    tree(store)
    store.edges.add(an_edge("x", "external:other:api"))
    assert blocked(store) == "x"
    store.edges.remove("x", "external:other:api")
    assert blocked(store) == ""


def test_other_edge_types_never_block(store: Store) -> None:
    with store.atomic():
        for kind in (*NEVER_BLOCKING, "of-my-own"):
            for key in (f"{kind}-task", f"{kind}-needed"):
                store.tasks.add(a_task(id=key))
            store.edges.add(an_edge(f"{kind}-task", f"{kind}-needed", kind))
            store.edges.add(an_edge(f"{kind}-needed", "external:other:api", kind))
    assert blocked(store) == ""


def test_blocked_parent_blocks_its_descendants_until_it_is_unblocked(store: Store) -> None:
    tree(store)
    assert blocked(store) == ""
    store.edges.add(an_edge("g", "x"))
    assert blocked(store) == "g p p.1 p.2"
    move(store, "x", "closed")
    assert blocked(store) == ""
    move(store, "x", "open")
    store.edges.remove("p", "g")
    assert blocked(store) == "g"
    store.edges.add(an_edge("p", "g", PARENT_CHILD))
    assert blocked(store) == "g p p.1 p.2"
    store.tasks.remove("x")
    assert blocked(store) == ""


def test_child_with_its_own_dependency_stays_blocked_when_its_parent_is_unblocked(store: Store) -> None:
    tree(store)
    store.edges.add(an_edge("g", "x"))
    store.edges.add(an_edge("p.1", "w"))
    move(store, "x", "closed")
    assert blocked(store) == "p.1"


def test_open_or_closed_parent_does_not_block_its_children(store: Store) -> None:
    tree(store)
    assert "p.1" in ready(store)
    move(store, "p", "closed")
    assert "p.1" in ready(store)


def test_removing_a_blocked_parent_unblocks_its_children(store: Store) -> None:
    tree(store)
    store.edges.add(an_edge("p", "x"))
    store.tasks.remove("p")
    assert blocked(store) == ""


def test_closed_task_is_not_shown_as_blocked_but_its_children_are(store: Store) -> None:
    tree(store)
    store.edges.add(an_edge("p", "x"))
    move(store, "p", "closed")
    assert blocked(store) == "p.1 p.2"


def test_blocking_reaches_all_levels_of_a_deep_tree(store: Store) -> None:
    keys = [f"t{number:02}" for number in range(40)]
    with store.atomic():
        for key in (*keys, "x"):
            store.tasks.add(a_task(id=key))
        for parent, child in itertools.pairwise(keys):
            store.edges.add(an_edge(child, parent, PARENT_CHILD))
    store.edges.add(an_edge(keys[0], "x"))
    assert blocked(store) == " ".join(keys)
    move(store, "x", "pinned")
    assert blocked(store) == ""


def test_wait_for_all_children_ends_when_the_last_is_closed(store: Store) -> None:
    tree(store, waits=ALL_CHILDREN)
    assert blocked(store) == "w"
    move(store, "p.1", "closed")
    assert blocked(store) == "w"
    move(store, "p.2", "pinned")
    assert blocked(store) == ""
    move(store, "p.1", "open")
    assert blocked(store) == "w"


def test_wait_for_any_child_ends_when_the_first_is_closed(store: Store) -> None:
    tree(store, waits=ANY_CHILDREN)
    assert blocked(store) == "w"
    move(store, "p.2", "closed")
    assert blocked(store) == ""
    move(store, "p.2", "open")
    assert blocked(store) == "w"


@pytest.mark.parametrize("gate", [ALL_CHILDREN, ANY_CHILDREN])
def test_wait_ends_at_once_when_the_target_has_no_children(store: Store, gate: str) -> None:
    tree(store)
    store.edges.add(an_edge("w", "x", WAITS_FOR, metadata=f'{{"gate": "{gate}"}}'))
    assert blocked(store) == ""
    store.edges.add(an_edge("p.1", "x", PARENT_CHILD))
    assert blocked(store) == "w"


def test_wait_ignores_the_status_of_the_target_itself(store: Store) -> None:
    tree(store, waits=ALL_CHILDREN)
    move(store, "p.1", "closed")
    move(store, "p.2", "closed")
    assert (store.tasks.get("p").status, blocked(store)) == ("open", "")


def test_wait_includes_children_that_are_added_or_removed_later(store: Store) -> None:
    tree(store, waits=ALL_CHILDREN)
    for key in ("p.1", "p.2"):
        move(store, key, "closed")
    assert blocked(store) == ""
    store.tasks.add(a_task(id="p.3"))
    store.edges.add(an_edge("p.3", "p", PARENT_CHILD))
    assert blocked(store) == "w"
    store.edges.remove("p.3", "p")
    assert blocked(store) == ""
    store.edges.add(an_edge("p.3", "p", PARENT_CHILD))
    store.tasks.remove("p.3")
    assert blocked(store) == ""


def test_wait_ends_when_its_target_is_removed(store: Store) -> None:
    tree(store, waits=ALL_CHILDREN)
    store.tasks.remove("p")
    assert blocked(store) == ""


def test_wait_blocks_the_children_of_the_waiting_task(store: Store) -> None:
    tree(store, waits=ALL_CHILDREN)
    store.edges.add(an_edge("x", "w", PARENT_CHILD))
    assert blocked(store) == "w x"
    store.edges.remove("w", "p")
    assert blocked(store) == ""


def test_settling_or_claiming_a_dependency_takes_effect_at_once(store: Store) -> None:
    tree(store)
    store.edges.add(an_edge("x", "w"))
    store.claims.take("w", "ada")
    assert blocked(store) == "x"
    with store.atomic():
        store.tasks.save(store.tasks.get("w").closed("done", store.now()))
    assert "x" in ready(store)


def test_deferred_task_becomes_ready_at_its_time(store: Store, clock: FakeClock) -> None:
    store.tasks.add(a_task(id="x", defer_until=NOON + HOUR))
    assert ready(store) == ""
    clock.advance(HOUR)
    assert ready(store) == "x"


def test_task_with_deferred_status_becomes_ready_only_at_a_given_time(store: Store, clock: FakeClock) -> None:
    store.tasks.add(a_task(id="until", status="deferred", defer_until=NOON + HOUR))
    store.tasks.add(a_task(id="for-good", status="deferred"))
    assert ready(store) == ""
    clock.advance(HOUR)
    assert ready(store) == "until"
    [claim] = store.claims.acquire("host", [Lane(room=9)], room=9, ttl=HOUR)
    assert (claim.task.id, claim.task.status) == ("until", "in_progress")


def test_children_of_a_deferred_parent_wait_but_grandchildren_do_not(store: Store, clock: FakeClock) -> None:
    tree(store)
    with store.atomic():
        store.tasks.save(store.tasks.get("g").replace(defer_until=NOON + HOUR))
    assert ready(store) == "p.1 p.2 w x"
    clock.advance(HOUR)
    assert ready(store) == "g p p.1 p.2 w x"


def test_only_open_unclaimed_work_is_ready(store: Store) -> None:
    with store.atomic():
        for status in CATEGORIES:
            store.tasks.add(a_task(id=f"status-{status}", status=status))
        for kind in NOT_WORK:
            store.tasks.add(a_task(id=f"type-{kind}", type=kind))
        store.tasks.add(a_task(id="pinned", pinned=True))
        store.tasks.add(a_task(id="template", is_template=True))
        store.tasks.add(a_task(id="assigned", assignee="ada"))
        store.tasks.add(a_task(id="epic", type="epic"))
        store.tasks.add(a_task(id="held"))
    store.claims.take("held", "ada")
    assert ready(store) == "assigned epic status-open"
