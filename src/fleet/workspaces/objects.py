"""Objects written without a process, as git writes them, and the trees of commits, each asked for once."""

# ruff: noqa: PTH102, PTH104, PTH108, PTH118
from __future__ import annotations

import contextlib
import hashlib
import os
import time
import zlib
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.errors import FleetError
from fleet.workspaces.known import know, known_tree

if TYPE_CHECKING:
    from fleet.workspaces.view import View

WHO = "fleet <fleet@localhost>"
SHA1 = 40
MOST_WRITTEN = 20_000


class Written(NamedTuple):
    """A commit that was written here."""

    parents: tuple[str, ...]
    message: str
    at: float


_written: dict[str, Written] = {}


def tree_of(view: View, commit: str) -> str:
    """The tree of a commit. Raises GitFault."""
    return known_tree(commit) or know(commit, view.text("rev-parse", "--verify", f"{commit}^{{tree}}"))


def written(commit: str) -> Written | None:
    """What was written here as this commit, if it was."""
    return _written.get(commit)


def write_commit(view: View, tree: str, parents: tuple[str, ...], message: str) -> str:
    """A commit of fleet's, which no branch has yet; its id. Raises GitFault, FleetError."""
    now = time.time()
    if len(tree) != SHA1:
        more = [word for parent in parents for word in ("-p", parent)]
        made = view.git("commit-tree", tree, *more, "-F", "-", stdin=os.fsencode(message)).decode().strip()
    else:
        when = f"{int(now)} {time.strftime('%z', time.localtime(now))}"
        lines = [f"tree {tree}", *(f"parent {parent}" for parent in parents), f"author {WHO} {when}"]
        made = write_object(view, b"commit", os.fsencode("\n".join((*lines, f"committer {WHO} {when}", "", message))))
    know(made, tree)
    if len(_written) >= MOST_WRITTEN:
        _written.clear()
    _written[made] = Written(parents, message, now)
    return made


def write_object(view: View, kind: bytes, body: bytes) -> str:
    """Put an object into the repository, as git does; its id. Raises FleetError."""
    data = b"%s %d\0%s" % (kind, len(body), body)
    name = hashlib.sha1(data, usedforsecurity=False).hexdigest()
    view.make()
    folder = os.path.join(view.path, "objects", name[:2])
    path, draft = os.path.join(folder, name[2:]), os.path.join(folder, f"tmp_obj_{os.urandom(6).hex()}")
    if os.path.lexists(path):
        return name
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o444)
        try:
            os.write(handle, zlib.compress(data, 1))
        finally:
            os.close(handle)
        os.rename(draft, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(draft)
        raise FleetError(
            f"a {kind.decode()} cannot be written: {error.strerror}", hint="see that the disk has room."
        ) from error
    return name
