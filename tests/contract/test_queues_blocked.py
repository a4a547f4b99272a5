"""What every queue promises about blocked and ready tasks: true at once, after every change."""

import itertools

import pytest

from builders import HOUR, NOON, FakeClock, a_task, an_edge
from fleet.core.dependency import ALL_CHILDREN, ANY_CHILDREN, BLOCKS, CONDITIONAL, PARENT_CHILD, WAITS_FOR, WELL_KNOWN
from fleet.core.filter import READY, Filter, Lane
from fleet.core.task import CATEGORIES, NOT_WORK, RESOLVED
from fleet.store.base import Queue

pytestmark = pytest.mark.bd_in_soak

NEVER_BLOCKING = [kind for kind in WELL_KNOWN if kind not in (BLOCKS, CONDITIONAL, WAITS_FOR, PARENT_CHILD)]
ANY = '{"gate": "any-children"}'


def tree(queue: Queue, *, waits: str = "") -> None:
    """p with its children p.1 and p.2, and g above them; w waits for p's children."""
    with queue.atomic():
        for key in ("g", "p", "p.1", "p.2", "x", "w"):
            queue.add(a_task(id=key))
        for child, parent in (("p", "g"), ("p.1", "p"), ("p.2", "p")):
            queue.link(an_edge(child, parent, PARENT_CHILD))
        if waits:
            queue.link(an_edge("w", "p", WAITS_FOR, metadata=f'{{"gate": "{waits}"}}'))


def move(queue: Queue, key: str, status: str) -> None:
    """What a person does with `bd update --status`."""
    with queue.atomic():
        queue.save(queue.get(key).moved(status, queue.now()))


def blocked(queue: Queue) -> str:
    """The ids of all blocked tasks."""
    return " ".join(task.id for task in queue.find(Filter(blocked=True), sort="id"))


def ready(queue: Queue) -> str:
    """The ids of all ready tasks."""
    return " ".join(task.id for task in queue.find(READY, sort="id"))


@pytest.mark.parametrize("kind", [BLOCKS, CONDITIONAL])
def test_a_task_waits_until_what_it_needs_is_resolved(queue: Queue, kind: str) -> None:
    tree(queue)
    queue.link(an_edge("x", "w", kind))
    assert (blocked(queue), "x" in ready(queue)) == ("x", False)
    for status in (*CATEGORIES, "of_my_own"):
        move(queue, "w", status)
        assert (status, blocked(queue)) == (status, "" if status in RESOLVED else "x")


def test_each_of_several_needs_holds_a_task_up(queue: Queue) -> None:
    tree(queue)
    queue.link(an_edge("x", "w"))
    queue.link(an_edge("x", "g"))
    move(queue, "w", "closed")
    assert blocked(queue) == "x"
    move(queue, "g", "closed")
    assert blocked(queue) == ""


def test_reopening_what_is_needed_blocks_again(queue: Queue) -> None:
    tree(queue)
    queue.link(an_edge("x", "w"))
    move(queue, "w", "closed")
    assert "x" in ready(queue)
    with queue.atomic():
        queue.save(queue.get("w").reopened(queue.now()))
    assert blocked(queue) == "x"


def test_needing_what_is_closed_already_blocks_nothing(queue: Queue) -> None:
    tree(queue)
    move(queue, "w", "closed")
    queue.link(an_edge("x", "w"))
    assert blocked(queue) == ""


def test_removing_the_edge_or_the_needed_task_unblocks(queue: Queue) -> None:
    tree(queue)
    queue.link(an_edge("x", "w"))
    queue.unlink("x", "w")
    assert blocked(queue) == ""
    queue.link(an_edge("x", "w"))
    queue.remove("w")
    assert blocked(queue) == ""


def test_something_external_blocks_until_the_edge_is_removed(queue: Queue) -> None:
    tree(queue)
    queue.link(an_edge("x", "external:other:api"))
    assert blocked(queue) == "x"
    queue.unlink("x", "external:other:api")
    assert blocked(queue) == ""


def test_other_types_never_block(queue: Queue) -> None:
    with queue.atomic():
        for kind in (*NEVER_BLOCKING, "of-my-own"):
            for key in (f"{kind}-task", f"{kind}-needed"):
                queue.add(a_task(id=key))
            queue.link(an_edge(f"{kind}-task", f"{kind}-needed", kind))
            queue.link(an_edge(f"{kind}-needed", "external:other:api", kind))
    assert blocked(queue) == ""


def test_a_blocked_parent_blocks_its_descendants_and_frees_them_again(queue: Queue) -> None:
    tree(queue)
    assert blocked(queue) == ""
    queue.link(an_edge("g", "x"))
    assert blocked(queue) == "g p p.1 p.2"
    move(queue, "x", "closed")
    assert blocked(queue) == ""
    move(queue, "x", "open")
    queue.unlink("p", "g")
    assert blocked(queue) == "g"
    queue.link(an_edge("p", "g", PARENT_CHILD))
    assert blocked(queue) == "g p p.1 p.2"
    queue.remove("x")
    assert blocked(queue) == ""


def test_a_child_with_a_need_of_its_own_stays_blocked_when_its_parent_is_freed(queue: Queue) -> None:
    tree(queue)
    queue.link(an_edge("g", "x"))
    queue.link(an_edge("p.1", "w"))
    move(queue, "x", "closed")
    assert blocked(queue) == "p.1"


def test_an_open_or_closed_parent_does_not_block_its_children(queue: Queue) -> None:
    tree(queue)
    assert "p.1" in ready(queue)
    move(queue, "p", "closed")
    assert "p.1" in ready(queue)


def test_removing_a_blocked_parent_frees_its_children(queue: Queue) -> None:
    tree(queue)
    queue.link(an_edge("p", "x"))
    queue.remove("p")
    assert blocked(queue) == ""


def test_a_closed_task_is_not_shown_as_blocked_but_its_children_are(queue: Queue) -> None:
    tree(queue)
    queue.link(an_edge("p", "x"))
    move(queue, "p", "closed")
    assert blocked(queue) == "p.1 p.2"


def test_blocking_reaches_down_a_deep_tree(queue: Queue) -> None:
    keys = [f"t{number:02}" for number in range(40)]
    with queue.atomic():
        for key in (*keys, "x"):
            queue.add(a_task(id=key))
        for parent, child in itertools.pairwise(keys):
            queue.link(an_edge(child, parent, PARENT_CHILD))
    queue.link(an_edge(keys[0], "x"))
    assert blocked(queue) == " ".join(keys)
    move(queue, "x", "pinned")
    assert blocked(queue) == ""


def test_waiting_for_all_children_ends_with_the_last_of_them(queue: Queue) -> None:
    tree(queue, waits=ALL_CHILDREN)
    assert blocked(queue) == "w"
    move(queue, "p.1", "closed")
    assert blocked(queue) == "w"
    move(queue, "p.2", "pinned")
    assert blocked(queue) == ""
    move(queue, "p.1", "open")
    assert blocked(queue) == "w"


def test_waiting_for_any_child_ends_with_the_first_of_them(queue: Queue) -> None:
    tree(queue, waits=ANY_CHILDREN)
    assert blocked(queue) == "w"
    move(queue, "p.2", "closed")
    assert blocked(queue) == ""
    move(queue, "p.2", "open")
    assert blocked(queue) == "w"


@pytest.mark.parametrize("gate", [ALL_CHILDREN, ANY_CHILDREN])
def test_waiting_for_what_has_no_children_ends_at_once(queue: Queue, gate: str) -> None:
    tree(queue)
    queue.link(an_edge("w", "x", WAITS_FOR, metadata=f'{{"gate": "{gate}"}}'))
    assert blocked(queue) == ""
    queue.link(an_edge("p.1", "x", PARENT_CHILD))
    assert blocked(queue) == "w"


def test_the_target_itself_is_not_waited_for_only_its_children(queue: Queue) -> None:
    tree(queue, waits=ALL_CHILDREN)
    move(queue, "p.1", "closed")
    move(queue, "p.2", "closed")
    assert (queue.get("p").status, blocked(queue)) == ("open", "")


def test_children_that_come_later_or_go_are_waited_for_too(queue: Queue) -> None:
    tree(queue, waits=ALL_CHILDREN)
    for key in ("p.1", "p.2"):
        move(queue, key, "closed")
    assert blocked(queue) == ""
    queue.add(a_task(id="p.3"))
    queue.link(an_edge("p.3", "p", PARENT_CHILD))
    assert blocked(queue) == "w"
    queue.unlink("p.3", "p")
    assert blocked(queue) == ""
    queue.link(an_edge("p.3", "p", PARENT_CHILD))
    queue.remove("p.3")
    assert blocked(queue) == ""


def test_removing_the_target_of_a_wait_ends_it(queue: Queue) -> None:
    tree(queue, waits=ALL_CHILDREN)
    queue.remove("p")
    assert blocked(queue) == ""


def test_a_wait_blocks_the_children_of_whoever_waits(queue: Queue) -> None:
    tree(queue, waits=ALL_CHILDREN)
    queue.link(an_edge("x", "w", PARENT_CHILD))
    assert blocked(queue) == "w x"
    queue.unlink("w", "p")
    assert blocked(queue) == ""


def test_a_settled_or_claimed_task_counts_at_once_for_those_that_need_it(queue: Queue) -> None:
    tree(queue)
    queue.link(an_edge("x", "w"))
    queue.take("w", "ada")
    assert blocked(queue) == "x"
    with queue.atomic():
        queue.save(queue.get("w").closed("done", queue.now()))
    assert "x" in ready(queue)


def test_deferred_tasks_become_ready_when_their_time_comes(queue: Queue, clock: FakeClock) -> None:
    queue.add(a_task(id="x", defer_until=NOON + HOUR))
    assert ready(queue) == ""
    clock.advance(HOUR)
    assert ready(queue) == "x"


def test_a_task_set_aside_until_a_time_is_ready_when_it_comes_and_without_one_never(
    queue: Queue, clock: FakeClock
) -> None:
    queue.add(a_task(id="until", status="deferred", defer_until=NOON + HOUR))
    queue.add(a_task(id="for-good", status="deferred"))
    assert ready(queue) == ""
    clock.advance(HOUR)
    assert ready(queue) == "until"
    [claim] = queue.claim("host", [Lane(room=9)], room=9, ttl=HOUR)
    assert (claim.task.id, claim.task.status) == ("until", "in_progress")


def test_children_of_a_deferred_parent_wait_for_its_time_but_grandchildren_do_not(
    queue: Queue, clock: FakeClock
) -> None:
    tree(queue)
    with queue.atomic():
        queue.save(queue.get("g").replace(defer_until=NOON + HOUR))
    assert ready(queue) == "p.1 p.2 w x"
    clock.advance(HOUR)
    assert ready(queue) == "g p p.1 p.2 w x"


def test_only_open_tasks_that_are_work_and_nobody_holds_are_ready(queue: Queue) -> None:
    with queue.atomic():
        for status in CATEGORIES:
            queue.add(a_task(id=f"status-{status}", status=status))
        for kind in NOT_WORK:
            queue.add(a_task(id=f"type-{kind}", type=kind))
        queue.add(a_task(id="pinned", pinned=True))
        queue.add(a_task(id="template", is_template=True))
        queue.add(a_task(id="assigned", assignee="ada"))
        queue.add(a_task(id="epic", type="epic"))
        queue.add(a_task(id="held"))
    queue.take("held", "ada")
    assert ready(queue) == "assigned epic status-open"
