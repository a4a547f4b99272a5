"""Programs on a PATH are found as `shutil.which` finds them."""

import os
import shutil
from pathlib import Path

import pytest

from fleet.files import find_program


def test_find_program_agrees_with_shutil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, folder = tmp_path / "one", tmp_path / "two", tmp_path / "two" / "folder"
    for each in (one, two, folder):
        each.mkdir()
    for place, mode in ((one / "tool", 0o644), (two / "tool", 0o755), (one / "first", 0o755), (two / "first", 0o755)):
        place.write_text("#!/bin/sh\n")
        place.chmod(mode)
    monkeypatch.chdir(one)
    paths = (f"{one}:{two}", f"{two}:{one}", str(one), f"{tmp_path}/none:{two}", f":{two}", ".", "", None)
    names = ("tool", "first", "folder", "none", str(two / "tool"), str(one / "tool"), "../two/tool", "./first")
    for path in paths:
        for name in names:
            found, known = find_program(name, path), shutil.which(name, path=path)
            assert (found and os.path.realpath(found)) == (known and os.path.realpath(known)), (name, path)
