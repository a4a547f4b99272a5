"""The real bd for tests: each version that `make test` built, and homes of their own, copied from one that was made."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from fleet.core.filter import Filter
from fleet.store.beads import BeadsQueue
from needs import require

#: Where `make test` put the programs: a folder for each version, with `bd` and a home that it made.
FOLDER = os.environ.get("FLEET_TEST_BD", "")
#: One of each family: claims that expire and are guarded, and those before.
NEW, OLD = "v1.3.0", "v1.1.2"


#: What bd cannot hold, by the tests of queues' common promises that it does not keep.
DIFFERENT = {
    "test_a_task_comes_back_exactly_as_it_was_added": "no task is both ephemeral and without history",
    "test_every_field_can_be_changed_but_the_blocked_state_which_is_the_queues_own": "the same",
    "test_child_numbers_go_on_after_the_highest_there_is": "children are counted only of a parent that is there",
    "test_a_circle_is_not_looked_for_when_the_caller_says_so": "bd always looks for circles",
    "test_settings_are_kept_until_they_are_forgotten": "bd has settings from the start, and checks what they say",
}
#: What `make test` runs of those tests with bd, a process for each write; `make soak` runs all of them.
ESSENTIAL = (
    "test_a_task_of_which_nothing_more_is_said_comes_back_exactly",
    "test_a_megabyte_of_description_comes_back_exactly",
    "test_labels_come_back_sorted_and_once_each",
    "test_a_removed_task_takes_its_comments_labels_and_edges_with_it",
    "test_comments_come_oldest_first_for_each_task_asked_for",
    "test_an_exception_takes_back_everything_done_inside",
    "test_reopening_what_is_needed_blocks_again",
    "test_waiting_for_any_child_ends_with_the_first_of_them",
    "test_an_edge_can_be_removed_once",
    "test_a_claim_says_who_holds_what_until_when",
    "test_the_most_urgent_comes_first_and_then_the_oldest",
    "test_what_is_assigned_to_somebody_can_be_taken_by_them_alone",
    "test_what_somebody_holds_cannot_be_taken",
    "test_a_verdict_puts_the_task_where_it_says_and_gives_the_claim_back",
    "test_a_task_sent_back_with_a_time_is_kept_out_until_then",
    "test_a_reopened_task_is_lost_to_whoever_held_it_before",
    "test_a_released_task_is_as_if_it_had_not_been_claimed",
    "test_only_expired_claims_are_reaped",
    "test_a_sound_queue_says_so_and_changes_nothing",
)


def sort_out(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests that are not for bd; those that take long with it are marked as a campaign."""
    left_out = []
    for item in items:
        spec = getattr(item, "callspec", None)
        if spec is None or not str(spec.params.get("queue")).startswith("beads"):
            continue
        name = str(getattr(item, "originalname", ""))
        if name in DIFFERENT:
            left_out.append(item)
        elif name not in ESSENTIAL:
            item.add_marker(pytest.mark.soak)
    return left_out


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
    queue.set_config("status.custom", "of_my_own")  # bd has no status and no type that it was not told of
    queue.set_config("types.custom", "merge-request,agent,role,rig")
    queue.count(Filter())
    queue.close()
    return home


def queue_in(home: Path, version: str, clock: Callable[[], datetime]) -> BeadsQueue:
    """A queue without tasks, in a folder of its own."""
    os.environ["FLEET_BD"] = program(version)
    shutil.copytree(_met(version), home / "home")
    return BeadsQueue(str(home / "home" / "fleet.db"), str(home / "home" / ".beads"), now=clock)


def beads_in(home: Path, version: str = NEW) -> Path:
    """A `.beads` folder with no tasks in a home."""
    program(version)
    shutil.copytree(Path(FOLDER, version, "home", ".beads"), home / ".beads")
    return home / ".beads"
