"""The pipe that wakes a supervisor: what is written is what is read, in whatever order, and nonsense does no harm."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet import wake
from fleet.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(str(tmp_path))


@pytest.fixture
def pipe(home: Home) -> Iterator[int]:
    handle = wake.listen(home)
    yield handle
    os.close(handle)


def test_wakes_and_announcements_are_told_apart(home: Home, pipe: int) -> None:
    assert wake.drain(pipe) == (False, [])
    wake.wake(home)
    assert wake.drain(pipe) == (True, [])
    wake.announce(home, "/some where/!\udcff")
    assert wake.drain(pipe) == (False, ["/some where/!\udcff"])
    for _ in range(3):
        wake.wake(home)
        wake.announce(home, "/a")
        wake.announce(home, "/b")
    assert wake.drain(pipe) == (True, ["/a", "/b"] * 3)


def test_what_is_too_long_is_not_announced_and_a_full_pipe_is_not_waited_for(home: Home, pipe: int) -> None:
    wake.announce(home, "/" + "x" * wake.LONGEST)
    assert wake.drain(pipe) == (False, [])
    longest = "/" + "x" * (wake.LONGEST - 3)
    for _ in range(100):
        wake.announce(home, longest)
    woken, told = wake.drain(pipe)
    assert not woken and 0 < len(told) < 100 and set(told) == {longest}


@pytest.mark.parametrize("data", [b"\0", b"\0\0\0", b"\0a", b"\xff\n", os.urandom(5000), b"!\0!"])
def test_nonsense_does_no_harm(home: Home, pipe: int, data: bytes) -> None:
    os.write(pipe, data)
    wake.drain(pipe)
    wake.wake(home)
    assert wake.drain(pipe) == (True, [])


def test_without_a_supervisor_nothing_happens(home: Home) -> None:
    wake.wake(home)
    wake.announce(home, "/a")
    assert not os.listdir(home.root)  # noqa: PTH208
