"""The pipe that wakes a supervisor: it is readable after a wake, and writing never blocks."""

import os
import select
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


def is_woken(pipe: int) -> bool:
    return bool(select.select([pipe], [], [], 0)[0])


def test_pipe_is_readable_only_after_a_wake(home: Home, pipe: int) -> None:
    assert not is_woken(pipe)
    for _ in range(3):
        wake.wake(home)
    assert is_woken(pipe)
    wake.drain(pipe)
    assert not is_woken(pipe)


def test_full_pipe_is_not_waited_for(home: Home, pipe: int) -> None:
    with pytest.raises(BlockingIOError):
        while True:
            os.write(pipe, b"?" * 4096)
    wake.wake(home)
    wake.drain(pipe)
    assert not is_woken(pipe)


def test_nothing_happens_without_a_supervisor(home: Home) -> None:
    wake.wake(home)
    assert not os.listdir(home.root)  # noqa: PTH208
