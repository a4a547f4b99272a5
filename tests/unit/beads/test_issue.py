"""Tasks in bd's JSON: they survive a round trip, and fields unknown to bd stay in fleet."""

from datetime import timedelta
from typing import Any

import pytest

from builders import HOUR, NOON, a_comment, a_task, an_edge
from fleet.beads.format import comments_from, edges_from, is_issue, line_of, task_from
from fleet.core.jsontext import decode
from fleet.core.task import Task

FULL = a_task(
    title="quotes \" ' and -- and 🚀",
    description="d\n",
    status="closed",
    closed_at=NOON + HOUR,
    close_reason="done",
    assignee="ada",
    estimated_minutes=90,
    due_at=NOON + 2 * HOUR,
    labels=("a", "b"),
    metadata={"z": [1, None, {"ü": "\n"}]},
    extra={"sender": "bob"},
    cwd="/x y",
    coder="claude",
    requires='["gpu"]',
    reason="because",
)


def told(task: Task, **changes: Any) -> dict[str, Any]:
    """Return a task as bd exports it, in whole seconds."""
    found: dict[str, Any] = decode(line_of(task))
    rounded = {name: f"{value[:19]}Z" for name, value in found.items() if name.endswith("_at")}
    return {**found, **rounded, **changes}


def test_task_survives_a_round_trip_through_bd_with_exact_timestamps() -> None:
    assert task_from(told(FULL), FULL, NOON) == FULL
    by_its_own_clock = told(FULL, updated_at="2026-03-05T12:00:00Z", closed_at="2026-03-05T12:00:00Z")
    assert task_from(by_its_own_clock, FULL, NOON) == FULL


def test_home_without_the_task_reads_all_fields_from_bd() -> None:
    whole = {name: getattr(FULL, name).replace(microsecond=0) for name in ("created_at", "updated_at", "closed_at")}
    assert task_from(told(FULL), None, NOON) == FULL.replace(**whole, due_at=NOON.replace(microsecond=0) + 2 * HOUR)


def test_edges_and_comments_survive_a_round_trip() -> None:
    task, other = a_task(), a_task()
    edge = an_edge(task, other, "waits-for", metadata='{"gate": "any-children"}', created_by="ada")
    comment = a_comment(task)
    found = decode(line_of(task, [edge], [comment]))
    assert edges_from(found, NOON) == {(task.id, other.id): edge}
    assert comments_from(found, NOON) == [comment]


def test_fields_unknown_to_bd_are_kept() -> None:
    held = a_task().claimed("host", NOON, NOON + HOUR).replace(run_id="r", failures=2, path="/bin")
    found = task_from(told(held, title="renamed", updated_at="2026-03-01T13:00:00Z"), held, NOON)
    assert found == held.replace(title="renamed", updated_at=found.updated_at)
    assert found.updated_at > held.updated_at


def test_claim_ends_when_another_actor_holds_the_task_in_bd() -> None:
    held = a_task().claimed("host", NOON, NOON + HOUR)
    lost = task_from(told(held, assignee="ada"), held, NOON)
    assert (lost.claim_owner, lost.is_supervised, lost.epoch) == ("ada", False, held.epoch + 1)


@pytest.mark.parametrize("changes", [{"status": "closed"}, {"status": "blocked"}, {"status": "open", "assignee": ""}])
def test_task_moved_by_a_person_stays_claimed(changes: dict[str, str]) -> None:
    held = a_task().claimed("host", NOON, NOON + HOUR)
    found = task_from(told(held, **changes), held, NOON)
    assert (found.status, found.claim_owner, found.epoch) == (changes["status"], "host", held.epoch)


def test_taking_and_reopening_in_bd_start_new_epochs() -> None:
    free = a_task()
    taken = task_from(told(free, status="in_progress", assignee="ada"), free, NOON)
    assert (taken.claim_owner, taken.epoch) == ("ada", 1)
    back = task_from(told(free, status="open"), taken, NOON)
    assert (back.claim_owner, back.epoch) == ("", 1)
    closed = free.closed("done", NOON)
    assert task_from(told(free), closed, NOON).epoch == closed.epoch + 1


@pytest.mark.parametrize(
    "line",
    [
        {"_type": "memory", "key": "k", "value": "v"},
        {"id": "../../etc", "title": "t"},
        {"id": "-rf", "title": "t"},
        {"id": "a b", "title": "t"},
        {"id": "x" * 300, "title": "t"},
        {"id": "fleet-1", "title": "t", "status": "tombstone"},
        {"id": 7, "title": "t"},
        {"id": "fleet-1"},
        ["fleet-1"],
        None,
    ],
)
def test_invalid_issue_is_skipped(line: Any) -> None:
    assert not is_issue(line)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("priority", 99),
        ("priority", True),
        ("labels", [1, "", None]),
        ("metadata", "text"),
        ("created_at", "yesterday"),
        ("due_at", "0001-01-01T00:00:00Z"),
        ("dependencies", [1, {}]),
        ("comments", ["x", {}]),
        ("assignee", {"name": 1}),
        ("title", "nul \0 in it"),
    ],
)
def test_odd_values_are_accepted(field: str, value: Any) -> None:
    found = {"id": "fleet-1", "title": "t", "priority": 2, field: value}
    task = task_from(found, None, NOON)
    assert 0 <= task.priority <= 4 and "\0" not in task.title and task.created_at <= NOON + timedelta(days=1)
    assert edges_from(found, NOON) == {} and comments_from(found, NOON) == []
