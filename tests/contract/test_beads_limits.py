"""What bd cannot hold is refused, with nothing written; all else comes back from it as it was."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import beads
from builders import FakeClock, a_task
from fleet.core.bd_limits import number_faults
from fleet.core.errors import BadInput
from fleet.core.filter import Filter
from fleet.store.beads import BeadsQueue

both = pytest.mark.parametrize("version", beads.VERSIONS)


@pytest.fixture
def queue(version: str, tmp_path: Path, clock: FakeClock) -> Iterator[BeadsQueue]:
    opened = beads.queue_in(tmp_path, version, clock)
    yield opened
    opened.close()


def exported(queue: BeadsQueue) -> dict[str, dict[str, Any]]:
    done = subprocess.run(
        [queue.bd.program, "export", "--all"],
        env=queue.bd.environment("ada"),
        capture_output=True,
        text=True,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {each["id"]: each for each in found}


@both
def test_bd_holds_what_is_not_refused_and_changes_what_would_be(queue: BeadsQueue) -> None:
    held = {f"k{number}": value for number, value in enumerate(beads.HELD)}
    queue.add(a_task(id="fleet-1", title="ü" * 250, metadata=held))
    found = exported(queue)["fleet-1"]
    assert found["metadata"] == held and found["title"] == "ü" * 250
    numbers = [value for value in beads.CHANGED if value < 1e308]
    queue.bd.run("update", "fleet-1", "--metadata", json.dumps({f"c{at}": value for at, value in enumerate(numbers)}))
    kept = exported(queue)["fleet-1"]["metadata"]
    for at, value in enumerate(numbers):
        assert kept[f"c{at}"] != value
        [fact] = number_faults({"x": value})
        assert fact.endswith(f"and would be {kept[f'c{at}']} there") or "…" in fact
    assert queue.get("fleet-1").metadata["c0"] == kept["c0"]
    queue.save(queue.get("fleet-1").replace(title="what bd changed itself is in nobody's way"))


@both
def test_what_bd_cannot_hold_is_refused_and_nothing_is_written(queue: BeadsQueue) -> None:
    task = a_task(id="fleet-1", metadata={"ns": 1})
    queue.add(task)
    before = exported(queue)
    changed = queue.get("fleet-1").replace(metadata={"ns": 1794994930026341016})
    words = r"bd cannot hold fleet-1 \(metadata ns is 1794994930026341016, and would be 1794994930026341120 there\)"
    with pytest.raises(BadInput, match=words) as refused:
        queue.save(changed)
    assert "as text" in refused.value.hint
    with (
        pytest.raises(BadInput, match=r"fleet-2 \(metadata deep\.ns\[0\] .*\); fleet-3 \(its title has 502 bytes"),
        queue.atomic(),
    ):
        queue.add(a_task(id="fleet-2", metadata={"deep": {"ns": [2**60 + 1]}}))
        queue.add(a_task(id="fleet-3", title="ü" * 251))
        queue.add(a_task(id="fleet-4"))
    assert exported(queue) == before and [each.id for each in queue.find(Filter())] == ["fleet-1"]
    queue.save(changed.replace(metadata={"ns": "1794994930026341016"}))
    assert exported(queue)["fleet-1"]["metadata"] == {"ns": "1794994930026341016"}
