"""The record of a start, and the comparison of a plain directory."""

import os
from pathlib import Path

from fleet.home import Home
from fleet.proof import baseline
from repositories import make_repository, run_git


def test_program_is_identified_by_content_and_not_by_time(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_bytes(b"one")
    first, known = baseline.program_hash(str(program)), len(baseline._hashes)
    assert baseline.program_hash(str(program)) == first and len(baseline._hashes) == known, "it is read once"
    seen = program.stat()
    program.write_bytes(b"two")
    os.utime(program, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert baseline.program_hash(str(program)) not in ("", first)
    assert baseline.program_hash(str(tmp_path / "none")) == ""


def test_only_the_main_checkout_is_compared(tmp_path: Path) -> None:
    home = Home(str(tmp_path / "home"))
    repo = make_repository(tmp_path / "repo")
    (repo / "sub").mkdir()
    (repo / "nested").mkdir()
    run_git(repo / "nested", "init", "--quiet")
    run_git(repo, "worktree", "add", "--quiet", str(tmp_path / "other"), "-b", "other")
    (tmp_path / "home" / "tasks").mkdir(parents=True)
    found = {
        name: baseline.directory_repository(home, str(tmp_path / name)) is not None
        for name in ("repo", "repo/sub", "repo/nested", "other", "home/tasks", ".")
    }
    assert found == {
        **{"repo": True, "repo/sub": True, "repo/nested": True},
        **{"other": False, "home/tasks": False, ".": False},
    }
