"""What was started, and the state before, kept with the run from its start for its receipt (E1)."""

from __future__ import annotations

import hashlib
import os
import shutil
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.core.jsontext import decode, encode
from fleet.core.receipt import hash_of
from fleet.git.repository import Repository, find_repository
from fleet.git.trust import stamp
from fleet.git.view import View
from fleet.proof.scope import primary

if TYPE_CHECKING:
    from typing import Any

    from fleet.agents.base import LaunchSpec
    from fleet.core.run import Run
    from fleet.home import Home

CHUNK = 1 << 20
#: A larger program is identified only by its path.
LARGEST_PROGRAM = 1 << 30
#: Keys that are compared at the end and do not help a reader of the receipt.
MARKS = ("primary", "reach", "events_at", "others", "coder_files")

_hashes: dict[tuple[str, int, int, int, int], str] = {}


def spawned(
    home: Home, run: Run, spec: LaunchSpec, *, repository: Repository | None, mark: str, reach: str, others: int
) -> str:
    """Return the record of a start as JSON, with the repository of its directory and the mark of its main checkout.

    `reach` is the mark of what its verify command can reach.
    """
    program = shutil.which(spec.argv[0], path=spec.env.get("PATH")) or ""
    program = os.path.realpath(program) if program else ""
    told: dict[str, Any] = {
        "argv_hash": hash_of("\0".join(spec.argv)),
        "program": program or spec.argv[0],
        "program_hash": program_hash(program) if program else "",
        "version": "",
        "base_commit": run.base_commit,
        "repository": "",
        "started_at": run.started_at.isoformat(),
        "others": others,
        "events_at": size_of(_events_path(home, run)),
    }
    if reach:
        told |= {"reach": reach}
    if repository is not None:
        told |= {"repository": stamp(repository) or "", "primary": mark}
    return encode(told)


def marked(home: Home, cwd: str, repository: Repository | None) -> tuple[Repository | None, str]:
    """Return the given repository or that of a directory, with a mark of its main checkout for a later comparison."""
    found = repository or directory_repository(home, cwd)
    return found, primary.mark(View(home, found)) if found is not None else ""


def spawn_of(run: Run) -> dict[str, Any]:
    """Return the record of a run's start. Return an empty dict for a run of an old fleet without such a record."""
    try:
        told = decode(run.spawn) if run.spawn else {}
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def begun_now(home: Home, run: Run) -> str:
    """Return the record of a run's start as JSON, with the events of the run counted from now on."""
    return encode(spawn_of(run) | {"events_at": size_of(_events_path(home, run))})


def piece(run: Run) -> dict[str, Any]:
    """Return the record of a run's start as a part of the receipt."""
    return {name: value for name, value in spawn_of(run).items() if name not in MARKS}


def program_hash(path: str) -> str:
    """Return the hash of a program's file. An unchanged file is not read again. Return "" if it cannot be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123
            found = os.fstat(file.fileno())
            key = (path, found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
            if key not in _hashes and found.st_size <= LARGEST_PROGRAM:
                digest = hashlib.sha256()
                while part := file.read(CHUNK):
                    digest.update(part)
                _hashes[key] = digest.hexdigest()
            return _hashes.get(key, "")
    except OSError:
        return ""


def size_of(path: str) -> int:
    """Return the size of a file. Return 0 if the file does not exist."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _events_path(home: Home, run: Run) -> str:
    return os.path.join(home.task(run.task_id), "events.jsonl")  # noqa: PTH118


def directory_repository(home: Home, cwd: str) -> Repository | None:
    """Return the repository whose main checkout contains a plain directory.

    Return None if there is nothing to compare.
    """
    if home.contains(cwd):
        return None
    try:
        found = find_repository(cwd)
    except (FleetError, OSError):
        return None
    # For a user's own worktree or a bare repository, the main checkout is irrelevant.
    inside = os.path.join(os.path.realpath(cwd), "").startswith(os.path.join(found.top, ""))  # noqa: PTH118
    return found if inside and found.top != found.common and not _is_elsewhere(cwd, found.top) else None


def _is_elsewhere(cwd: str, top: str) -> bool:
    """Return True if another checkout is between a directory and the top of its repository."""
    folder = os.path.realpath(cwd)
    while folder != top:
        if os.path.lexists(os.path.join(folder, ".git")):  # noqa: PTH118
            return True
        folder = os.path.dirname(folder)  # noqa: PTH120
    return False
