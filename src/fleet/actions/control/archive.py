"""The archive file of a backup: allowed member names, and reads and writes that do not follow links."""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
import zlib
from typing import TYPE_CHECKING

from fleet.core.errors import BadInput, FleetError
from fleet.core.jsontext import decode
from fleet.files import NotPlain, open_plain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

FORMAT = 1
MANIFEST, HOME, BUNDLES = "manifest.json", "home/", "repositories/"
#: Settings files of a home.
SETTINGS = ("runtime.toml", "host", "name", "queue")
FOLDERS = ("templates", "tasks", ".beads")
LONGEST_MANIFEST = 64 << 20
CHUNK = 1 << 20
#: Files that shims keep beside their output: sockets, locks, and start specifications, which contain secrets.
OF_SHIMS = frozenset(("lock", "control", "spec.json", "starting"))
RUNS = frozenset(("runs", "setup", "teardown", "verify"))


class Steady:
    """A reader that returns exactly `size` bytes, even if the file grows or shrinks meanwhile."""

    def __init__(self, handle: int, size: int) -> None:
        self._handle, self._left = handle, size

    def read(self, most: int) -> bytes:
        """Return the next part. If the file was truncated, pad with zero bytes."""
        wanted, data = min(most, self._left), b""
        while len(data) < wanted and (part := os.read(self._handle, wanted - len(data))):
            data += part
        self._left -= wanted
        return data.ljust(wanted, b"\0")


def add_folder(tar: tarfile.TarFile, folder: str, name: str, left_out: list[str]) -> Iterator[int]:
    """Add the regular files below a folder and yield the size of each.

    Add the names of links and special files to `left_out`.
    """
    for root, folders, files, handle in os.fwalk(folder, follow_symlinks=False):
        inside = os.path.relpath(root, folder)
        place = name if inside == "." else f"{name}/{inside}"
        left_out += [_shown(f"{place}/{each}") for each in folders if stat.S_ISLNK(_mode(each, handle))]
        for each in sorted(files):
            if _is_of_shim(f"{place}/{each}"):
                continue
            if not stat.S_ISREG(_mode(each, handle)):
                left_out.append(_shown(f"{place}/{each}"))
                continue
            size = add_file(tar, each, f"{place}/{each}", folder=handle)
            if size is not None:
                yield size


def add_file(tar: tarfile.TarFile, path: str, name: str, *, folder: int | None = None) -> int | None:
    """Add one regular file and return its size. Return None if it no longer exists or is not a regular file."""
    try:
        handle = open_plain(path, folder=folder)
    except (FileNotFoundError, NotPlain):
        return None
    try:
        found = os.fstat(handle)
        member = tarfile.TarInfo(name)
        member.size, member.mtime, member.mode = found.st_size, int(found.st_mtime), 0o600 | (found.st_mode & 0o100)
        tar.addfile(member, Steady(handle, found.st_size))  # type: ignore[arg-type]
        return found.st_size
    finally:
        os.close(handle)


def checked(path: str) -> dict[str, Any]:
    """Read a backup to its end and return its manifest. Raises BadInput if the backup is damaged, invalid or unsafe."""
    hint = "pass a file that `fleet backup` wrote"
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
            raise BadInput(f"cannot read {path}: it is not a regular file", hint=hint)
        with gzip.open(path) as whole:  # reads to the end: the gzip checksum is there, and `tarfile` does not check it
            while whole.read(CHUNK):
                pass
        manifest: Any = None
        with tarfile.open(path, "r:gz") as tar:
            for member in tar:
                _refuse(member)
                if member.name == MANIFEST:
                    file = tar.extractfile(member)
                    assert file is not None
                    manifest = decode(file.read(LONGEST_MANIFEST).decode("utf-8", "surrogateescape"))
    except (tarfile.TarError, zlib.error, gzip.BadGzipFile, EOFError, ValueError) as error:
        raise BadInput(f"{path} is not a whole backup: {error}", hint=hint) from error
    except OSError as error:
        raise FleetError(f"cannot read {path}: {error.strerror or error}", hint=hint) from error
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT or not _is_sensible(manifest):
        raise BadInput(f"{path} is not a backup that this fleet can read", hint=hint)
    return manifest


def is_backup(path: str) -> bool:
    """Return True if a file starts like a backup."""
    try:
        with os.fdopen(open_plain(path), "rb") as file, tarfile.open(fileobj=file, mode="r|gz") as tar:
            first = tar.next()
        return first is not None and (first.name == MANIFEST or first.name.startswith(HOME))
    except (OSError, tarfile.TarError, EOFError, zlib.error):
        return False


def _is_sensible(manifest: dict[str, Any]) -> bool:
    """Return True if the manifest's list of repositories has the expected structure."""
    said = manifest.get("repositories")
    return isinstance(said, list) and all(
        isinstance(each, dict)
        and all(isinstance(each.get(name), str) for name in ("path", "common", "bundle"))
        and all(os.path.isabs(each[name]) for name in ("path", "common"))  # noqa: PTH117
        and isinstance(each.get("refs"), dict)
        and all(isinstance(commit, str) for commit in each["refs"].values())
        for each in said
    )


def _refuse(member: tarfile.TarInfo) -> None:
    """Raise BadInput for a member that no backup of fleet contains."""
    parts = member.name.split("/")
    if not member.isreg():
        raise BadInput(
            f"the backup holds {member.name!r}, which is not a plain file",
            hint="use another backup; nothing was restored",
        )
    known = member.name == MANIFEST or member.name.startswith((HOME, BUNDLES))
    if member.name.startswith("/") or not known or any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise BadInput(
            f"the backup holds {member.name!r}, which is not a file of a backup",
            hint="use another backup; nothing was restored",
        )


def _shown(name: str) -> str:
    """Return a file name, which can contain any byte, as printable text."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def _mode(name: str, folder: int) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return 0


def _is_of_shim(name: str) -> bool:
    """Return True if a file belongs to a shim, such as `home/tasks/<id>/runs/<n>/lock`."""
    parts = name.split("/")
    return len(parts) == 6 and parts[1] == "tasks" and parts[3] in RUNS and parts[5] in OF_SHIMS
