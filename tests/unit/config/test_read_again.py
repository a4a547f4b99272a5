"""A settings file is read once while it stays as it is, and never taken for what it was before."""

import os
from pathlib import Path

import pytest

from fleet.config import load
from fleet.core.errors import BadInput
from fleet.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(str(tmp_path))


def write(home: Home, text: str, *, age: float = 10.0) -> None:
    """Write the file in its place; it looks as if that had been a while ago, each time the same."""
    Path(home.settings).write_text(text)
    at = 1_700_000_000.0 if age else os.stat(home.settings).st_mtime  # noqa: PTH116
    os.utime(home.settings, (at, at))


def slots(home: Home) -> int:
    return load(home, env={}).max_concurrent


@pytest.mark.parametrize("age", [0.0, 10.0])
def test_a_change_is_seen_at_once_whatever_the_file_says_of_its_time(home: Home, age: float) -> None:
    for number in (33, 34, 35, 36):  # of the same length
        write(home, f"max_concurrent = {number}\n", age=age)
        assert slots(home) == slots(home) == number
    Path(home.settings).unlink()
    assert slots(home) not in (33, 34, 35, 36)
    write(home, "max_concurrent = 37\n", age=age)
    assert slots(home) == 37


def test_a_file_that_became_wrong_is_refused_and_right_again_is_read(home: Home) -> None:
    write(home, "max_concurrent = 3\n")
    assert slots(home) == 3
    write(home, "max_concurrent = x\n")
    for _ in range(2):
        with pytest.raises(BadInput):
            slots(home)
    write(home, "max_concurrent = 3\n")
    assert slots(home) == 3


def test_one_that_is_as_it_was_is_not_opened(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home, "max_concurrent = 3\n")
    assert slots(home) == 3
    monkeypatch.setattr(os, "open", lambda path, flags: pytest.fail(f"{path} is read again"))
    assert slots(home) == 3
