"""The real bd for tests: each version that `make test` built, and homes copied from a prepared one."""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import leftovers
from fleet.beads.mirror import SEEN
from fleet.beads.store import BeadsStore
from fleet.core.filter import Filter
from needs import require

#: The folder in which `make test` put the programs: for each version, `bd` and a home that it made.
FOLDER = os.environ.get("FLEET_TEST_BD", "")
#: One version of each family: with expiring, guarded claims, and without.
NEW, OLD = "v1.3.0", "v1.1.2"
#: Parameters for a test with each version. Only `make soak` runs the older one.
VERSIONS = [NEW, pytest.param(OLD, marks=pytest.mark.soak("queues"))]

#: Promises of queues that bd cannot keep, by the name of their common test. These tests must fail.
DIFFERENT = {
    "test_task_is_returned_unchanged": "no task is both ephemeral and without history",
    "test_every_field_can_be_changed_except_the_blocked_state": "the same",
    "test_cycle_check_can_be_skipped_by_the_caller": "bd always looks for circles",
    "test_settings_are_kept_until_they_are_deleted": "bd has settings from the start, and checks what they say",
    "test_sum_of_costs_has_an_upper_bound": "bd gives out no task that the same transaction made",
    "test_live_runs_are_returned_oldest_first_by_owner": "bd gives no task to somebody without a name",
}
#: More such promises for a bd before 1.3.
DIFFERENT_OLD = {
    "test_child_numbers_continue_after_the_highest": "children are counted only of a parent that is there",
}

#: Values that bd returns unchanged in the metadata of a task.
HELD: list[Any] = [
    0,
    -1,
    3,
    True,
    None,
    "1794994930026341016",
    0.1,
    1 / 3,
    1e15 + 0.5,
    5e-324,
    -0.0,
    2**53,
    2**53 + 2,
    1e16,
    2**60,
]
HELD += [-(2**63), 10**18, 10**22, 10**23, 1e21, 1794994930026341120, {"a": [1, {"b": 2.5}]}, []]
#: Values that bd changes or refuses.
CHANGED = [2**53 + 1, -(2**53) - 1, 1794994930026341016, 2**63 - 1, 2**63, 2**64 - 1, 2**70, 1e23, 1.5e300, 10**400]


def sort_out(items: list[pytest.Item]) -> None:
    """Mark tests with beads: some run only in `make soak`, and those of DIFFERENT must fail."""
    for item in items:
        spec = getattr(item, "callspec", None)
        kind = str(spec.params.get("store")) if spec is not None else ""
        if not kind.startswith("beads"):
            continue
        if kind == "beads-old" or item.get_closest_marker("bd_in_soak"):
            item.add_marker(pytest.mark.soak("queues"))
        different = DIFFERENT | DIFFERENT_OLD if kind == "beads-old" else DIFFERENT
        name = str(getattr(item, "originalname", ""))
        if name in different:
            item.add_marker(pytest.mark.xfail(reason=f"bd: {different[name]}", strict=True))


def program(version: str = NEW) -> str:
    """Return the path of bd in this version. Skips the test if bd is missing."""
    path = Path(FOLDER, version, "bd")
    require(path.is_file() if FOLDER else False, f"bd {version}")
    return str(path)


@functools.cache
def _met(version: str) -> Path:
    """Return a home whose store was opened once, so that later stores need not ask bd about itself."""
    os.environ["FLEET_BD"] = program(version)
    home = Path(tempfile.mkdtemp(prefix="fleet-bd-"))
    leftovers.at_end.callback(shutil.rmtree, home, ignore_errors=True)
    store = BeadsStore(str(home / "fleet.db"), str(beads_in(home, version)), make=True)
    store.config.set("status.custom", "of_my_own,mine,review")  # bd has only statuses and types that were configured
    store.config.set("types.custom", "of-my-own,merge-request,agent,role,rig")
    store.config.set(SEEN, None)
    store.close()
    again = BeadsStore(str(home / "fleet.db"), str(home / ".beads"))
    again.mirror.bd.run("flatten", "--force")  # otherwise each call reads the forty commits that made the tables
    again.tasks.count(Filter())  # counts all changes as those of others, so that a second read is unnecessary
    again.close()
    return home


def store_in(home: Path, version: str, clock: Callable[[], datetime]) -> BeadsStore:
    """Return a store without tasks in a new folder."""
    os.environ["FLEET_BD"] = program(version)
    shutil.copytree(_met(version), home, dirs_exist_ok=True)
    return BeadsStore(str(home / "fleet.db"), str(home / ".beads"), now=clock)


def beads_in(home: Path, version: str = NEW) -> Path:
    """Put a `.beads` folder without tasks into a home. Return the folder."""
    program(version)
    shutil.copytree(Path(FOLDER, version, "home", ".beads"), home / ".beads")
    return home / ".beads"
