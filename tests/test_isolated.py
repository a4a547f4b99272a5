"""The environment of the tests, which is the same on every machine."""

import shutil
import subprocess
from pathlib import Path

from isolated import HIDDEN, without_hidden


def test_tests_find_no_program_or_setting_of_the_developer() -> None:
    assert [name for name in HIDDEN if shutil.which(name)] == []
    assert subprocess.run(["git", "config", "--list"], cwd="/", capture_output=True, check=True).stdout == b""


def test_without_hidden_keeps_the_other_programs_of_a_folder(tmp_path: Path) -> None:
    (folder := tmp_path / "bin").mkdir()
    for name in ("gh", "other"):
        (folder / name).write_text("#!/bin/sh\necho found\n")
        (folder / name).chmod(0o755)
    links = without_hidden(folder, tmp_path)
    assert [path.name for path in links.iterdir()] == ["other"]
    assert subprocess.run([links / "other"], capture_output=True, check=True).stdout == b"found\n"
    assert without_hidden(links, tmp_path) == links
