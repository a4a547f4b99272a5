"""The work on a branch since its base: commits and files, and whether more than white space changed. Read as data."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.git.diffs import SUBMODULE, rows
from fleet.git.process import GitFault
from fleet.git.worktree_place import read_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from fleet.git.merge.branch_move import BranchMove
    from fleet.git.repository import Repository
    from fleet.git.view import View
    from fleet.home import Home


MOST_COMMITS, LONGEST_WORDS = 50, 200
#: Files in which leading white space has a meaning.
INDENTED = (
    *(".py", ".pyi", ".pyx", ".yml", ".yaml", ".haml", ".pug", ".sass", ".coffee", ".nim", ".fs", ".hs", ".elm"),
    *("makefile", ".mk", ".md", ".rst", ".gd", ".star", ".bzl"),
)


class FileChange(Record):
    """A file that differs."""

    path: str
    status: str  # A, M, D or T
    added: int | None = None  # in lines; None for a binary file
    removed: int | None = None
    mode: bool = False  # its mode differs
    submodule: bool = False  # it is a submodule's commit, of which git has no file


class WorkCommit(Record):
    """A commit, with texts cut to a maximum length."""

    id: str
    subject: str
    author: str
    at: str


def file_changes(view: View, base: str, tree: str) -> list[FileChange]:
    """Return the files that differ between a commit and a tree or commit. Raises GitFault."""
    found: dict[bytes, FileChange] = {}
    fields = iter(rows(view, base, tree, "--raw", "--numstat").split(b"\0"))
    for field in fields:
        if field.startswith(b":"):
            before, after, _, _, status = field[1:].split(b" ")
            path, letter = next(fields, b""), status.decode("ascii", "replace")[:1]
            modes = {"mode": before != after, "submodule": SUBMODULE.encode() in (before, after)}
            found[path] = FileChange(path=os.fsdecode(path), status=letter, **modes)
        elif field.count(b"\t") >= 2:
            added, removed, path = field.split(b"\t", 2)
            if path in found:
                found[path] = found[path].replace(added=_parse_number(added), removed=_parse_number(removed))
    return list(found.values())


def only_blank(view: View, base: str, tree: str, found: Iterable[FileChange]) -> bool:
    """Return True if files differ only in white space that has no meaning. Raises GitFault."""
    files = list(found)
    if not files or any(each.status != "M" or each.mode or each.added is None for each in files):
        return False
    careful = any(each.path.lower().endswith(INDENTED) for each in files)
    ignored = "--ignore-space-at-eol" if careful else "--ignore-all-space"
    told = rows(view, base, tree, "--numstat", ignored, "--ignore-blank-lines")
    counts = [field.split(b"\t", 2)[:2] for field in told.split(b"\0") if field.count(b"\t") >= 2]
    return all(count == [b"0", b"0"] for count in counts)


def begun_at(view: View, base: str, tip: str, main: str) -> str:
    """Return the commit at which a branch's own work begins, leaving out what it merged from the main branch since.

    Raises GitFault.
    """
    if not main or main == base:
        return base
    common = view.git("merge-base", "--end-of-options", tip, main, allow=(1, 128)).decode().strip()
    if not common or common == base:
        return base
    ahead = view.git("rev-list", "--count", "--end-of-options", f"{common}..{base}").strip()
    return common if ahead == b"0" else base


def count_commits(view: View, base: str, tip: str) -> int:
    """Return how many commits a branch has that its base lacks. Raises GitFault."""
    return int(view.git("rev-list", "--count", "--end-of-options", f"{base}..{tip}").strip() or b"0")


def newest_commits(view: View, base: str, tip: str) -> list[WorkCommit]:
    """Return the newest commits of a branch that its base lacks. Raises GitFault."""
    cut = f"%<({LONGEST_WORDS},trunc)"
    form = f"--format=%H%x00{cut}%an%x00%aI%x00{cut}%s%x00"
    words = ("log", "--no-show-signature", f"--max-count={MOST_COMMITS}", form, "--end-of-options", f"{base}..{tip}")
    return list(_parse_commits(view.git(*words)))


def unknown_commits(view: View, names: Iterable[str]) -> list[str]:
    """Return the ids, full or abbreviated, that no object of the repository has. Raises GitFault."""
    asked = list(names)
    found = view.kinds(name.encode() for name in asked) if asked else []
    return [name for name, (_, kind) in zip(asked, found, strict=False) if kind == "missing"]


def files_at(view: View, tree: str, most: int) -> set[str]:
    """Return at most `most` files of a commit or tree. Raises GitFault."""
    told = view.git("ls-tree", "-r", "-z", "--name-only", "--full-tree", "--end-of-options", tree)
    return {os.fsdecode(name) for name in told.split(b"\0")[:most] if name}


def _parse_commits(told: bytes) -> Iterator[WorkCommit]:
    fields = [field.decode("utf-8", "replace").strip() for field in told.split(b"\0")]
    for start in range(0, len(fields) - 3, 4):
        commit, author, at, subject = fields[start : start + 4]
        yield WorkCommit(id=commit, subject=subject, author=author, at=at)


def _parse_number(field: bytes) -> int | None:
    return int(field) if field.isdigit() else None


# ruff: noqa: PTH123


#: Of a longer journal of moves, only this newest part is read.
LONGEST = 1 << 20


def landed_in(view: View, branch: str, tip: str, merged: Mapping[str, Any] | None = None) -> str:
    """Return the branch that contains the work of another branch with this tip, or "".

    `merged` is the merge note in the task's metadata. It is needed because a squashed branch is in no history, but the
    squash commit is.
    """
    commits = [tip]
    if merged and merged.get("tip") == tip and isinstance(merged.get("commit"), str):
        commits.append(merged["commit"])
    for commit in commits:
        for ref in _list_holders(view, commit):
            kind, _, name = ref.partition("/")
            own = name if kind == "heads" else name.partition("/")[2]  # a pushed branch is no other branch
            if own != branch:
                return name
    return ""


def _list_holders(view: View, commit: str) -> list[str]:
    if not commit.isalnum():
        return []
    form = "--format=%(refname:lstrip=1)"
    try:
        return view.text("for-each-ref", "--contains", commit, form, "refs/heads", "refs/remotes").splitlines()
    except GitFault:  # the commit is gone
        return []


def note_move(home: Home, entry: BranchMove) -> None:
    """Record that fleet moved a branch and its checkouts."""
    told = {"common": entry.common, "branch": entry.branch, "old": entry.old, "new": entry.new}
    handle = os.open(home.moves, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with open(handle, "a", encoding="ascii") as file:
        file.write(json.dumps(told) + "\n")


def moved_by_fleet(home: Home, repository: Repository, old: str, new: str) -> bool:
    """Return True if fleet alone moved branches of the repository from one commit to the other."""
    reached = {old}
    for _, before, after in _read_moves(home, repository):
        if before in reached:
            reached.add(after)
    return new in reached


def reached_by_fleet(home: Home, repository: Repository, branch: str, old: str) -> str:
    """Return the commit to which fleet moved a branch from another, or that commit if fleet did not move it."""
    for name, before, after in _read_moves(home, repository):
        old = after if name == branch and before == old else old
    return old


def _read_moves(home: Home, repository: Repository) -> Iterator[tuple[str, str, str]]:
    """Yield fleet's moves of branches in a repository, oldest first: the branch, the old and the new commit."""
    text = read_plain(home.moves, LONGEST).decode("ascii", "replace")
    for line in text.splitlines():
        try:
            told = json.loads(line)
            if told["common"] == repository.common:
                yield str(told["branch"]), str(told["old"]), str(told["new"])
        except (ValueError, TypeError, KeyError):  # an incomplete line at the start of the part or after a crash
            continue
