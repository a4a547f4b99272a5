"""The real bd for tests: each version that `make test` built, and homes of their own, copied from one that was made."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from fleet.core.filter import Filter
from fleet.store.beads import SEEN, BeadsQueue
from needs import require

#: Where `make test` put the programs: a folder for each version, with `bd` and a home that it made.
FOLDER = os.environ.get("FLEET_TEST_BD", "")
#: One of each family: claims that expire and are guarded, and those before.
NEW, OLD = "v1.3.0", "v1.1.2"


#: What bd cannot hold, by the tests of queues' common promises that it does not keep: they are seen to fail.
DIFFERENT = {
    "test_a_task_comes_back_exactly_as_it_was_added": "no task is both ephemeral and without history",
    "test_every_field_can_be_changed_but_the_blocked_state_which_is_the_queues_own": "the same",
    "test_a_circle_is_not_looked_for_when_the_caller_says_so": "bd always looks for circles",
    "test_settings_are_kept_until_they_are_forgotten": "bd has settings from the start, and checks what they say",
    "test_sums_of_money_have_a_bound_too": "bd gives out no task that the same transaction made",
    "test_live_runs_are_told_oldest_first_of_one_owner_or_of_all": "bd gives no task to somebody without a name",
}
#: The same of a bd before 1.3 alone.
DIFFERENT_OLD = {
    "test_child_numbers_go_on_after_the_highest_there_is": "children are counted only of a parent that is there",
}
#: What `make test` runs with each bd: here the families differ.
WITH_BOTH = (
    "test_waiting_for_any_child_ends_with_the_first_of_them",
    "test_a_claim_says_who_holds_what_until_when",
    "test_what_is_assigned_to_somebody_can_be_taken_by_them_alone",
    "test_what_somebody_holds_cannot_be_taken",
    "test_a_task_sent_back_with_a_time_is_kept_out_until_then",
    "test_a_released_task_is_as_if_it_had_not_been_claimed",
    "test_only_expired_claims_are_reaped",
)
#: What `make test` runs with one of them, now this and now that by the name of the test.
WITH_ONE = (
    "test_a_task_of_which_nothing_more_is_said_comes_back_exactly",
    "test_a_megabyte_of_description_comes_back_exactly",
    "test_labels_come_back_sorted_and_once_each",
    "test_a_removed_task_takes_its_comments_labels_and_edges_with_it",
    "test_comments_come_oldest_first_for_each_task_asked_for",
    "test_an_exception_takes_back_everything_done_inside",
    "test_reopening_what_is_needed_blocks_again",
    "test_an_edge_can_be_removed_once",
    "test_the_most_urgent_comes_first_and_then_the_oldest",
    "test_a_verdict_puts_the_task_where_it_says_and_gives_the_claim_back",
    "test_a_reopened_task_is_lost_to_whoever_held_it_before",
    "test_what_a_person_closed_meanwhile_stays_closed",
    "test_tokens_differ_and_are_not_stored_in_clear",
    "test_a_sound_queue_says_so_and_changes_nothing",
    "test_nothing_is_written_under_a_claim_that_is_lost",
    "test_what_is_somebody_elses_stays_as_it_is",
    "test_a_run_does_not_end_its_own_task_by_its_word",
    "test_nothing_a_supervisor_works_on_is_given_back_or_deleted",
    "test_reading_is_free",
)
#: Files of which `make test` runs all with one of them: most of these write nothing that bd hears of.
FILES_WITH_ONE = (
    *("test_histories", "test_histories_flows", "test_histories_hosts", "test_histories_messages", "test_radar"),
    *("test_histories_questions", "test_histories_receipts", "test_histories_trust", "test_histories_workspaces"),
)
#: Tests that take a bd dozens of calls.
LONG = (
    "test_many_runs_are_folded_at_once_and_lost_ones_are_named",
    "test_runs_of_a_task_are_numbered_from_one",
    "test_ended_runs_are_counted_by_coder_model_and_finding",
    "test_no_supervisor_no_run_no_objection",
)


def sort_out(items: list[pytest.Item]) -> None:
    """Mark the tests that take too long with bd as a campaign, and those of what it cannot hold as bound to fail."""
    for item in items:
        spec = getattr(item, "callspec", None)
        kind = str(spec.params.get("queue")) if spec is not None else ""
        if not kind.startswith("beads"):
            continue
        name = str(getattr(item, "originalname", ""))
        different = DIFFERENT | DIFFERENT_OLD if kind == "beads-old" else DIFFERENT
        if name in different:
            item.add_marker(pytest.mark.xfail(reason=f"bd: {different[name]}", strict=True))
        if name in different or not _is_quick(item, name, kind):
            item.add_marker(pytest.mark.soak)


def _is_quick(item: pytest.Item, name: str, kind: str) -> bool:
    """Whether `make test` has time for a test with this bd."""
    if name in WITH_BOTH:
        return True
    if name not in WITH_ONE and (item.path.stem not in FILES_WITH_ONE or name in LONG):
        return False
    chosen = zlib.crc32(item.name.replace(kind, "").encode()) % 2
    return kind == ("beads", "beads-old")[chosen]


def program(version: str = NEW) -> str:
    """The bd of a version; without it the test is not exercised."""
    path = Path(FOLDER, version, "bd")
    require(path.is_file() if FOLDER else False, f"bd {version}")
    return str(path)


@functools.cache
def _met(version: str) -> Path:
    """A home whose queue was opened once, so that the next one need not ask bd what it is."""
    os.environ["FLEET_BD"] = program(version)
    home = Path(tempfile.mkdtemp(prefix="fleet-bd-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    queue = BeadsQueue(str(home / "fleet.db"), str(beads_in(home, version)), make=True)
    queue.set_config("status.custom", "of_my_own,mine,review")  # bd has no status and no type that it was not told of
    queue.set_config("types.custom", "of-my-own,merge-request,agent,role,rig")
    queue.set_config(SEEN, None)
    queue.close()
    again = BeadsQueue(str(home / "fleet.db"), str(home / ".beads"))
    again.count(Filter())  # it takes all for others' writes, and so need not look a second time
    again.close()
    return home


def queue_in(home: Path, version: str, clock: Callable[[], datetime]) -> BeadsQueue:
    """A queue without tasks, in a folder of its own."""
    os.environ["FLEET_BD"] = program(version)
    shutil.copytree(_met(version), home, dirs_exist_ok=True)
    return BeadsQueue(str(home / "fleet.db"), str(home / ".beads"), now=clock)


def beads_in(home: Path, version: str = NEW) -> Path:
    """A `.beads` folder with no tasks in a home."""
    program(version)
    shutil.copytree(Path(FOLDER, version, "home", ".beads"), home / ".beads")
    return home / ".beads"
