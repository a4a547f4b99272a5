"""The rules of a task's status."""

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest

from builders import a_task
from fleet.core.errors import AlreadyClaimed, NotClaimable
from fleet.core.patch import Patch, with_metadata
from fleet.core.task import CATEGORIES, Status, Verdict

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
LATER = NOW + timedelta(hours=1)


def test_task_has_a_closing_time_exactly_when_it_is_closed() -> None:
    for before, after in product(CATEGORIES, CATEGORIES):
        task = a_task().moved(before, NOW).moved(after, LATER)
        assert task.status == after, before
        assert (task.closed_at is not None) == (after == Status.CLOSED), (before, after)


def test_start_time_is_set_once() -> None:
    task = a_task().moved(Status.IN_PROGRESS, NOW).moved(Status.OPEN, NOW).moved(Status.IN_PROGRESS, LATER)
    assert task.started_at == NOW


def test_reopening_clears_the_end_and_fences_the_holder() -> None:
    closed = a_task(assignee="alice", defer_until=LATER).closed("done", NOW)
    task = closed.reopened(LATER)
    assert (task.status, task.closed_at, task.close_reason, task.defer_until) == (Status.OPEN, None, "", None)
    assert (task.assignee, task.epoch) == ("alice", closed.epoch + 1)


def test_closing_twice_keeps_the_first_reason() -> None:
    assert a_task().closed("first", NOW).closed("second", LATER).close_reason == "first"


def test_take_is_idempotent_for_the_same_actor() -> None:
    taken = a_task().taken("alice", NOW)
    assert (taken.status, taken.assignee, taken.claim_owner, taken.epoch) == ("in_progress", "alice", "alice", 1)
    assert taken.taken("alice", LATER) == taken


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"assignee": "bob"}, AlreadyClaimed),
        ({"claim_owner": "host"}, AlreadyClaimed),
        ({"status": Status.BLOCKED}, NotClaimable),
        ({"status": Status.CLOSED, "closed_at": NOW}, NotClaimable),
    ],
)
def test_taken_or_closed_task_cannot_be_taken(changes: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        a_task(**changes).taken("alice", NOW)


def test_reopening_by_status_releases_manual_claims_but_not_those_of_a_supervisor() -> None:
    by_hand = a_task().taken("alice", NOW)
    assert by_hand.moved(Status.OPEN, LATER).claim_owner == ""
    supervised = a_task().claimed("host", NOW, LATER)
    assert supervised.moved(Status.BLOCKED, LATER).claim_owner == "host"


def test_claim_clears_the_state_of_the_last_run() -> None:
    used = a_task(handed_in_at=NOW, hand_in_reason="x", cancel_requested_at=NOW, cancel_reason="y", defer_until=NOW)
    task = used.claimed("host", NOW, LATER)
    assert (task.handed_in_at, task.hand_in_reason, task.cancel_requested_at, task.cancel_reason) == (
        None,
        "",
        None,
        "",
    )
    assert (task.defer_until, task.claim_expires_at, task.epoch) == (None, LATER, 1)


@pytest.mark.parametrize("status", [Status.OPEN, Status.BLOCKED, Status.CLOSED, Status.DEFERRED])
def test_verdict_releases_the_claim_and_updates_the_counters(status: str) -> None:
    task = a_task(failures=1).claimed("host", NOW, LATER)
    settled = Verdict(status=status, reason="why", failures=1, not_before=LATER).on(task, NOW)
    assert (settled.status, settled.reason, settled.failures) == (status, "why", 2)
    assert (settled.claim_owner, settled.assignee, settled.claim_expires_at) == ("", "", None)
    assert settled.epoch == task.epoch


def test_closing_verdict_gives_a_reason() -> None:
    settled = Verdict(status=Status.CLOSED, reason="verified").on(a_task().claimed("host", NOW, LATER), NOW)
    assert (settled.close_reason, settled.closed_at) == ("verified", NOW)


def test_task_stays_closed_when_a_person_closed_it_meanwhile() -> None:
    task = a_task().claimed("host", NOW, LATER).closed("not needed", NOW)
    settled = Verdict(status=Status.OPEN, reason="again").on(task, LATER)
    assert (settled.status, settled.close_reason) == (Status.CLOSED, "not needed")


def test_patch_changes_labels_notes_and_metadata_together() -> None:
    patch = Patch(
        fields={"title": "new"},
        add_labels=("b",),
        remove_labels=("a",),
        append_notes="more",
        metadata={"team": "x", "fleet.coder": "codex"},
        unset_metadata=("old",),
    )
    task = patch.on(a_task(labels=("a",), notes="first", metadata={"old": 1}), NOW)
    assert (task.title, task.labels, task.notes) == ("new", ("b",), "first\nmore")
    assert (task.metadata, task.coder, task.updated_at) == ({"team": "x"}, "codex", NOW)


def test_deferring_hides_an_open_task_and_undeferring_reopens_it() -> None:
    deferred = Patch(defer_until=LATER).on(a_task(), NOW)
    assert (deferred.status, deferred.defer_until) == (Status.DEFERRED, LATER)
    opened = Patch(undefer=True).on(deferred, NOW)
    assert (opened.status, opened.defer_until) == (Status.OPEN, None)
    assert Patch(defer_until=NOW).on(a_task(), LATER).status == Status.OPEN


def test_unknown_fleet_keys_stay_in_the_metadata() -> None:
    task = with_metadata(a_task(), {"fleet.unheard": "of", "fleet.cwd": "/src"})
    assert (task.metadata, task.cwd) == ({"fleet.unheard": "of"}, "/src")
    assert with_metadata(task, {}, ("fleet.cwd",)).cwd == ""
