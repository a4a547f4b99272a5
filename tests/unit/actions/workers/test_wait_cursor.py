"""Marks: each end since a mark is reported once, and marks have a bounded size."""

from datetime import timedelta

import pytest

from builders import HOUR, MINUTE, FakeClock, a_task
from fleet.actions.workers import wait_cursor
from fleet.actions.workers.wait_cursor import MOST_ENDS, mark, mark_in
from fleet.assembly import Fleet
from fleet.core.task import Caller, Status
from fleet.home import Home
from stores import open_queue

SECOND, STATE = timedelta(seconds=1), "0123456789abcdef"


class Place:
    """A home whose clock the test controls."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = store = open_queue(self.clock)
        self.fleet = Fleet(Home("/nowhere"), store)

    def make(self, **given: str) -> str:
        task = a_task(origin="mcp", **given)
        self.store.tasks.add(task)
        return task.id

    def end(self, key: str, status: str = Status.CLOSED) -> None:
        with self.store.atomic():
            now = self.clock()
            self.store.tasks.save(self.store.tasks.get(key).moved(status, now).replace(updated_at=now))

    def heard(self, caller: Caller | None = None) -> wait_cursor.WaitCursor:
        """Return a mark after its way to a caller and back."""
        found = mark_in(mark(self.fleet, caller, STATE).text)
        assert found is not None
        return found

    def since(self, heard: wait_cursor.WaitCursor, caller: Caller | None = None) -> list[str]:
        return wait_cursor.ended_since(self.fleet, caller, heard)


def test_each_end_is_reported_only_by_marks_before_it() -> None:
    place = Place()
    first, second = place.make(), place.make()
    before = place.heard()
    place.end(first)
    between = place.heard()
    place.clock.advance(SECOND)
    place.end(second, Status.BLOCKED)
    after = place.heard()
    assert sorted(place.since(before)) == [first, second]
    assert (place.since(between), place.since(after)) == ([second], [])
    place.clock.advance(HOUR)
    assert (place.since(between), place.since(after), place.since(place.heard())) == ([second], [], [])


def test_task_that_ends_again_is_reported_again() -> None:
    place = Place()
    key = place.make()
    place.end(key, Status.BLOCKED)
    heard = place.heard()
    place.clock.advance(SECOND)
    place.end(key, Status.OPEN)
    assert (place.since(heard), wait_cursor.unfinished(place.fleet, None)) == ([], [key])
    place.end(key, Status.BLOCKED)
    assert place.since(heard) == [key]


def test_end_is_reported_when_the_clock_was_set_back() -> None:
    place = Place()
    key = place.make()
    heard = place.heard()
    place.clock.advance(-24 * HOUR)
    place.end(key)
    assert place.since(heard) == [key]


def test_no_end_is_missed_when_a_mark_cannot_hold_them_all() -> None:
    place = Place()
    keys = [place.make() for _ in range(MOST_ENDS + 5)]
    before = place.heard()
    for key in keys:
        place.clock.advance(timedelta(milliseconds=1))
        place.end(key)
    after = place.heard()
    assert len(after.text) < 1000
    assert (sorted(place.since(before)), sorted(place.since(after))) == (keys, keys[:5])
    place.clock.advance(2 * MINUTE)
    assert place.since(place.heard()) == []


def test_run_hears_only_of_tasks_that_its_task_created() -> None:
    place, caller = Place(), Caller(task_id="own", run_id="own-1", epoch=1)
    own, others, made = place.make(id="own"), place.make(), place.make(made_by="own")
    assert wait_cursor.unfinished(place.fleet, caller) == [made]
    heard = place.heard(caller)
    for key in (own, others, made):
        place.end(key)
    assert place.since(heard, caller) == [made]
    assert place.since(place.heard(caller), caller) == []
    assert wait_cursor.unfinished(place.fleet, Caller.over()) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        STATE,
        f"-{STATE}-",
        f"1-{STATE}",
        f"1-{STATE}-abc",
        f"{'f' * 15}-{STATE}-",
        f"1-{STATE}-\n",
        f"١-{STATE}-",
    ],
)
def test_other_text_is_no_mark(text: str) -> None:
    assert mark_in(text) is None
