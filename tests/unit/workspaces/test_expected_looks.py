"""Looks for somebody who will ask soon: used by those who say that one of just now will do, and by nobody else."""

import threading
import time

import pytest

from fleet.workspaces import sharing
from fleet.workspaces.sharing import Shared


class Counting:
    """A thing to look at: what is found is how often it was looked at."""

    def __init__(self) -> None:
        self.shared: Shared[int] = Shared()
        self.looks = 0
        self.fails = False
        self.may_end = threading.Event()
        self.may_end.set()

    def look(self) -> int:
        self.looks += 1
        found = self.looks
        self.may_end.wait(10)
        if self.fails:
            raise OSError("gone")
        return found

    def expect(self) -> None:
        self.shared.expect("key", self.look)

    def ask(self, *, recent: bool) -> int:
        return self.shared.look("key", self.look, recent=recent)


@pytest.fixture
def thing() -> Counting:
    return Counting()


def test_who_asks_soon_gets_what_was_looked_for_and_others_look_themselves(thing: Counting) -> None:
    thing.expect()
    assert thing.ask(recent=True) == 1
    assert thing.ask(recent=False) == 2
    assert thing.ask(recent=True) == 2 and thing.looks == 2


def test_one_that_is_under_way_is_waited_for_and_is_not_begun_twice(thing: Counting) -> None:
    thing.may_end.clear()
    expecting = [threading.Thread(target=thing.expect) for _ in range(3)]
    found: list[int] = []
    asking = threading.Thread(target=lambda: found.append(thing.ask(recent=True)))
    expecting[0].start()
    while not thing.looks:
        time.sleep(0.001)
    for thread in (*expecting[1:], asking):
        thread.start()
    expecting[1].join(10)  # there is nothing for it to wait for
    thing.may_end.set()
    for thread in (*expecting, asking):
        thread.join(10)
    assert (found, thing.looks) == ([1], 1)


def test_one_that_failed_or_is_too_old_is_no_use(thing: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    thing.fails = True
    with pytest.raises(OSError, match="gone"):
        thing.expect()
    thing.fails = False
    assert thing.ask(recent=True) == 2
    monkeypatch.setattr(sharing, "RECENT_SECONDS", 0.0)
    thing.expect()
    assert thing.ask(recent=True) == 4
    assert thing.shared._looks == {}, "what nobody will ask for is not kept"
