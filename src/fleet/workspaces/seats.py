"""Where a branch is checked out, and whether its files there may be changed: only where nothing at all is lost by it.

Everything is read through fleet's view, with a copy of the checkout's index: neither what agents wrote into the
repository is obeyed, nor is anything changed by looking.
"""

# The paths are git's: any bytes.
# ruff: noqa: PTH112, PTH118
from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING

from fleet.core.record import Record
from fleet.workspaces.admin import GOING_ON, branches_checked_out, head_of, real, state_of, worktrees
from fleet.workspaces.git import GitFault, git
from fleet.workspaces.listing import Directories
from fleet.workspaces.nested import Nested, git_folder_of
from fleet.workspaces.place import LONGEST, read_plain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.workspaces.repository import Repository
    from fleet.workspaces.view import View

GITLINK = b"160000"
#: Attributes that decide which bytes a file has; what says so outside of the tree is not the view's to obey.
ABOUT_BYTES = re.compile(rb"\b(filter|eol|text|crlf|ident|working-tree-encoding)\b")
IN_PROGRESS = GOING_ON | {"sequencer": "cherry-pick"}
TAGS = {"M": "a conflict is not resolved there: {}", "": "git is told to overlook changes of {} there"}


class Seat(Record):
    """A checkout of a branch."""

    path: str
    admin: str  # git's folder about it

    @property
    def index(self) -> str:
        """What git knows of its files."""
        return os.path.join(os.path.realpath(self.admin), "index")

    @property
    def lock(self) -> str:
        """What git makes while it changes that."""
        return f"{self.index}.lock"

    @property
    def draft(self) -> str:
        """What fleet makes while it writes a new one."""
        return f"{self.index}.fleet"


class Step(Record):
    """A file that differs between two commits."""

    path: bytes
    mode: bytes  # before; zeros: it was not there
    object: bytes
    new_mode: bytes  # after; zeros: it is gone
    new_object: bytes

    @property
    def is_new(self) -> bool:
        """Whether it was not there before."""
        return not self.mode.strip(b"0")

    @property
    def goes(self) -> bool:
        """Whether it is not there after."""
        return not self.new_mode.strip(b"0")


def seats_of(repository: Repository, branch: str) -> list[Seat]:
    """Each checkout that has this branch, or that is in the midst of rebasing it."""
    main = [] if repository.top == repository.common else [(repository.common, repository.top)]
    found = [Seat(path=path, admin=admin) for admin, path in main + worktrees(repository)]
    rebased = branches_checked_out(repository).get(branch)
    return [seat for seat in found if head_of(seat.admin)[0] == branch or seat.path == rebased]


def hidden_checkout(repository: Repository, branch: str) -> str:
    """Why a branch may be checked out where fleet cannot see it; empty: it is not."""
    if repository.top != repository.common or head_of(repository.common)[0] != branch:
        return ""
    told = git("config", "--type=bool", "--get", "core.bare", cwd="/", env={"GIT_DIR": repository.common}, allow=(1,))
    return "" if told.strip() == b"true" else f"where {repository.common} has its files is not known"


def steps_between(view: View, old: str, new: str) -> list[Step]:
    """What differs between two commits, file by file."""
    told = view.git("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", old, new).split(b"\0")
    found = []
    for head, path in zip(told[::2], told[1::2], strict=False):
        mode, new_mode, made, new_made, _ = head.lstrip(b":").split(b" ")
        found.append(Step(path=path, mode=mode, object=made, new_mode=new_mode, new_object=new_made))
    return found


def copy_index(seat: Seat, copy: str) -> None:
    """Put a copy of its index at a path: with its time, by which git tells what may have changed since."""
    data = read_plain(seat.index, LONGEST)
    with open(copy, "wb") as file:  # noqa: PTH123
        file.write(data)
    if data:
        at = os.lstat(seat.index).st_mtime_ns
        os.utime(copy, ns=(at, at))
    else:
        os.unlink(copy)  # noqa: PTH108


def unfit(view: View, seat: Seat, branch: str, old: str, new: str, copy: str) -> str:
    """Why a checkout cannot be taken from one commit to the other, in words; empty: it can.

    `copy` is where the copy of its index is put; it knows afterwards which files are unchanged.
    """
    try:
        return next(_reasons(view, seat, branch, old, new, copy), "")
    except (GitFault, OSError) as error:
        return f"fleet cannot tell what is changed there: {error}"


def _reasons(view: View, seat: Seat, branch: str, old: str, new: str, copy: str) -> Iterator[str]:
    if not os.path.isdir(seat.path):
        yield "its folder is not there"
    yield from (f"a {word} is in progress there" for name, word in IN_PROGRESS.items() if _has(seat, name))
    if head_of(seat.admin)[0] != branch:
        yield "it is not on the branch any more"
    yield from (f"{name} of that worktree was changed" for name in _tampered(view.repository, seat))
    copy_index(seat, copy)
    yield from _marked(view, copy)
    told = view.git("diff-index", "--cached", "--name-only", "-z", "--ignore-submodules=none", old, index=copy)
    yield from (f"{name} is staged there" for name in _names(told))
    view.git("update-index", "-q", "--ignore-submodules", "--refresh", tree=seat.path, index=copy, allow=(1,))
    told = view.git("diff-files", "--name-only", "-z", "--ignore-submodules=all", tree=seat.path, index=copy)
    yield from (f"{name} is changed there" for name in _names(told))
    yield from _submodules(view, seat, copy)
    steps = steps_between(view, old, new)
    yield from in_the_way(seat.path, steps)
    yield from _unwritable(view, seat, steps, new, copy)


def in_the_way(root: str, steps: list[Step]) -> Iterator[str]:
    """What lies where a file is to be put, ignored or not, in words."""
    there, known = Directories(root), {step.path for step in steps if not step.is_new}
    for step in steps:
        if step.goes:
            continue
        for above in _above(step.path):
            found = there.lstat(above)
            if found is None:
                break
            if not stat.S_ISDIR(found.st_mode) and above not in known:
                yield f"{os.fsdecode(above)} is in the way there"
        found = there.lstat(step.path)
        if found is None or step.path in known:
            continue
        inside = _files_in(root, step.path) if stat.S_ISDIR(found.st_mode) else [step.path]
        yield from (f"{os.fsdecode(path)} is in the way there" for path in inside if path not in known)


def _has(seat: Seat, name: str) -> bool:
    return os.path.lexists(os.path.join(seat.admin, name))


def _tampered(repository: Repository, seat: Seat) -> tuple[str, ...]:
    if os.path.realpath(seat.admin) != repository.common:
        return state_of(repository, seat.path, seat.admin).tampered
    return () if real(os.path.join(seat.path, ".git")) == repository.common else (".git",)


def _marked(view: View, copy: str) -> Iterator[str]:
    """Files that git does not compare: in conflict, sparse, or said to be unchanged."""
    for row in view.git("ls-files", "-v", "-z", index=copy).split(b"\0"):
        tag, path = os.fsdecode(row[:1]), os.fsdecode(row[2:])
        if tag not in ("", "H"):
            yield TAGS.get(tag, TAGS[""]).format(path)


def _submodules(view: View, seat: Seat, copy: str) -> Iterator[str]:
    for row in view.git("ls-files", "-s", "-z", index=copy).split(b"\0"):
        head, _, path = row.partition(b"\t")
        if not head.startswith(GITLINK + b" "):
            continue
        folder = os.path.join(seat.path, os.fsdecode(path))
        git_folder = git_folder_of(folder) if os.path.isdir(folder) else None
        if git_folder is not None and _differs(view, Nested(path=folder, git_folder=git_folder), head.split(b" ")[1]):
            yield f"the submodule {os.fsdecode(path)} is changed there"


def _differs(view: View, nested: Nested, linked: bytes) -> bool:
    """Whether a submodule is at another commit, or anything in it is changed; git is not run by its settings."""
    head = nested.head(view)
    if head is None or head.encode() != linked:
        return True
    index = os.path.join(view.path, f"submodule-{os.urandom(6).hex()}")
    try:
        view.git("read-tree", head, index=index, env=nested.env)
        words = ("ls-files", "-z", "-o", "-m", "-d", "--exclude-standard")
        return bool(view.git(*words, tree=nested.path, index=index, env=nested.env))
    finally:
        if os.path.lexists(index):
            os.unlink(index)  # noqa: PTH108


def _unwritable(view: View, seat: Seat, steps: list[Step], new: str, copy: str) -> Iterator[str]:
    """Files that only a program of the user's makes into what they are in a checkout."""
    for step in steps:
        if GITLINK in (step.mode, step.new_mode) and os.path.lexists(os.path.join(os.fsencode(seat.path), step.path)):
            yield f"the submodule {os.fsdecode(step.path)} would change there"
    for file in _other_attributes(view.repository):
        if ABOUT_BYTES.search(read_plain(file, 1 << 20)):
            yield f"{file} says how files are written, which fleet does not obey"
    index = f"{copy}.new"
    view.git("read-tree", new, index=index)
    asked = b"\0".join(step.path for step in steps if not step.goes)
    told = view.git("check-attr", "--cached", "-z", "--stdin", "filter", index=index, stdin=asked).split(b"\0")
    os.unlink(index)  # noqa: PTH108
    known = {b"unspecified", b"unset", *_filters(view)}
    for path, value in zip(told[::3], told[2::3], strict=False):
        if value not in known:
            yield f"the filter {os.fsdecode(value)} of {os.fsdecode(path)} is not fleet's to run"


def _filters(view: View) -> list[bytes]:
    told = view.git("config", "--name-only", "--get-regexp", r"^filter\..*\.smudge$", allow=(1,))
    return [line.removeprefix(b"filter.").removesuffix(b".smudge") for line in told.splitlines()]


def _other_attributes(repository: Repository) -> list[str]:
    """The files with attributes that are in no tree: the repository's, and the user's for all repositories."""
    env = {"GIT_DIR": repository.common}
    told = git("config", "--type=path", "--get", "core.attributesFile", cwd="/", env=env, allow=(1,))
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.environ.get("HOME", ""), ".config")
    theirs = os.fsdecode(told.strip()) or os.path.join(settings, "git", "attributes")
    return [os.path.join(repository.common, "info", "attributes"), theirs]


def _names(told: bytes) -> list[str]:
    return [os.fsdecode(name) for name in told.split(b"\0") if name]


def _above(path: bytes) -> list[bytes]:
    parts = path.split(b"/")
    return [b"/".join(parts[:count]) for count in range(1, len(parts))]


def _files_in(root: str, folder: bytes) -> Iterator[bytes]:
    top = os.fsencode(root)
    for place, folders, files in os.walk(os.path.join(top, folder)):
        inner = [name for name in folders if os.path.islink(os.path.join(place, name))]  # noqa: PTH114
        yield from (os.path.relpath(os.path.join(place, name), top) for name in (*files, *inner))
