"""Files of a backup that change while they are read."""

import os
from pathlib import Path

from fleet.actions.control.archive import Steady


def test_steady_reads_the_initial_length_when_its_file_is_truncated(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 100)
    handle = os.open(path, os.O_RDONLY)
    file = Steady(handle, 100)
    assert file.read(30) == b"x" * 30
    os.truncate(path, 40)
    assert file.read(30) == b"x" * 10 + b"\0" * 20
    assert (file.read(1000), file.read(10)) == (b"\0" * 40, b"")
    os.close(handle)


def test_steady_reads_the_initial_length_when_its_file_grows(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 10)
    handle = os.open(path, os.O_RDONLY)
    file = Steady(handle, 10)
    path.write_bytes(b"y" * 50)
    assert (file.read(1000), file.read(10)) == (b"y" * 10, b"")
    os.close(handle)
