"""Answers to the questions that coders ask before the first work, written into their own files.

Other programs write the same files at the same time: fleets of other hosts, and the coders themselves. Existing content
is kept.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import stat
import time
import tomllib
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.files import NotPlain, atomic_write, open_plain

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from fleet.coders.base import Coder

LARGEST_FILE = 64 * 1024 * 1024
#: The longest time that a coder holds its lock, and the longest time to wait for the lock.
STALE_SECONDS, PATIENCE_SECONDS = 10.0, 20.0


def pre_answer(coder: Coder, folder: str, cwd: str, env: Mapping[str, str]) -> None:
    """Write the answers for work in `cwd` into an account's folder. Raises FleetError."""
    _merge(folder, coder.answered(folder, os.path.realpath(cwd), env))


def trust_folder(coder: Coder, config_folder: str, folder: str) -> bool:
    """Make a coder trust a directory and those below it. Return False if fleet cannot do that. Raises FleetError."""
    wanted = coder.trusted(os.path.realpath(folder)) if config_folder else {}
    _merge(config_folder, wanted)
    return bool(wanted)


def _merge(folder: str, wanted: Mapping[str, dict[str, Any]]) -> None:
    for name, values in wanted.items():
        path = _within(folder, name)
        Path(path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(path):
            text, mode = _read(path)
            made = _toml(path, text, values) if name.endswith(".toml") else _json(path, text, values)
            if made != text:
                atomic_write(path, made.encode(), mode)


def _within(folder: str, name: str) -> str:
    """Return the path of a file in `folder`. Raises FleetError if a link leads elsewhere."""
    root = os.path.realpath(folder)
    path = f"{root}/{name}"
    if os.path.realpath(path) != path:
        raise FleetError(
            f"{folder}/{name} is a link or behind a link: fleet does not write there",
            hint="answer the coder's questions yourself, in its own window",
        )
    return path


@contextmanager
def _alone(path: str) -> Iterator[None]:
    """Lock the file against other fleets, and against coders that lock it as claude does: by a directory beside it."""
    handle = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # noqa: PTH120
    lock = Path(f"{path}.lock")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        _make(lock)
        try:
            yield
        finally:
            with suppress(OSError):
                lock.rmdir()
    finally:
        os.close(handle)


def _make(lock: Path) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            lock.mkdir(mode=0o700)
            return
        except FileExistsError:
            pass
        with suppress(OSError):
            if time.time() - lock.stat().st_mtime > STALE_SECONDS:  # its creator died
                lock.rmdir()
                continue
        if time.monotonic() > end:
            raise FleetError(f"{lock} is held by another program", hint="remove it if nothing uses it any more")
        time.sleep(0.02)


def _read(path: str) -> tuple[str, int]:
    """Return a file's text and mode. The text is empty if the file does not exist."""
    try:
        handle = open_plain(path)
    except FileNotFoundError:
        return "", 0o600
    except NotPlain as error:
        raise _broken(path, "is not a file that a coder wrote") from error
    except OSError as error:
        raise FleetError(f"cannot read {path}: {error.strerror}", hint="inspect the path") from error
    with open(handle, "rb") as file:  # noqa: PTH123 - a descriptor
        found = os.fstat(handle)
        if found.st_size > LARGEST_FILE:
            raise _broken(path, "is not a file that a coder wrote")
        try:
            return file.read(LARGEST_FILE).decode(), stat.S_IMODE(found.st_mode)
        except UnicodeDecodeError:
            raise _broken(path, "is not UTF-8") from None


def _json(path: str, text: str, wanted: dict[str, Any]) -> str:
    try:
        known = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError):
        raise _broken(path, "is not JSON") from None
    made = _merged(path, known, wanted)
    return text if made == known else json.dumps(made, indent=2, ensure_ascii=False) + "\n"


def _merged(path: str, known: Any, wanted: Any) -> Any:
    """Return `known` with `wanted` merged in: objects and lists are extended, all other values replaced."""
    if isinstance(wanted, dict):
        if not isinstance(known, dict):
            raise _broken(path, "has an unknown form: an object is missing")
        return known | {key: _merged(path, known.get(key, type(each)()), each) for key, each in wanted.items()}
    if isinstance(wanted, list) and isinstance(known, list):
        return [*known, *(each for each in wanted if each not in known)]
    return wanted


def _toml(path: str, text: str, wanted: dict[str, Any]) -> str:
    """Add lines to a TOML text and change nothing else, because rewriting it would lose its comments."""
    try:
        known = tomllib.loads(text)
    except (ValueError, RecursionError):
        raise _broken(path, "is not TOML") from None
    made = text
    for header, values in _tables("", wanted, known):
        lines = "".join(f"{_word(key)} = {_word(value)}\n" for key, value in values.items())
        place = re.search(rf"^[ \t]*\[{re.escape(header)}\][ \t]*(?:#[^\n]*)?(?:\n|\Z)", made, re.M)
        if place:
            made = f"{made[: place.end()].removesuffix(chr(10))}\n{lines}{made[place.end() :]}"
        else:
            made = f"{made.rstrip()}\n\n[{header}]\n{lines}".lstrip("\n")
    try:
        done = tomllib.loads(made) == _merged(path, known, wanted)
    except ValueError:
        done = False
    if not done:
        raise FleetError(f"cannot add to {path}: unknown form of its tables", hint=f"add {wanted} to it")
    return made


def _tables(name: str, wanted: dict[str, Any], known: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each table with its missing values. Nested tables come after their parents."""
    known = known if isinstance(known, dict) else {}
    plain = {key: value for key, value in wanted.items() if not isinstance(value, dict) and known.get(key) != value}
    if plain:
        yield name, plain
    for key, value in wanted.items():
        if isinstance(value, dict):
            bare = key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _word(key)
            yield from _tables(f"{name}.{bare}" if name else bare, value, known.get(key))


def _word(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _broken(path: str, what: str) -> FleetError:
    return FleetError(f"{path} {what}", hint="repair the file or move it away; fleet did not change it")
