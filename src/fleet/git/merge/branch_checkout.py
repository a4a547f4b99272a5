"""Checkouts of a branch: finding them, detecting changes in them, and running git there with fleet's settings.

Git reads and writes the files and the index of the checkout. Settings, hooks and attributes come from the view. `HEAD`
and git's state files are in a separate folder of fleet. So checks leave nothing in the user's git folder.
"""

# Git's paths may contain any bytes.
# ruff: noqa: PTH108, PTH112, PTH114, PTH115, PTH118, PTH120
from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.files import atomic_write, make_private
from fleet.git.nested_repositories import NestedRepository, git_folder_of
from fleet.git.process import GitFault, git
from fleet.git.view import ALONE
from fleet.git.worktree_index import Directories
from fleet.git.worktree_place import LONGEST, read_plain
from fleet.git.worktree_records import GOING_ON, branches_checked_out, clear_stale, head_of, real, state_of, worktrees

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.git.repository import Repository
    from fleet.git.view import View

GITLINK, LINK = b"160000", b"120000"
#: The folder in the view with HEAD for git in a checkout. It is used only under the repository's lock.
FOLDER = "moving"
#: With a split index, git would write the other part of the index into that folder.
WHOLE_INDEX = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.splitIndex", "GIT_CONFIG_VALUE_0": "false"}
#: Attributes that change the bytes of a file. The view must not obey those from files outside the tree.
ABOUT_BYTES = re.compile(rb"\b(filter|eol|text|crlf|ident|working-tree-encoding)\b")
IN_PROGRESS = GOING_ON | {"sequencer": "cherry-pick"}
#: Status codes of files in conflict in `git status`.
CONFLICTS = (b"DD", b"AU", b"UD", b"UA", b"DU", b"AA", b"UU")


class FileStep(Record):
    """A file that differs between two commits."""

    path: bytes
    mode: bytes  # in the second commit; zeros if the file is gone
    is_new: bool  # the first commit lacks it

    @property
    def is_gone(self) -> bool:
        """Return True if the second commit lacks the file."""
        return not self.mode.strip(b"0")


class BranchCheckout:
    """A checkout of a branch, inspected and changed under the repository's lock."""

    def __init__(self, view: View, branch: str, path: str, admin: str) -> None:
        self._view, self._branch, self._admin = view, branch, admin
        self._folder = os.path.join(view.path, FOLDER)
        self.path = path
        self._index = os.path.join(os.path.realpath(admin), "index")

    @property
    def lock(self) -> str:
        return f"{self._index}.lock"

    def git(self, *words: str, allow: tuple[int, ...] = (), inherit: tuple[int, ...] = ()) -> bytes:
        """Return git's output, run on the checkout's files and index. Raises GitFault."""
        env = {"GIT_DIR": self._folder, "GIT_WORK_TREE": self.path, "GIT_INDEX_FILE": self._index}
        env |= ALONE | WHOLE_INDEX | {"GIT_REFLOG_ACTION": "fleet merge"}
        return git(*words, cwd=self.path, env=env, allow=allow, inherit=inherit)

    def unfit(self) -> str:
        """Return why git must not run in the checkout, or "" if it may."""
        if not os.path.isdir(self.path):
            return "its folder is missing"
        for name, word in IN_PROGRESS.items():
            if os.path.lexists(os.path.join(self._admin, name)):
                return f"a {word} is in progress there"
        if head_of(self._admin)[0] != self._branch:
            return "it is no longer on the branch"
        tampered = (
            ("index",) if os.path.islink(self._index) else self._list_tampered()
        )  # git would write through a link
        return f"{tampered[0]} of that worktree changed" if tampered else ""

    def why_not(self, old: str, new: str) -> str:
        """Return why git must not move the checkout from one commit to another, or "" if it may."""
        try:
            return next(filter(None, self._list_reasons(old, new)), "")
        except (GitFault, OSError) as error:
            return f"fleet cannot list its changes: {error}"

    def is_written(self, new: str) -> bool:
        """Return True if git has written all of a commit: the index, which git writes last, matches the commit."""
        return not self.git("diff-index", "--cached", "--name-only", new)

    def touched(self, old: str, new: str) -> list[FileStep]:
        """Return the files that differ between two commits, and also from the first in the index or on disk."""
        names = _split_names(self.git("diff-index", "--cached", "--name-only", "-z", "--no-renames", old))
        names |= _split_names(self.git("ls-files", "-z", "-m"))
        steps, there = steps_between(self._view, old, new), Directories(self.path)
        found = [step for step in steps if step.path in names or (step.is_new and _stat_file(there, step))]
        return [step for step in found if step.mode != GITLINK]

    def take_back(self, old: str, new: str) -> bool:
        """Remove the files that a killed git began to write, so that git can write them again.

        Return False and remove nothing if a file holds anything but the beginning of its content in `new`.
        """
        there, begun = Directories(self.path), []
        known, changed = _split_names(self.git("ls-files", "-z")), _split_names(self.git("ls-files", "-z", "-m"))
        for step in self.touched(old, new):
            found = _stat_file(there, step)
            if found is None or (step.path in known and step.path not in changed):
                continue
            if not self._is_begun(step, found, new):
                return False
            begun.append(os.path.join(os.fsencode(self.path), step.path))
        for path in begun:
            os.unlink(path)
            with contextlib.suppress(OSError):  # the folder is not empty
                os.removedirs(os.path.dirname(path))
        return True

    def _is_begun(self, step: FileStep, found: os.stat_result, new: str) -> bool:
        where, name = os.path.join(os.fsencode(self.path), step.path), f"{new}:{os.fsdecode(step.path)}"
        if step.is_gone or not (stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)):
            return False
        if stat.S_ISLNK(found.st_mode):
            return step.mode == LINK and self.git("cat-file", "blob", name) == os.readlink(where)
        return self.git("cat-file", "--filters", name).startswith(read_plain(os.fsdecode(where), LONGEST))

    def _list_reasons(self, old: str, new: str) -> Iterator[str]:
        yield self.unfit()
        if os.path.lexists(self.lock) and not clear_stale(self._view.repository, self.lock):
            yield "git is running there"
        yield from self._list_changes()
        steps, there = steps_between(self._view, old, new), Directories(self.path)
        for step in steps:
            if step.is_new and _stat_file(there, step):
                yield f"{os.fsdecode(step.path)} is in the way there"
        yield from self._list_unwritable(steps, new)

    def _list_changes(self) -> Iterator[str]:
        """Yield the differences from the branch's commit. Git does not run in submodules."""
        words = ("status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=dirty", "--no-renames")
        for row in self.git(*words).split(b"\0"):
            code, name = row[:2], os.fsdecode(row[3:])
            if code in CONFLICTS:
                yield f"it has an unresolved conflict: {name}"
            elif name:
                yield f"{name} is changed there"
        for row in self.git("ls-files", "-v", "-s", "-z").split(b"\0"):
            head, _, path = row.partition(b"\t")
            if head and not head.startswith(b"H "):  # sparse or marked as unchanged
                yield f"git ignores changes of {os.fsdecode(path)} there"
            if head[2:].startswith(GITLINK) and self._is_changed_inside(path, head.split(b" ")[2].decode()):
                yield f"the submodule {os.fsdecode(path)} is changed there"

    def _is_changed_inside(self, path: bytes, commit: str) -> bool:
        """Return True if a submodule has local changes. Git does not obey the submodule's settings."""
        folder = os.path.join(self.path, os.fsdecode(path))
        git_folder = git_folder_of(folder) if os.path.isdir(folder) else None
        if git_folder is None:
            return False
        env = NestedRepository(path=folder, git_folder=git_folder).env
        index = os.path.join(self._folder, "submodule")
        self._view.git("read-tree", commit, index=index, env=env)
        words = ("ls-files", "-z", "-o", "-m", "-d", "--exclude-standard")
        return bool(self._view.git(*words, tree=folder, index=index, env=env))

    def _list_tampered(self) -> tuple[str, ...]:
        repository = self._view.repository
        if os.path.realpath(self._admin) != repository.common:
            return state_of(repository, self.path, self._admin).tampered
        return () if real(os.path.join(self.path, ".git")) == repository.common else (".git",)

    def _list_unwritable(self, steps: list[FileStep], new: str) -> Iterator[str]:
        """Yield the reasons why fleet's git cannot write files as the user's settings and programs would."""
        for step in steps:
            if step.mode == GITLINK and os.path.lexists(os.path.join(os.fsencode(self.path), step.path)):
                yield f"the submodule {os.fsdecode(step.path)} would change there"
        for file in _list_other_attributes(self._view.repository):
            if ABOUT_BYTES.search(read_plain(file, 1 << 20)):
                yield f"{file} changes how files are written, which fleet does not support"
        asked = b"\0".join(step.path for step in steps if not step.is_gone)
        index = os.path.join(self._folder, "new")
        self._view.git("read-tree", new, index=index)
        words = ("check-attr", "--cached", "-z", "--stdin", "filter")
        told = self._view.git(*words, index=index, stdin=asked).split(b"\0")
        known = {b"unspecified", b"unset", *_list_filters(self._view)}
        for path, value in zip(told[::3], told[2::3], strict=False):
            if value not in known:
                yield f"the filter {os.fsdecode(value)} of {os.fsdecode(path)} is not run by fleet"


@contextlib.contextmanager
def checkouts_of(view: View, branch: str) -> Iterator[list[BranchCheckout]]:
    """Yield the checkouts that have a branch or are in the middle of rebasing it. Hold the repository's lock."""
    repository, folder = view.repository, os.path.join(view.path, FOLDER)
    main = [] if repository.top == repository.common else [(repository.common, repository.top)]
    rebased = branches_checked_out(repository).get(branch)
    found = [each for each in main + worktrees(repository) if head_of(each[0])[0] == branch or each[1] == rebased]
    shutil.rmtree(folder, ignore_errors=True)  # left by a command that was killed
    make_private(folder)
    try:
        for name, text in (("HEAD", f"ref: refs/heads/{branch}"), ("commondir", "..")):
            atomic_write(os.path.join(folder, name), os.fsencode(f"{text}\n"), 0o600)
        yield [BranchCheckout(view, branch, path, admin) for admin, path in found]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def hidden_checkout(repository: Repository, branch: str) -> str:
    """Return why a branch may be checked out in a place that fleet cannot see, or ""."""
    if repository.top != repository.common or head_of(repository.common)[0] != branch:
        return ""
    told = git("config", "--type=bool", "--get", "core.bare", cwd="/", env={"GIT_DIR": repository.common}, allow=(1,))
    return "" if told.strip() == b"true" else f"unknown location of the files of {repository.common}"


def steps_between(view: View, old: str, new: str) -> list[FileStep]:
    """Return the files that differ between two commits."""
    told = view.git("diff-tree", "-r", "-z", "--raw", "--no-renames", old, new).split(b"\0")
    heads = (head.lstrip(b":").split(b" ") for head in told[::2])
    return [
        FileStep(path=path, mode=head[1], is_new=not head[0].strip(b"0"))
        for head, path in zip(heads, told[1::2], strict=False)
    ]


def _stat_file(there: Directories, step: FileStep) -> os.stat_result | None:
    found = there.lstat(step.path)
    return None if found is None or stat.S_ISDIR(found.st_mode) else found


def _list_filters(view: View) -> list[bytes]:
    told = view.git("config", "--name-only", "--get-regexp", r"^filter\..*\.smudge$", allow=(1,))
    return [line.removeprefix(b"filter.").removesuffix(b".smudge") for line in told.splitlines()]


def _list_other_attributes(repository: Repository) -> list[str]:
    """Return the attribute files outside of trees: the repository's, and the user's global one."""
    env = {"GIT_DIR": repository.common}
    told = git("config", "--type=path", "--get", "core.attributesFile", cwd="/", env=env, allow=(1,))
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.environ.get("HOME", ""), ".config")
    theirs = os.fsdecode(told.strip()) or os.path.join(settings, "git", "attributes")
    return [os.path.join(repository.common, "info", "attributes"), theirs]


def _split_names(told: bytes) -> set[bytes]:
    return {name for name in told.split(b"\0") if name}
