"""All conditions of a filter, with tasks that were written to bd and with a home that read them from bd."""

from contextlib import closing
from pathlib import Path

import pytest

import beads
from builders import FakeClock
from contract.test_store_tasks_find import CASES, NUMBERED, Case, fill, wrongly_found
from fleet.beads.store import BeadsStore

#: bd stores whole seconds. A condition a fraction of a second beside a time gives another result after rounding.
ROUNDED = (
    *("created_after", "created_before", "updated_after", "updated_before", "closed_after", "closed_before"),
    *("defer_after", "defer_before", "due_after", "due_before", "overdue"),
)


def is_told(name: str, case: Case) -> bool:
    """Return True if bd exports all fields of a case. Claims and fractions of seconds are not exported."""
    given = case.fits.keys() | case.misses.keys()
    return name not in ROUNDED and not given & {"claim_owner", "ephemeral"} and not names_a_field(case)


def names_a_field(case: Case) -> bool:
    """Return True if a case has metadata that bd cannot tell from a field of fleet."""
    metadata = {**case.fits.get("metadata", {}), **case.misses.get("metadata", {})}
    return any(key.startswith("fleet.") for key in metadata)


@pytest.mark.parametrize("version", beads.VERSIONS)
def test_each_condition_finds_the_matching_tasks_of_bd(tmp_path: Path, clock: FakeClock, version: str) -> None:
    assert set(CASES) - {name for _, (name, case) in NUMBERED if is_told(name, case)} == {"ephemeral", *ROUNDED}
    with closing(beads.store_in(tmp_path, version, clock)) as store:
        fill(store)
        assert wrongly_found(store, lambda name, case: names_a_field(case)) == []
        with closing(BeadsStore(str(tmp_path / "other.db"), store.mirror.folder, make=True, now=clock)) as other:
            assert wrongly_found(other, lambda name, case: not is_told(name, case)) == []
