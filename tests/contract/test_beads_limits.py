"""Values that bd cannot hold are refused before anything is written. All other values survive a round trip."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import beads
from builders import FakeClock, a_task
from fleet.beads.store import BeadsStore
from fleet.core.bd_limits import number_faults
from fleet.core.errors import BadInput
from fleet.core.filter import Filter

both = pytest.mark.parametrize("version", beads.VERSIONS)


@pytest.fixture
def store(version: str, tmp_path: Path, clock: FakeClock) -> Iterator[BeadsStore]:
    opened = beads.store_in(tmp_path, version, clock)
    yield opened
    opened.close()


def exported(store: BeadsStore) -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [store.mirror.bd.program, "export", "--all"],
        env=store.mirror.bd.environment("ada"),
        capture_output=True,
        text=True,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {each["id"]: each for each in found}


@both
def test_bd_stores_accepted_values_and_changes_refused_ones(store: BeadsStore) -> None:
    held = {f"k{number}": value for number, value in enumerate(beads.HELD)}
    store.tasks.add(a_task(id="fleet-1", title="ü" * 250, metadata=held))
    found = exported(store)["fleet-1"]
    assert found["metadata"] == held and found["title"] == "ü" * 250
    numbers = [value for value in beads.CHANGED if value < 1e308]
    store.mirror.bd.run(
        "update", "fleet-1", "--metadata", json.dumps({f"c{at}": value for at, value in enumerate(numbers)})
    )
    kept = exported(store)["fleet-1"]["metadata"]
    for at, value in enumerate(numbers):
        assert kept[f"c{at}"] != value
        [fact] = number_faults({"x": value})
        assert fact.endswith(f"and would become {kept[f'c{at}']}") or "…" in fact
    assert store.tasks.get("fleet-1").metadata["c0"] == kept["c0"]
    store.tasks.save(store.tasks.get("fleet-1").replace(title="what bd changed itself is in nobody's way"))


@both
def test_unsupported_value_is_refused_and_writes_nothing(store: BeadsStore) -> None:
    task = a_task(id="fleet-1", metadata={"ns": 1})
    store.tasks.add(task)
    before = exported(store)
    changed = store.tasks.get("fleet-1").replace(metadata={"ns": 1794994930026341016})
    words = r"bd cannot hold fleet-1 \(metadata ns is 1794994930026341016 and would become 1794994930026341120\)"
    with pytest.raises(BadInput, match=words) as refused:
        store.tasks.save(changed)
    assert "as text" in refused.value.hint
    with (
        pytest.raises(BadInput, match=r"fleet-2 \(metadata deep\.ns\[0\] .*\); fleet-3 \(its title has 502 bytes"),
        store.atomic(),
    ):
        store.tasks.add(a_task(id="fleet-2", metadata={"deep": {"ns": [2**60 + 1]}}))
        store.tasks.add(a_task(id="fleet-3", title="ü" * 251))
        store.tasks.add(a_task(id="fleet-4"))
    assert exported(store) == before and [each.id for each in store.tasks.find(Filter())] == ["fleet-1"]
    store.tasks.save(changed.replace(metadata={"ns": "1794994930026341016"}))
    assert exported(store)["fleet-1"]["metadata"] == {"ns": "1794994930026341016"}
