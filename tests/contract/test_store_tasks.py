"""The contract of all stores for storing tasks."""

import pytest

from builders import HOUR, MINUTE, NOON, a_comment, a_task, an_edge
from fleet.core.dependency import PARENT_CHILD, Tally
from fleet.core.errors import TaskExists, TaskNotFound
from fleet.core.filter import Filter
from fleet.core.task import Task
from fleet.store.base import Store

FULL = a_task(
    id="fleet-full",
    title="quotes \" ' and\nnewlines\tand \x01 and \x00 and -- and '; drop table tasks",
    description="Grüße, 世界, 🚀, \u202e, a\u0301",
    design="d",
    acceptance="a",
    notes="n",
    spec_id="spec-1",
    priority=0,
    type="epic",
    assignee="ada",
    owner="ada@example.org",
    estimated_minutes=90,
    created_by="ada",
    updated_at=NOON + HOUR,
    started_at=NOON + MINUTE,
    due_at=NOON + 2 * HOUR,
    defer_until=NOON + 3 * HOUR,
    external_ref="gh-7",
    source_system="github",
    ephemeral=True,
    no_history=True,
    pinned=True,
    is_template=True,
    metadata={"z": 1, "a": [1, 2.5, None, True, {"ü": "\n"}], "fleet-ish": "x", "empty": ""},
    extra={"wisp": False, "nested": {"deep": [[]]}},
    labels=("a", "b"),
    cwd="/tmp/x y",
    coder="claude",
    model="sonnet",
    account="work",
    workspace="worktree",
    repo="/r",
    base="main",
    branch="b",
    mode="headless",
    verify="make test",
    limits="{}",
    requires="tmux",
    batch="batch-1",
    workflow="w",
    stage="s",
    origin="bd",
    made_by="fleet-parent",
    path="/usr/bin",
    finding="verified",
    reason="because",
    failures=1,
    continues=2,
    fresh_starts=3,
    losses=4,
    waits=5,
    disproofs=6,
    fakes=7,
)


def test_task_is_returned_unchanged(store: Store) -> None:
    store.tasks.add(FULL)
    assert store.tasks.get(FULL.id) == FULL
    assert store.tasks.find(Filter()) == [FULL]


def test_task_with_default_fields_is_returned_unchanged(store: Store) -> None:
    task = a_task()
    store.tasks.add(task)
    assert store.tasks.get(task.id) == task


def test_every_field_can_be_changed_except_the_blocked_state(store: Store) -> None:
    store.tasks.add(Task(id=FULL.id, title="before", created_at=NOON, updated_at=NOON, labels=("old",)))
    with store.atomic():
        store.tasks.save(FULL.replace(is_blocked=True))
    assert store.tasks.get(FULL.id) == FULL


@pytest.mark.bd_in_soak
def test_task_is_never_added_as_blocked(store: Store) -> None:
    task = a_task(is_blocked=True)
    store.tasks.add(task)
    assert not store.tasks.get(task.id).is_blocked


def test_description_of_a_megabyte_is_returned_unchanged(store: Store) -> None:
    task = a_task(description="ü🚀\n'\"" * 125_000)
    store.tasks.add(task)
    assert len(task.description.encode()) > 1_000_000
    assert store.tasks.get(task.id).description == task.description


def test_timestamps_keep_their_microseconds_for_centuries(store: Store) -> None:
    instants = [NOON.replace(year=1970, microsecond=1), NOON.replace(microsecond=999_999), NOON.replace(year=2400)]
    for instant in instants:
        task = a_task(created_at=instant, due_at=instant)
        store.tasks.add(task)
        assert store.tasks.get(task.id) == task


def test_labels_are_sorted_and_unique(store: Store) -> None:
    task = a_task(labels=("zeta", "alpha", "ü", "Beta", "alpha", "with space,comma"))
    store.tasks.add(task)
    assert store.tasks.get(task.id).labels == ("Beta", "alpha", "with space,comma", "zeta", "ü")
    with store.atomic():
        store.tasks.save(store.tasks.get(task.id).replace(labels=("b", "a", "b")))
    assert store.tasks.get(task.id).labels == ("a", "b")
    with store.atomic():
        store.tasks.save(store.tasks.get(task.id).replace(labels=()))
    assert store.tasks.get(task.id).labels == ()


def test_duplicate_id_is_refused(store: Store) -> None:
    task = a_task(title="first")
    store.tasks.add(task)
    with pytest.raises(TaskExists, match=task.id):
        store.tasks.add(task.replace(title="second"))
    assert store.tasks.get(task.id).title == "first"


@pytest.mark.bd_in_soak
@pytest.mark.parametrize(
    "wrong", ["", "nope", "FLEET-A", "fleet-", "fleet-aa", "%", "*", "'; drop table tasks", "ü\x00"]
)
def test_task_is_found_only_by_its_exact_id(store: Store, wrong: str) -> None:
    store.tasks.add(a_task(id="fleet-a"))
    for call in (store.tasks.get, store.tasks.remove):
        with pytest.raises(TaskNotFound, match="no task"):
            call(wrong)
    with pytest.raises(TaskNotFound):
        store.tasks.save(a_task(id=wrong))
    with pytest.raises(TaskNotFound):
        store.comments.add(a_comment(wrong))
    with pytest.raises(TaskNotFound):
        store.claims.request_cancel(wrong, "stop")
    with pytest.raises(TaskNotFound):
        store.claims.take(wrong, "ada")
    assert store.tasks.count(Filter()) == {"": 1}


def test_removing_a_task_removes_its_comments_labels_and_edges(store: Store) -> None:
    gone, needed, dependent = a_task(labels=("x",)), a_task(), a_task()
    with store.atomic():
        for task in (gone, needed, dependent):
            store.tasks.add(task)
        store.edges.add(an_edge(gone, needed))
        store.edges.add(an_edge(dependent, gone))
        store.comments.add(a_comment(gone))
    store.tasks.remove(gone.id)
    assert [task.id for task in store.tasks.find(Filter(), sort="id")] == [needed.id, dependent.id]
    assert store.edges.find() == []
    assert store.comments.find([gone.id]) == []
    assert store.tasks.labels() == {}
    assert store.tasks.tallies([needed.id]) == {needed.id: Tally()}


def test_removed_id_can_be_used_again_without_old_data(store: Store) -> None:
    task = a_task(labels=("x",))
    store.tasks.add(task)
    store.comments.add(a_comment(task))
    store.tasks.remove(task.id)
    store.tasks.add(task.replace(labels=()))
    assert store.tasks.get(task.id).labels == ()
    assert store.comments.find([task.id]) == []


@pytest.mark.bd_in_soak
def test_labels_are_counted_over_all_tasks(store: Store) -> None:
    assert store.tasks.labels() == {}
    store.tasks.add(a_task(labels=("b", "a")))
    store.tasks.add(a_task(labels=("b",), status="closed"))
    assert list(store.tasks.labels().items()) == [("a", 1), ("b", 2)]


@pytest.mark.bd_in_soak
def test_tallies_count_edges_both_ways_and_comments(store: Store) -> None:
    one, two, three = a_task(), a_task(), a_task()
    for task in (one, two, three):
        store.tasks.add(task)
    store.edges.add(an_edge(one, two))
    store.edges.add(an_edge(one, three, "related"))
    store.edges.add(an_edge(three, two, PARENT_CHILD))
    store.comments.add(a_comment(two))
    assert store.tasks.tallies([one.id, two.id, "nope"]) == {
        one.id: Tally(dependencies=2, blockers=1),
        two.id: Tally(dependents=2, blocked=1, comments=1),
        "nope": Tally(),
    }
    assert store.tasks.tallies([]) == {}


@pytest.mark.bd_in_soak
def test_size_of_a_prefix_excludes_numbered_children(store: Store) -> None:
    for key in ("fleet-a", "fleet-b", "fleet-b.1", "fleet-b.1.2", "other-a", "fleetx-a"):
        store.tasks.add(a_task(id=key))
    assert (store.tasks.size("fleet"), store.tasks.size("other"), store.tasks.size("none"), store.tasks.size("fl")) == (
        2,
        1,
        0,
        0,
    )


def test_child_numbers_start_at_one_and_are_unique(store: Store) -> None:
    store.tasks.add(a_task(id="fleet-a"))
    numbers = []
    for _ in range(3):
        number = store.tasks.next_child("fleet-a")
        store.tasks.add(a_task(id=f"fleet-a.{number}"))
        numbers.append(number)
    store.tasks.remove("fleet-a.3")
    assert numbers == [1, 2, 3]
    assert store.tasks.next_child("fleet-a") == 4


def test_child_numbers_continue_after_the_highest(store: Store) -> None:
    with store.atomic():
        for key in ("fleet-a", "fleet-a.7", "fleet-a.7.90", "fleet-a.x", "fleet-ab.99", "fleet-a.10"):
            store.tasks.add(a_task(id=key))
    assert [
        store.tasks.next_child("fleet-a"),
        store.tasks.next_child("fleet-a"),
        store.tasks.next_child("fleet-a.7"),
    ] == [11, 12, 91]
