"""Atomic changes of settings files, one writer at a time, with a copy of replaced content."""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path as File
from typing import Any

from fleet.core.errors import FleetError
from fleet.files import atomic_write, read_small
from fleet.settings.keys import HOME, Path, Scope
from fleet.settings.load import parse
from fleet.settings.text import default_text, with_values


def save(path: str, scope: Scope, changes: Mapping[Path, Any]) -> bool:
    """Change some settings of a file, which is created if it is missing. Return True if the file changed."""
    with _lock_settings(path):
        old = read_bytes(path)
        start = default_text(scope).encode() if old is None else old
        parse(start, path)
        new = with_values(start.decode(), changes, scope).encode()
        if new != old:
            atomic_write(path, new, _mode(path, scope))
        return new != old


def create(path: str, scope: Scope) -> bool:
    """Write the explained defaults if the file does not exist. Return True if it was created."""
    return not os.path.lexists(path) and save(path, scope, {})


def reset(path: str, scope: Scope) -> str | None:
    """Overwrite a file with the explained defaults. Return the path of its backup, or None if none was needed."""
    with _lock_settings(path):
        old, new = read_bytes(path), default_text(scope).encode()
        if old == new:
            return None
        copy = keep_copy(path, old) if old is not None else None
        atomic_write(path, new, _mode(path, scope))
        return copy


def keep_copy(path: str, data: bytes) -> str:
    """Write data to the first free backup name of `path`. Return that name."""
    number = 1
    while os.path.lexists(f"{path}.bak-{number}"):
        number += 1
    atomic_write(f"{path}.bak-{number}", data)
    return f"{path}.bak-{number}"


def read_bytes(path: str) -> bytes | None:
    try:
        return read_small(path)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not File(path).is_symlink():
            return None
        raise FleetError(f"cannot read {path}: {error.strerror}") from error


@contextmanager
def _lock_settings(path: str) -> Iterator[None]:
    folder = File(path).parent
    try:
        folder.mkdir(0o755, parents=True, exist_ok=True)  # no other user may write there, whatever the umask
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise FleetError(f"cannot write {path}: {error.strerror}") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _mode(path: str, scope: Scope) -> int:
    if File(path).exists():
        return File(path).stat().st_mode & 0o777
    return 0o600 if scope == HOME else 0o644
