"""What every queue promises about keeping tasks, comments and settings."""

import pytest

from builders import HOUR, MINUTE, NOON, FakeClock, a_comment, a_task, an_edge
from fleet.core.dependency import PARENT_CHILD
from fleet.core.errors import TaskExists, TaskNotFound
from fleet.core.filter import Filter
from fleet.core.tally import Tally
from fleet.core.task import Task
from fleet.store.base import Queue

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


def test_a_task_comes_back_exactly_as_it_was_added(queue: Queue) -> None:
    queue.add(FULL)
    assert queue.get(FULL.id) == FULL
    assert queue.find(Filter()) == [FULL]


def test_a_task_of_which_nothing_more_is_said_comes_back_exactly(queue: Queue) -> None:
    task = a_task()
    queue.add(task)
    assert queue.get(task.id) == task


def test_every_field_can_be_changed_but_the_blocked_state_which_is_the_queues_own(queue: Queue) -> None:
    queue.add(Task(id=FULL.id, title="before", created_at=NOON, updated_at=NOON, labels=("old",)))
    with queue.atomic():
        queue.save(FULL.replace(is_blocked=True))
    assert queue.get(FULL.id) == FULL


@pytest.mark.bd_in_soak
def test_a_task_is_never_added_as_blocked(queue: Queue) -> None:
    task = a_task(is_blocked=True)
    queue.add(task)
    assert not queue.get(task.id).is_blocked


def test_a_megabyte_of_description_comes_back_exactly(queue: Queue) -> None:
    task = a_task(description="ü🚀\n'\"" * 125_000)
    queue.add(task)
    assert len(task.description.encode()) > 1_000_000
    assert queue.get(task.id).description == task.description


def test_instants_keep_their_microseconds_for_centuries(queue: Queue) -> None:
    instants = [NOON.replace(year=1970, microsecond=1), NOON.replace(microsecond=999_999), NOON.replace(year=2400)]
    for instant in instants:
        task = a_task(created_at=instant, due_at=instant)
        queue.add(task)
        assert queue.get(task.id) == task


def test_labels_come_back_sorted_and_once_each(queue: Queue) -> None:
    task = a_task(labels=("zeta", "alpha", "ü", "Beta", "alpha", "with space,comma"))
    queue.add(task)
    assert queue.get(task.id).labels == ("Beta", "alpha", "with space,comma", "zeta", "ü")
    with queue.atomic():
        queue.save(queue.get(task.id).replace(labels=("b", "a", "b")))
    assert queue.get(task.id).labels == ("a", "b")
    with queue.atomic():
        queue.save(queue.get(task.id).replace(labels=()))
    assert queue.get(task.id).labels == ()


def test_an_id_is_given_once(queue: Queue) -> None:
    task = a_task(title="first")
    queue.add(task)
    with pytest.raises(TaskExists, match=task.id):
        queue.add(task.replace(title="second"))
    assert queue.get(task.id).title == "first"


@pytest.mark.bd_in_soak
@pytest.mark.parametrize(
    "wrong", ["", "nope", "FLEET-A", "fleet-", "fleet-aa", "%", "*", "'; drop table tasks", "ü\x00"]
)
def test_only_the_exact_id_finds_a_task(queue: Queue, wrong: str) -> None:
    queue.add(a_task(id="fleet-a"))
    for call in (queue.get, queue.remove):
        with pytest.raises(TaskNotFound, match="no task"):
            call(wrong)
    with pytest.raises(TaskNotFound):
        queue.save(a_task(id=wrong))
    with pytest.raises(TaskNotFound):
        queue.comment(a_comment(wrong))
    with pytest.raises(TaskNotFound):
        queue.request_cancel(wrong, "stop")
    with pytest.raises(TaskNotFound):
        queue.take(wrong, "ada")
    assert queue.count(Filter()) == {"": 1}


def test_a_removed_task_takes_its_comments_labels_and_edges_with_it(queue: Queue) -> None:
    gone, needed, dependent = a_task(labels=("x",)), a_task(), a_task()
    with queue.atomic():
        for task in (gone, needed, dependent):
            queue.add(task)
        queue.link(an_edge(gone, needed))
        queue.link(an_edge(dependent, gone))
        queue.comment(a_comment(gone))
    queue.remove(gone.id)
    assert [task.id for task in queue.find(Filter(), sort="id")] == [needed.id, dependent.id]
    assert queue.edges() == []
    assert queue.comments([gone.id]) == []
    assert queue.labels() == {}
    assert queue.tallies([needed.id]) == {needed.id: Tally()}


def test_a_removed_id_can_be_used_again_and_starts_afresh(queue: Queue) -> None:
    task = a_task(labels=("x",))
    queue.add(task)
    queue.comment(a_comment(task))
    queue.remove(task.id)
    queue.add(task.replace(labels=()))
    assert queue.get(task.id).labels == ()
    assert queue.comments([task.id]) == []


def test_comments_come_oldest_first_for_each_task_asked_for(queue: Queue) -> None:
    one, other, third = a_task(), a_task(), a_task()
    with queue.atomic():
        for task in (one, other, third):
            queue.add(task)
    late = a_comment(one, created_at=NOON + HOUR, text="ü\n🚀")
    early = a_comment(one, created_at=NOON)
    elsewhere = a_comment(other, author="")
    for comment in (late, early, elsewhere, a_comment(third)):
        queue.comment(comment)
    assert queue.comments([one.id]) == [early, late]
    assert queue.comments([other.id, one.id, "nope"]) == [early, late, elsewhere]
    assert queue.comments([]) == []


@pytest.mark.bd_in_soak
def test_labels_are_counted_over_all_tasks(queue: Queue) -> None:
    assert queue.labels() == {}
    queue.add(a_task(labels=("b", "a")))
    queue.add(a_task(labels=("b",), status="closed"))
    assert list(queue.labels().items()) == [("a", 1), ("b", 2)]


@pytest.mark.bd_in_soak
def test_tallies_count_edges_both_ways_and_comments(queue: Queue) -> None:
    one, two, three = a_task(), a_task(), a_task()
    for task in (one, two, three):
        queue.add(task)
    queue.link(an_edge(one, two))
    queue.link(an_edge(one, three, "related"))
    queue.link(an_edge(three, two, PARENT_CHILD))
    queue.comment(a_comment(two))
    assert queue.tallies([one.id, two.id, "nope"]) == {
        one.id: Tally(dependencies=2, blockers=1),
        two.id: Tally(dependents=2, blocked=1, comments=1),
        "nope": Tally(),
    }
    assert queue.tallies([]) == {}


@pytest.mark.bd_in_soak
def test_the_size_of_a_prefix_leaves_numbered_children_out(queue: Queue) -> None:
    for key in ("fleet-a", "fleet-b", "fleet-b.1", "fleet-b.1.2", "other-a", "fleetx-a"):
        queue.add(a_task(id=key))
    assert (queue.size("fleet"), queue.size("other"), queue.size("none"), queue.size("fl")) == (2, 1, 0, 0)


def test_children_are_numbered_from_one_and_no_number_comes_twice(queue: Queue) -> None:
    queue.add(a_task(id="fleet-a"))
    numbers = []
    for _ in range(3):
        number = queue.next_child("fleet-a")
        queue.add(a_task(id=f"fleet-a.{number}"))
        numbers.append(number)
    queue.remove("fleet-a.3")
    assert numbers == [1, 2, 3]
    assert queue.next_child("fleet-a") == 4


def test_child_numbers_go_on_after_the_highest_there_is(queue: Queue) -> None:
    with queue.atomic():
        for key in ("fleet-a", "fleet-a.7", "fleet-a.7.90", "fleet-a.x", "fleet-ab.99", "fleet-a.10"):
            queue.add(a_task(id=key))
    assert [queue.next_child("fleet-a"), queue.next_child("fleet-a"), queue.next_child("fleet-a.7")] == [11, 12, 91]


def test_settings_are_kept_until_they_are_forgotten(queue: Queue) -> None:
    assert queue.config() == {}
    queue.set_config("status.custom", "review:wip")
    queue.set_config("issue_prefix", "ü '\"")
    queue.set_config("status.custom", "")
    assert queue.config() == {"issue_prefix": "ü '\"", "status.custom": ""}
    queue.set_config("status.custom", None)
    queue.set_config("never.made", None)
    assert queue.config() == {"issue_prefix": "ü '\""}


@pytest.mark.bd_in_soak
def test_the_queues_clock_is_the_one_it_was_given(queue: Queue, clock: FakeClock) -> None:
    clock.advance(HOUR)
    assert queue.now() == NOON + HOUR


@pytest.mark.bd_in_soak
def test_a_queue_can_be_closed_twice(queue: Queue) -> None:
    queue.close()
    queue.close()
