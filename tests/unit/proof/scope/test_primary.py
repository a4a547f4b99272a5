"""The main checkout before and after a run, in real git through fleet's view."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.core.jsontext import decode
from fleet.git.repository import find_repository
from fleet.git.view import View
from fleet.home import Home
from fleet.proof.scope import primary
from repositories import commit, make_repository, run_git
from workplaces import Place


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repository(tmp_path_factory.mktemp("template") / "project")


@pytest.fixture
def place(tmp_path: Path, template: Path) -> Place:
    """Return a separate repository, which is a copy because copying is faster."""
    return Place(tmp_path, lambda path: Path(shutil.copytree(template, path)))


def _write(top: Path, name: str, text: str = "new\n") -> None:
    (top / name).parent.mkdir(parents=True, exist_ok=True)
    (top / name).write_text(text, "utf-8")


def _remove(top: Path) -> None:
    (top / "file2.txt").unlink()


def _hook(top: Path) -> None:
    _write(top, ".git/hooks/pre-commit", "#!/bin/sh\n")


def _ignore(top: Path) -> None:
    _write(top, ".git/info/exclude", "build/\n")
    _write(top, "build/x")


CHANGES: list[tuple[str, Callable[[Path], object], str]] = [
    ("edit", lambda top: _write(top, "file1.txt"), "the main checkout changed during the run: file1.txt"),
    ("new", lambda top: _write(top, "lib/new.py"), "the main checkout changed during the run: lib/new.py"),
    ("delete", _remove, "the main checkout changed during the run: file2.txt"),
    ("stage", lambda top: run_git(top, "rm", "--cached", "-q", "file3.txt"), "changed during the run: file3.txt"),
    ("commit", lambda top: commit(top, "file1.txt", "x\n"), "the main checkout went from main at"),
    ("switch", lambda top: run_git(top, "checkout", "-q", "-b", "other"), "to other at"),
    ("detach", lambda top: run_git(top, "checkout", "-q", "--detach"), "the main checkout went from main at"),
    ("config", lambda top: run_git(top, "config", "core.fsmonitor", "evil"), ".git/config changed during the run"),
    ("hook", _hook, "the repository's hooks changed during the run: pre-commit"),
]


@pytest.mark.parametrize(("change", "said"), [case[1:] for case in CHANGES], ids=[case[0] for case in CHANGES])
def test_change_of_the_main_checkout_is_reported(place: Place, change: Callable[[Path], object], said: str) -> None:
    before = primary.mark(place.view)
    change(place.top)
    found = primary.strays(before, primary.mark(place.view))
    assert len(found) == 1
    assert said in found[0]


def test_staged_change_is_found_when_the_index_looks_untouched(place: Place) -> None:
    index = place.top / ".git" / "index"
    _write(place.top, "file1.txt", "one\n")
    run_git(place.top, "add", "file1.txt")
    before, seen = primary.mark(place.view), index.stat()
    _write(place.top, "file1.txt", "two\n")
    run_git(place.top, "add", "file1.txt")
    _write(place.top, "file1.txt", "one\n")
    os.utime(index, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    staged = decode(before)["files"]["file1.txt"].split()[-1]
    assert decode(primary.mark(place.view))["files"]["file1.txt"].split()[-1] != staged


def test_same_index_differs_from_another_commit(place: Place) -> None:
    assert decode(primary.mark(place.view))["files"] == {}
    run_git(place.top, "reset", "-q", "--soft", commit(place.top, "file1.txt", "new\n"))
    assert decode(primary.mark(place.view))["files"] == {}
    run_git(place.top, "reset", "-q", "--soft", "HEAD~1")
    assert list(decode(primary.mark(place.view))["files"]) == ["file1.txt"]


HARMLESS: list[tuple[str, Callable[[Path], object]]] = [
    ("nothing", lambda top: None),
    ("status", lambda top: run_git(top, "status")),
    ("touch", lambda top: os.utime(top / "file1.txt", (1, 1))),
    ("branch", lambda top: run_git(top, "branch", "another")),
    ("tracking", lambda top: run_git(top, "config", "branch.main.remote", "origin")),
    ("stash list", lambda top: run_git(top, "stash", "list")),
    ("worktree", lambda top: run_git(top, "worktree", "add", "-q", "-b", "w", str(top.parent / "w"))),
    ("worktree inside", lambda top: run_git(top, "worktree", "add", "-q", "-b", "w", str(top / "w"))),
    ("ignored", _ignore),
]


@pytest.mark.parametrize("change", [case[1] for case in HARMLESS], ids=[case[0] for case in HARMLESS])
def test_irrelevant_change_is_not_reported(place: Place, change: Callable[[Path], object]) -> None:
    before = primary.mark(place.view)
    change(place.top)
    assert primary.strays(before, primary.mark(place.view)) == []


def test_unchanged_dirty_file_is_not_reported(place: Place) -> None:
    _write(place.top, "file1.txt", "mine\n")
    _write(place.top, "notes.txt", "mine\n")
    run_git(place.top, "rm", "-q", "--cached", "file2.txt")
    before = primary.mark(place.view)
    assert primary.strays(before, primary.mark(place.view)) == []
    _write(place.top, "file1.txt", "mine, and more\n")
    assert primary.changed(before, primary.mark(place.view)) == ["file1.txt"]


def test_marking_changes_nothing_and_runs_no_user_program(place: Place, tmp_path: Path) -> None:
    for name in ("core.fsmonitor", "filter.x.clean", "core.hooksPath"):
        run_git(place.top, "config", name, f"touch {tmp_path}/ran;")
    _write(place.top, ".gitattributes", "* filter=x\n")
    _write(place.top, "file1.txt", "edit\n")
    index = place.top / ".git" / "index"
    seen = (index.read_bytes(), index.stat().st_mtime_ns)
    assert "file1.txt" in decode(primary.mark(place.view))["files"]
    assert (index.read_bytes(), index.stat().st_mtime_ns) == seen
    assert not (tmp_path / "ran").exists()
    assert not list(Path(place.view.path).glob("primary-*"))


def test_settings_hidden_behind_a_branch_section_are_found(place: Place) -> None:
    config = place.top / ".git" / "config"
    whole = config.read_text("utf-8")
    before = primary.mark(place.view)
    for line in (
        '[branch "x"] [core] fsmonitor = evil\n',
        '[branch "x"]\n[include] path = /evil\n',
        '[branch "x"]\n\tremote = a\n\tfsmonitor = evil\n[core]\n\tpager = evil\n',
    ):
        config.write_text(whole + line, "utf-8")
        assert primary.strays(before, primary.mark(place.view)) == [
            "the repository's .git/config changed during the run"
        ]


def test_bare_and_empty_repositories_have_marks(tmp_path: Path) -> None:
    run_git(tmp_path, "init", "-q", "--bare", "bare.git")
    run_git(tmp_path, "init", "-q", "empty")
    for name in ("bare.git", "empty"):
        view = View(Home(str(tmp_path / "home")), find_repository(str(tmp_path / name)))
        before = primary.mark(view)
        assert before
        assert primary.strays(before, primary.mark(view)) == []


def test_file_names_of_any_bytes_and_many_files_are_marked(place: Place) -> None:
    Path(os.fsdecode(os.fsencode(place.top) + b"/\xff\xfe")).write_text("x", "utf-8")
    for number in range(primary.MOST_FILES + 50):
        _write(place.top, f"new/{number:04}")
    before = primary.mark(place.view)
    assert len(before.encode()) < 100_000
    _write(place.top, f"new/{primary.MOST_FILES + 49:04}", "other and longer\n")
    assert primary.strays(before, primary.mark(place.view)) == ["the main checkout changed during the run"]


def test_merge_by_fleet_is_not_reported(place: Place) -> None:
    before = primary.mark(place.view)
    new = commit(place.top, "file1.txt", "merged\n")
    (told,) = primary.since(place.home, place.view, before, "work")
    assert told == f"the main checkout went from main at {place.base[:10]} to main at {new[:10]} during the run"
    moves = Path(place.home.moves)
    moves.parent.mkdir(parents=True)
    moves.write_text(
        json.dumps({"common": place.repository.common, "branch": "main", "old": place.base, "new": new}) + "\n", "utf-8"
    )
    assert primary.since(place.home, place.view, before, "work") == []
    _write(place.top, "file2.txt")
    assert primary.since(place.home, place.view, before, "work") == [
        "the main checkout changed during the run: file2.txt"
    ]
    assert primary.since(place.home, place.view, "", "work") == []


@pytest.mark.parametrize("text", ["", "no json", "[]", "{}", '{"files": 7, "head": null}'])
def test_missing_or_broken_mark_reports_nothing(place: Place, text: str) -> None:
    now = primary.mark(place.view)
    assert primary.strays("", now) == primary.strays(now, "") == []
    primary.strays(text, now)  # any content: no error
    primary.strays(now, text)


def test_missing_repository_has_no_mark(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "project")
    view = View(Home(str(tmp_path / "home")), find_repository(str(top)))
    top.rename(tmp_path / "elsewhere")
    assert primary.mark(view) == ""
