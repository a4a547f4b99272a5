"""The parts of a repository that could make git run programs, read as data, so that changes can be detected.

These are the settings of the repository and of files that they include, its hooks, and `info/attributes`. Settings are
left out if ordinary work changes them and they run nothing (HARMLESS); all unknown settings count.

The hooks of another directory (core.hooksPath) are project files that change with branches. fleet never runs them: the
setting counts, the files do not. Files in the user's home do not belong to the repository.
"""

# ruff: noqa: PTH113, PTH115, PTH118, PTH208
from __future__ import annotations

import json
import os
import re
import stat
from typing import TYPE_CHECKING

from fleet.core.ids import sha256
from fleet.files import open_plain
from fleet.git.process import GitFault, git

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.git.repository import Repository

#: Of a longer file, the beginning and the length count.
LONGEST = 1 << 20
MOST_HOOKS = 500
#: Keys that people, agents and git itself change all the time and that cannot run programs.
HARMLESS = re.compile(
    r"branch\..*|remote\..*\.(fetch|push|prune|prunetags|tagopt|mirror|skipdefaultupdate|skipfetchall|promisor"
    r"|partialclonefilter|gh-resolved)|user\.(name|email)|submodule\..*\.(url|active|branch)|submodule\.active"
    r"|lfs\..*\.(access|locksverify)|lfs\.repositoryformatversion|color\..*|advice\..*|gui\..*|pull\.(rebase|ff)"
    r"|push\.(default|autosetupremote)|rerere\..*|maintenance\.(auto|strategy)|gc\.auto",
    re.DOTALL,
)


def snapshot(repository: Repository) -> dict[str, str]:
    """Return the hash of each relevant part, by a name that people understand."""
    common = repository.common
    found: dict[str, str] = {}
    for name in ("config", "config.worktree"):
        found |= _settings(common, name)
    found |= _hash_hooks(os.path.join(common, "hooks"))
    attributes = _hash_file(os.path.join(common, "info", "attributes"))
    return found | ({"info/attributes": attributes} if attributes else {})


def stamp(repository: Repository) -> str | None:
    """Return a hash of the bytes behind a snapshot. While it does not change, the snapshot does not either.

    Return None if settings include other files or are not plain files, so that git must be asked.
    """
    common = repository.common
    parts = [_read_plain(os.path.join(common, name)) for name in ("config", "config.worktree", "info/attributes")]
    if parts[0] is None or any(part is not None and b"include" in part.lower() for part in parts):
        return None
    hooks = json.dumps(_hash_hooks(os.path.join(common, "hooks")), sort_keys=True)
    return _hash_data(repr(parts).encode() + hooks.encode("utf-8", "surrogatepass"))


def _read_plain(path: str) -> bytes | None:
    if not os.path.isfile(path) or os.path.islink(path):  # noqa: PTH114
        return None
    with open(path, "rb") as file:  # noqa: PTH123
        return file.read(LONGEST)


def fingerprint(repository: Repository) -> str:
    return _hash_data(json.dumps(snapshot(repository), sort_keys=True).encode())


def what_changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the differences of two snapshots, in words. Empty if there are none."""
    words = []
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            verb = "added" if name not in before else "removed" if name not in after else "changed"
            words.append(f"{_format_name(name)} was {verb}")
    return words


def _settings(common: str, name: str) -> dict[str, str]:
    path = os.path.join(common, name)
    # Git would block on a pipe. It reads the first file whenever it reads the second.
    if not (os.path.isfile(path) and os.path.isfile(os.path.join(common, "config"))):
        return {name: _hash_file(path)} if os.path.lexists(path) else {}
    try:
        # Git only lists this file and its includes here, and obeys none of it.
        listed = git("config", "--file", path, "--includes", "--null", "--list", cwd="/", env={"GIT_DIR": common})
    except GitFault:
        return {name: _hash_file(path)}
    values: dict[str, list[str]] = {}
    for entry in os.fsdecode(listed).split("\0"):
        key, equals, value = entry.partition("\n")
        if key and not HARMLESS.fullmatch(key):
            values.setdefault(key, []).append(equals + value)
    prefix = "" if name == "config" else f"{name}: "
    return {f"{prefix}{key}": _hash_data(os.fsencode("\0".join(each))) for key, each in values.items()}


def _hash_hooks(folder: str) -> dict[str, str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return {}
    # Git does not run samples.
    real = [name for name in names if not name.endswith(".sample")]
    found = {f"hook {name}": _hash_file(os.path.join(folder, name)) for name in real[:MOST_HOOKS]}
    rest = json.dumps(real[MOST_HOOKS:]).encode()
    return found | ({"the list of hooks": _hash_data(rest)} if real[MOST_HOOKS:] else {})


def _hash_file(path: str) -> str:
    """Return a hash of a path.

    It covers a file with its executable bit, a link with its target, and the type of anything else.
    """
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return _hash_data(
                b"link " + os.fsencode(os.readlink(path)) + b"\0" + _read_beginning(os.path.realpath(path))
            )
        return _hash_data(b"%o %d " % (stat.S_IFMT(mode), bool(mode & 0o111)) + _read_beginning(path))
    except FileNotFoundError:
        return ""
    except OSError as error:
        return _hash_data(f"unreadable {error.errno}".encode())


def _read_beginning(path: str) -> bytes:
    # Do not block on a pipe.
    try:
        handle = open_plain(path, links=True)
    except OSError:
        return b""
    with open(handle, "rb") as file:  # noqa: PTH123 - a descriptor
        return b"%d " % os.fstat(handle).st_size + file.read(LONGEST)


def _format_name(name: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in name)[:120]


def _hash_data(data: bytes) -> str:
    return sha256(data)
