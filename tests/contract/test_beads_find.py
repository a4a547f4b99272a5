"""Every condition of finding, asked at once of tasks that went to bd, and of a home that has them from bd alone."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import beads
from builders import FakeClock, a_task
from contract.test_queues_find import CASES, Case
from fleet.core.dependency import Edge
from fleet.core.filter import Filter
from fleet.core.task import Task
from fleet.store.base import Queue
from fleet.store.beads import BeadsQueue

#: bd keeps whole seconds: what lies a fraction of one before or after an instant is found on its other side.
ROUNDED = (
    *("created_after", "created_before", "updated_after", "updated_before", "closed_after", "closed_before"),
    *("defer_after", "defer_before", "due_after", "due_before", "overdue"),
)


class Renamed:
    """A queue in which each case has ids of its own."""

    def __init__(self, queue: Queue, number: int) -> None:
        self._queue, self._number = queue, number

    def add(self, task: Task) -> None:
        self._queue.add(task.replace(id=self.key(task.id)))

    def link(self, edge: Edge) -> None:
        self._queue.link(edge.replace(task=self.key(edge.task), needs=self.key(edge.needs)))

    def key(self, given: str) -> str:
        return f"{given}-{self._number}"

    def wanted(self, name: str, value: Any) -> Any:
        """The value of a condition, with the ids that this case has."""
        if name == "ids":
            return tuple(self.key(each) for each in value)
        return self.key(value) if name in ("id_after", "parent", "under") else value


def cases() -> Iterator[tuple[int, str, Case]]:
    numbered = [(name, case) for name, group in CASES.items() for case in group]
    for number, (name, case) in enumerate(numbered):
        yield number, name, case


def ids(case: Case) -> tuple[str, str]:
    return case.fits.get("id", "fleet-fits"), case.misses.get("id", "fleet-misses")


def is_told(name: str, case: Case) -> bool:
    """Whether bd tells what a case is about: not who holds what here, what it does not export, nor parts of seconds."""
    given = case.fits.keys() | case.misses.keys()
    metadata = {**case.fits.get("metadata", {}), **case.misses.get("metadata", {})}
    ours = any(key.startswith("fleet.") for key in metadata)  # in bd that is fleet's own field
    return name not in ROUNDED and not given & {"claim_owner", "ephemeral"} and not ours


def wrongly_found(queue: Queue, *, only_told: bool) -> list[str]:
    """The conditions that do not find what fits, or find what does not."""
    wrong = []
    for number, name, case in cases():
        if only_told and not is_told(name, case):
            continue
        renamed = Renamed(queue, number)
        fits, misses = (renamed.key(each) for each in ids(case))
        for value, right, other in ((renamed.wanted(name, case.wanted), fits, misses), (False, misses, fits)):
            if value is False and case.wanted is not True:
                continue
            wanted: dict[str, Any] = {name: value}
            found = queue.find(Filter(**wanted))
            keys = {task.id for task in found}
            if right not in keys or other in keys or queue.count(Filter(**wanted))[""] != len(found):
                wrong.append(f"{name}-{number}={value}")
    return wrong


@pytest.mark.parametrize("version", [beads.NEW, beads.OLD])
def test_every_condition_finds_what_fits_among_the_tasks_that_bd_has(
    tmp_path: Path, clock: FakeClock, version: str
) -> None:
    told = {name for _, name, case in cases() if is_told(name, case)}
    assert set(CASES) - told == {"ephemeral", *ROUNDED}
    with closing(beads.queue_in(tmp_path, version, clock)) as queue:
        with queue.atomic():
            for number, _, case in cases():
                renamed: Any = Renamed(queue, number)
                renamed.add(a_task(**{"id": "fleet-fits", "title": "one", **case.fits}))
                renamed.add(a_task(**{"id": "fleet-misses", "title": "other", **case.misses}))
                case.prepare(renamed)
        assert wrongly_found(queue, only_told=False) == []
        with closing(BeadsQueue(str(tmp_path / "other.db"), queue.folder, make=True, now=clock)) as other:
            assert wrongly_found(other, only_told=True) == []
