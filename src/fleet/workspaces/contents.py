"""Adding files to a tree byte for byte. Attributes do not change the content, and any name can be stored."""

# Git's paths may contain any bytes.
# ruff: noqa: PTH118
from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fleet.workspaces.view import View

#: Names that git accepts in no tree, because some system would treat them as a repository's own folder.
REFUSED = re.compile(rb"(\.git|git~1)[ .]*(:.*)?", re.IGNORECASE | re.DOTALL)
#: Maximum number of paths in one call of git.
AT_ONCE = 5000


def put_files(view: View, root: str, index: str, files: Iterable[tuple[bytes, bytes]]) -> None:
    """Add files in their current state to an index: pairs of the path below `root` and the name in the index."""
    plain: list[tuple[bytes, bytes, bytes]] = []
    links: list[tuple[bytes, bytes]] = []
    for path, name in files:
        where = os.path.join(os.fsencode(root), path)
        mode = os.lstat(where).st_mode
        if stat.S_ISREG(mode) and not mode & stat.S_IRUSR:
            os.chmod(where, 0o600)  # noqa: PTH101
        if stat.S_ISLNK(mode):
            links.append((path, name))
        else:
            plain.append((b"100755" if mode & stat.S_IXUSR else b"100644", path, name))
    for some in _parts(plain):
        ids = _hashed(view, root, [path for _, path, _ in some])
        enter(view, index, [(mode, made, name) for (mode, _, name), made in zip(some, ids, strict=True)])
    for path, name in links:
        target = os.readlink(os.path.join(os.fsencode(root), path))  # noqa: PTH115
        made = view.git("hash-object", "-w", "--no-filters", "--stdin", stdin=target).strip()
        enter(view, index, [(b"120000", made, name)])


def drop_files(view: View, root: str, index: str, names: Iterable[bytes]) -> None:
    gone = b"\0".join(names)
    if gone:
        view.git("update-index", "-z", "--force-remove", "--stdin", tree=root, index=index, stdin=gone)


def enter(view: View, index: str, entries: list[tuple[bytes, bytes, bytes]]) -> None:
    """Add entries of mode, object and name to an index."""
    if not entries:
        return
    lines = b"".join(mode + b" " + made + b"\t" + name + b"\0" for mode, made, name in entries)
    view.git("update-index", "-z", "--index-info", index=index, stdin=lines)


def storable(path: bytes) -> bytes:
    """Return the path, or a similar one without parts that git refuses."""
    parts = path.split(b"/")
    return b"/".join(
        part.replace(b":", b"_").rstrip(b" .") + b"-saved" if REFUSED.fullmatch(part) else part for part in parts
    )


def _hashed(view: View, root: str, paths: list[bytes]) -> list[bytes]:
    asked = b"".join(_quoted(path) + b"\n" for path in paths)
    # Git resolves the names from its working directory.
    return view.git("hash-object", "-w", "--no-filters", "--stdin-paths", tree=root, stdin=asked).split()


def _quoted(path: bytes) -> bytes:
    """Return a path quoted as git reads it from a line."""
    return b'"' + b"".join(b"\\%03o" % byte if byte < 32 or byte in b'"\\' else bytes([byte]) for byte in path) + b'"'


def _parts(entries: list[tuple[bytes, bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes, bytes]]]:
    return (entries[first : first + AT_ONCE] for first in range(0, len(entries), AT_ONCE))
