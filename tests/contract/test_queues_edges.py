"""What every queue promises about dependencies: which there are, and which it refuses."""

import itertools

import pytest

from builders import NOON, a_task, an_edge
from fleet.core.dependency import BLOCKS, CONDITIONAL, PARENT_CHILD, WAITS_FOR, WELL_KNOWN
from fleet.core.errors import CycleRefused, DependencyRefused, TaskNotFound
from fleet.store.base import Queue


def with_tasks(queue: Queue, names: str) -> None:
    """One task for each letter."""
    with queue.atomic():
        for name in names:
            queue.add(a_task(id=name))


def test_an_edge_comes_back_exactly_as_it_was_added(queue: Queue) -> None:
    with_tasks(queue, "ab")
    edge = an_edge(
        "a",
        "b",
        WAITS_FOR,
        created_by="ada",
        metadata='{"gate": "any-children", "ü": 1}',
        thread_id="t",
        created_at=NOON,
    )
    queue.link(edge)
    assert queue.edges() == [edge]


def test_an_edge_of_any_type_is_kept(queue: Queue) -> None:
    kinds = sorted([*WELL_KNOWN, "of-my-own"])
    edges = [an_edge("a", kind, kind) for kind in kinds]
    with queue.atomic():
        for key in ("a", *kinds):
            queue.add(a_task(id=key))
    with queue.atomic():
        for edge in edges:
            queue.link(edge)
    assert queue.edges() == edges


@pytest.mark.bd_in_soak
def test_edges_are_found_from_a_task_to_a_task_and_all(queue: Queue) -> None:
    with_tasks(queue, "abcd")
    ab, ac, cb, db = an_edge("a", "b"), an_edge("a", "c"), an_edge("c", "b"), an_edge("d", "b", "related")
    for edge in (db, cb, ac, ab):
        queue.link(edge)
    assert queue.edges() == [ab, ac, cb, db]
    assert queue.edges(["a"]) == [ab, ac]
    assert queue.edges(["c", "a", "nope"]) == [ab, ac, cb]
    assert queue.edges(["b"]) == []
    assert queue.edges(["b"], up=True) == [ab, cb, db]
    assert queue.edges(["c", "b"], up=True) == [ab, cb, db, ac]
    assert queue.edges([]) == []
    assert queue.edges(iter(["a"])) == [ab, ac]


def test_an_edge_can_be_removed_once(queue: Queue) -> None:
    with_tasks(queue, "ab")
    queue.link(an_edge("a", "b"))
    assert not queue.unlink("b", "a")
    assert queue.unlink("a", "b")
    assert not queue.unlink("a", "b")
    assert queue.edges() == []


def test_both_ends_must_exist_unless_the_far_one_is_external(queue: Queue) -> None:
    with_tasks(queue, "a")
    for task, needs in (("a", "nope"), ("nope", "a"), ("external:x:y", "a")):
        with pytest.raises(TaskNotFound):
            queue.link(an_edge(task, needs))
    edge = an_edge("a", "external:project:thing")
    queue.link(edge)
    assert queue.edges() == [edge]


def test_the_same_edge_twice_is_kept_once(queue: Queue) -> None:
    with_tasks(queue, "ab")
    queue.link(an_edge("a", "b"))
    queue.link(an_edge("a", "b"))
    assert queue.edges() == [an_edge("a", "b")]


@pytest.mark.bd_in_soak
@pytest.mark.parametrize("kind", [BLOCKS, CONDITIONAL, WAITS_FOR, PARENT_CHILD, "related", "of-my-own"])
def test_no_task_depends_on_itself(queue: Queue, kind: str) -> None:
    with_tasks(queue, "a")
    with pytest.raises(DependencyRefused, match="itself"):
        queue.link(an_edge("a", "a", kind))
    with pytest.raises(DependencyRefused, match="itself"):
        queue.link(an_edge("a", "a", kind), check_cycles=False)
    assert queue.edges() == []


@pytest.mark.bd_in_soak
@pytest.mark.parametrize("kind", [CONDITIONAL, WAITS_FOR, PARENT_CHILD, "related"])
def test_a_second_edge_of_another_type_is_refused(queue: Queue, kind: str) -> None:
    with_tasks(queue, "ab")
    queue.link(an_edge("a", "b"))
    with pytest.raises(DependencyRefused, match=f"a -> b already exists.*{BLOCKS}.*{kind}"):
        queue.link(an_edge("a", "b", kind))
    assert queue.edges() == [an_edge("a", "b")]


@pytest.mark.bd_in_soak
@pytest.mark.parametrize(
    "kinds", [(BLOCKS, BLOCKS), (BLOCKS, CONDITIONAL), (PARENT_CHILD, BLOCKS), (BLOCKS, PARENT_CHILD)]
)
def test_a_circle_of_edges_that_hold_work_up_is_refused(queue: Queue, kinds: tuple[str, str]) -> None:
    with_tasks(queue, "abc")
    queue.link(an_edge("a", "b", kinds[0]))
    queue.link(an_edge("b", "c", kinds[1]))
    for closing in (BLOCKS, CONDITIONAL, PARENT_CHILD):
        with pytest.raises(CycleRefused, match="cycle"):
            queue.link(an_edge("c", "a", closing))
        with pytest.raises(CycleRefused):
            queue.link(an_edge("b", "a", closing))
    assert len(queue.edges()) == 2


@pytest.mark.bd_in_soak
def test_a_long_circle_is_refused(queue: Queue) -> None:
    keys = [f"t{number:03}" for number in range(150)]
    with queue.atomic():
        for key in keys:
            queue.add(a_task(id=key))
        for task, needs in itertools.pairwise(keys):
            queue.link(an_edge(task, needs))
    with pytest.raises(CycleRefused):
        queue.link(an_edge(keys[-1], keys[0]))


def test_a_diamond_is_no_circle(queue: Queue) -> None:
    with_tasks(queue, "abcd")
    with queue.atomic():
        for task, needs in ("ab", "ac", "bd", "cd", "ad"):
            queue.link(an_edge(task, needs))
    assert len(queue.edges()) == 5


@pytest.mark.parametrize("kind", [WAITS_FOR, "related", "discovered-from", "of-my-own"])
def test_a_circle_through_any_other_type_is_allowed(queue: Queue, kind: str) -> None:
    with_tasks(queue, "ab")
    queue.link(an_edge("a", "b"))
    queue.link(an_edge("b", "a", kind))
    assert len(queue.edges()) == 2


def test_a_circle_is_not_looked_for_when_the_caller_says_so(queue: Queue) -> None:
    with_tasks(queue, "ab")
    queue.link(an_edge("a", "b"))
    queue.link(an_edge("b", "a"), check_cycles=False)
    assert queue.get("a").is_blocked and queue.get("b").is_blocked


@pytest.mark.bd_in_soak
@pytest.mark.parametrize("kind", [BLOCKS, CONDITIONAL])
def test_a_child_cannot_depend_on_what_it_belongs_to(queue: Queue, kind: str) -> None:
    with_tasks(queue, "cpg")
    queue.link(an_edge("c", "p", PARENT_CHILD))
    queue.link(an_edge("p", "g", PARENT_CHILD))
    with pytest.raises(DependencyRefused, match="c is already a child of p"):
        queue.link(an_edge("c", "p", kind))
    for checked in (True, False):
        with pytest.raises(DependencyRefused, match="c is already a child of g"):
            queue.link(an_edge("c", "g", kind), check_cycles=checked)
    queue.link(an_edge("c", "g", "related"))


@pytest.mark.bd_in_soak
def test_a_parent_cannot_depend_on_its_child(queue: Queue) -> None:
    with_tasks(queue, "cp")
    queue.link(an_edge("c", "p", PARENT_CHILD))
    with pytest.raises(CycleRefused):
        queue.link(an_edge("p", "c"))


@pytest.mark.bd_in_soak
def test_ancestors_come_nearest_first_and_each_once(queue: Queue) -> None:
    with_tasks(queue, "abcdx")
    for child, parent in ("ab", "bc", "cd"):
        queue.link(an_edge(child, parent, PARENT_CHILD))
    queue.link(an_edge("a", "x"))
    assert queue.ancestors("a") == ["b", "c", "d"]
    assert queue.ancestors("d") == []
    assert queue.ancestors("nope") == []
    queue.link(an_edge("a", "c", PARENT_CHILD))
    assert sorted(queue.ancestors("a")) == ["b", "c", "d"]
