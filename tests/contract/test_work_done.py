"""Changes of a branch since its base in git: files, commits, whitespace and unknown ids."""

from pathlib import Path

import pytest

from fleet.git.work_done import (
    begun_at,
    count_commits,
    file_changes,
    files_at,
    newest_commits,
    only_blank,
    unknown_commits,
)
from repositories import commit, run_git
from workplaces import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def after(place: Place, *files: tuple[str, str]) -> str:
    """Commit these files. Return the last commit."""
    for name, text in files:
        commit(place.top, name, text)
    return run_git(place.top, "rev-parse", "HEAD")


def test_changed_files_are_listed_with_their_kind_of_change(place: Place) -> None:
    odd = "a\tb\nc \udcff"
    commit(place.top, odd, "1\n2\n")
    (place.top / "file2.txt").unlink()
    (place.top / "file1.txt").chmod(0o755)
    (place.top / "binary").write_bytes(b"\0\1\2")
    run_git(place.top, "add", "--all")
    run_git(place.top, "commit", "--quiet", "--message", "more")
    tip = run_git(place.top, "rev-parse", "HEAD")
    found = {each.path: each for each in file_changes(place.view, place.base, tip)}
    assert {path: each.status for path, each in found.items()} == {
        **{odd: "A", "file2.txt": "D", "file1.txt": "M", "binary": "A"}
    }
    assert (found[odd].added, found[odd].removed, found["binary"].added) == (2, 0, None)
    assert found["file1.txt"].mode and files_at(place.view, tip, 100) >= {odd, "file1.txt", "binary"}


@pytest.mark.parametrize(
    ("name", "before", "now", "blank"),
    [
        ("a.c", "int  x;\n", "int x;\n\n", True),
        ("a.c", "int x;\n", "int y;\n", False),
        ("a.py", "if x:\n    y\nz\n", "if x:\n    y\n    z\n", False),
        ("a.py", "x\n", "x  \n\n", True),
        ("Makefile", "a:\n  b\n", "a:\n\tb\n", False),
        ("a.c", "x", "x\n", True),
    ],
)
def test_whitespace_changes_count_only_where_whitespace_has_meaning(
    place: Place, name: str, before: str, now: str, blank: bool
) -> None:
    base, tip = after(place, (name, before)), after(place, (name, now))
    assert only_blank(place.view, base, tip, file_changes(place.view, base, tip)) is blank


def test_new_empty_files_and_mode_changes_count(place: Place) -> None:
    base = place.base
    tip = after(place, ("empty", ""))
    assert not only_blank(place.view, base, tip, file_changes(place.view, base, tip))
    (place.top / "file1.txt").chmod(0o755)
    run_git(place.top, "commit", "--quiet", "--all", "--message", "mode")
    last = run_git(place.top, "rev-parse", "HEAD")
    assert not only_blank(place.view, tip, last, file_changes(place.view, tip, last))
    assert not only_blank(place.view, last, last, [])


def test_commits_are_listed_newest_first_with_shortened_messages(place: Place) -> None:
    run_git(place.top, "commit", "--quiet", "--allow-empty", "--message", "x" * 10_000)
    tip = after(place, ("b.txt", "b"))
    found = newest_commits(place.view, place.base, tip)
    assert [each.id for each in found] == run_git(place.top, "rev-list", f"{place.base}..{tip}").split()
    assert len(found[1].subject) <= 200 and found[0].author and found[0].at.startswith("20")
    assert count_commits(place.view, place.base, tip) == 2 and newest_commits(place.view, tip, tip) == []


def test_unknown_commit_ids_are_found_and_short_ids_accepted(place: Place) -> None:
    known = [place.base, place.base[:8], place.base[:7].upper()]
    assert unknown_commits(place.view, [*known, "f" * 40, "1234567"]) == ["f" * 40, "1234567"]
    assert unknown_commits(place.view, []) == []


def test_work_begins_at_the_last_merge_from_main(place: Place) -> None:
    main = commit(place.top, "theirs.txt", "the user\n")
    run_git(place.top, "checkout", "--quiet", "-b", "own", place.base)
    assert begun_at(place.view, place.base, commit(place.top, "own.txt", "x\n"), main) == place.base
    run_git(place.top, "rebase", "--quiet", "main")
    tip = run_git(place.top, "rev-parse", "own")
    assert begun_at(place.view, place.base, tip, main) == main
    assert begun_at(place.view, place.base, main, main) == main, "it only took in what others did"
    assert begun_at(place.view, main, tip, place.base) == main, "the main branch was moved back"
    assert begun_at(place.view, place.base, tip, "") == begun_at(place.view, place.base, tip, "0" * 40) == place.base
