"""The contract of all stores for dependencies: allowed types and refused edges."""

import itertools

import pytest

from builders import NOON, a_task, an_edge
from fleet.core.dependency import BLOCKS, CONDITIONAL, PARENT_CHILD, WAITS_FOR, WELL_KNOWN
from fleet.core.errors import CycleRefused, DependencyRefused, TaskNotFound
from fleet.store.base import Store


def with_tasks(store: Store, names: str) -> None:
    """Add one task for each letter."""
    with store.atomic():
        for name in names:
            store.tasks.add(a_task(id=name))


def test_edge_is_returned_unchanged(store: Store) -> None:
    with_tasks(store, "ab")
    edge = an_edge(
        "a",
        "b",
        WAITS_FOR,
        created_by="ada",
        metadata='{"gate": "any-children", "ü": 1}',
        thread_id="t",
        created_at=NOON,
    )
    store.edges.add(edge)
    assert store.edges.find() == [edge]


def test_edge_of_any_type_is_stored(store: Store) -> None:
    kinds = sorted([*WELL_KNOWN, "of-my-own"])
    edges = [an_edge("a", kind, kind) for kind in kinds]
    with store.atomic():
        for key in ("a", *kinds):
            store.tasks.add(a_task(id=key))
    with store.atomic():
        for edge in edges:
            store.edges.add(edge)
    assert store.edges.find() == edges


@pytest.mark.bd_in_soak
def test_edges_are_found_by_either_end_and_as_a_whole(store: Store) -> None:
    with_tasks(store, "abcd")
    ab, ac, cb, db = an_edge("a", "b"), an_edge("a", "c"), an_edge("c", "b"), an_edge("d", "b", "related")
    for edge in (db, cb, ac, ab):
        store.edges.add(edge)
    assert store.edges.find() == [ab, ac, cb, db]
    assert store.edges.find(["a"]) == [ab, ac]
    assert store.edges.find(["c", "a", "nope"]) == [ab, ac, cb]
    assert store.edges.find(["b"]) == []
    assert store.edges.find(["b"], up=True) == [ab, cb, db]
    assert store.edges.find(["c", "b"], up=True) == [ab, cb, db, ac]
    assert store.edges.find([]) == []
    assert store.edges.find(iter(["a"])) == [ab, ac]


def test_edge_can_be_removed_once(store: Store) -> None:
    with_tasks(store, "ab")
    store.edges.add(an_edge("a", "b"))
    assert not store.edges.remove("b", "a")
    assert store.edges.remove("a", "b")
    assert not store.edges.remove("a", "b")
    assert store.edges.find() == []


def test_both_ends_of_an_edge_must_exist_unless_the_target_is_external(store: Store) -> None:
    with_tasks(store, "a")
    for task, needs in (("a", "nope"), ("nope", "a"), ("external:x:y", "a")):
        with pytest.raises(TaskNotFound):
            store.edges.add(an_edge(task, needs))
    edge = an_edge("a", "external:project:thing")
    store.edges.add(edge)
    assert store.edges.find() == [edge]


def test_duplicate_edge_is_stored_once(store: Store) -> None:
    with_tasks(store, "ab")
    store.edges.add(an_edge("a", "b"))
    store.edges.add(an_edge("a", "b"))
    assert store.edges.find() == [an_edge("a", "b")]


@pytest.mark.bd_in_soak
@pytest.mark.parametrize("kind", [BLOCKS, CONDITIONAL, WAITS_FOR, PARENT_CHILD, "related", "of-my-own"])
def test_task_cannot_depend_on_itself(store: Store, kind: str) -> None:
    with_tasks(store, "a")
    with pytest.raises(DependencyRefused, match="itself"):
        store.edges.add(an_edge("a", "a", kind))
    with pytest.raises(DependencyRefused, match="itself"):
        store.edges.add(an_edge("a", "a", kind), check_cycles=False)
    assert store.edges.find() == []


@pytest.mark.bd_in_soak
@pytest.mark.parametrize("kind", [CONDITIONAL, WAITS_FOR, PARENT_CHILD, "related"])
def test_second_edge_of_another_type_is_refused(store: Store, kind: str) -> None:
    with_tasks(store, "ab")
    store.edges.add(an_edge("a", "b"))
    with pytest.raises(DependencyRefused, match=f"a -> b already exists.*{BLOCKS}.*{kind}"):
        store.edges.add(an_edge("a", "b", kind))
    assert store.edges.find() == [an_edge("a", "b")]


@pytest.mark.bd_in_soak
@pytest.mark.parametrize(
    "kinds", [(BLOCKS, BLOCKS), (BLOCKS, CONDITIONAL), (PARENT_CHILD, BLOCKS), (BLOCKS, PARENT_CHILD)]
)
def test_cycle_of_blocking_edges_is_refused(store: Store, kinds: tuple[str, str]) -> None:
    with_tasks(store, "abc")
    store.edges.add(an_edge("a", "b", kinds[0]))
    store.edges.add(an_edge("b", "c", kinds[1]))
    for closing in (BLOCKS, CONDITIONAL, PARENT_CHILD):
        with pytest.raises(CycleRefused, match="cycle"):
            store.edges.add(an_edge("c", "a", closing))
        with pytest.raises(CycleRefused):
            store.edges.add(an_edge("b", "a", closing))
    assert len(store.edges.find()) == 2


@pytest.mark.bd_in_soak
def test_long_cycle_is_refused(store: Store) -> None:
    keys = [f"t{number:03}" for number in range(150)]
    with store.atomic():
        for key in keys:
            store.tasks.add(a_task(id=key))
        for task, needs in itertools.pairwise(keys):
            store.edges.add(an_edge(task, needs))
    with pytest.raises(CycleRefused):
        store.edges.add(an_edge(keys[-1], keys[0]))


def test_diamond_is_no_cycle(store: Store) -> None:
    with_tasks(store, "abcd")
    with store.atomic():
        for task, needs in ("ab", "ac", "bd", "cd", "ad"):
            store.edges.add(an_edge(task, needs))
    assert len(store.edges.find()) == 5


@pytest.mark.parametrize("kind", [WAITS_FOR, "related", "discovered-from", "of-my-own"])
def test_cycle_through_other_types_is_allowed(store: Store, kind: str) -> None:
    with_tasks(store, "ab")
    store.edges.add(an_edge("a", "b"))
    store.edges.add(an_edge("b", "a", kind))
    assert len(store.edges.find()) == 2


def test_cycle_check_can_be_skipped_by_the_caller(store: Store) -> None:
    with_tasks(store, "ab")
    store.edges.add(an_edge("a", "b"))
    store.edges.add(an_edge("b", "a"), check_cycles=False)
    assert store.tasks.get("a").is_blocked and store.tasks.get("b").is_blocked


@pytest.mark.bd_in_soak
@pytest.mark.parametrize("kind", [BLOCKS, CONDITIONAL])
def test_child_cannot_depend_on_its_parent(store: Store, kind: str) -> None:
    with_tasks(store, "cpg")
    store.edges.add(an_edge("c", "p", PARENT_CHILD))
    store.edges.add(an_edge("p", "g", PARENT_CHILD))
    with pytest.raises(DependencyRefused, match="c is already a child of p"):
        store.edges.add(an_edge("c", "p", kind))
    for checked in (True, False):
        with pytest.raises(DependencyRefused, match="c is already a child of g"):
            store.edges.add(an_edge("c", "g", kind), check_cycles=checked)
    store.edges.add(an_edge("c", "g", "related"))


@pytest.mark.bd_in_soak
def test_parent_cannot_depend_on_its_child(store: Store) -> None:
    with_tasks(store, "cp")
    store.edges.add(an_edge("c", "p", PARENT_CHILD))
    with pytest.raises(CycleRefused):
        store.edges.add(an_edge("p", "c"))


@pytest.mark.bd_in_soak
def test_ancestors_are_returned_nearest_first_and_once(store: Store) -> None:
    with_tasks(store, "abcdx")
    for child, parent in ("ab", "bc", "cd"):
        store.edges.add(an_edge(child, parent, PARENT_CHILD))
    store.edges.add(an_edge("a", "x"))
    assert store.edges.ancestors("a") == ["b", "c", "d"]
    assert store.edges.ancestors("d") == []
    assert store.edges.ancestors("nope") == []
    store.edges.add(an_edge("a", "c", PARENT_CHILD))
    assert sorted(store.edges.ancestors("a")) == ["b", "c", "d"]
