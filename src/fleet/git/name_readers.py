"""Long-lived `git cat-file --batch-check` processes, one for each repository, which resolve names.

A supervisor resolves names several times for each run, and starting git takes fifty times as long as the answer.
Commands ask once and keep no process. If a process does not answer, git is started for the question.
"""

# ruff: noqa: PTH116, PTH118
from __future__ import annotations

import contextlib
import os
import select
import subprocess
import threading
import time
from typing import TYPE_CHECKING

from fleet.git.process import PATIENCE_SECONDS, SAFE, environment, program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Git's output format for each object.
FORM = "--batch-check=%(objectname) %(objecttype)"
#: Maximum number of processes, and how long an unused process stays.
MOST, IDLE_SECONDS = 8, 60.0
#: How long a process may take to end after its input is closed.
END_SECONDS = 5.0
CHUNK = 1 << 16
#: Maximum number of names per request, and maximum length of each. Requests and answers of this size fit into a pipe.
AT_ONCE, LONGEST_NAME = 16, 256


class NoAnswer(Exception):
    """A process has ended or does not answer."""


class NameReader:
    """One process, used by one thread at a time."""

    def __init__(self, git_dir: str, env: Mapping[str, str]) -> None:
        full = environment({**env, "GIT_DIR": os.path.abspath(git_dir)})  # noqa: PTH100
        self._process = subprocess.Popen(
            [program(full.get("PATH", os.defpath)), *SAFE, "cat-file", FORM],
            cwd="/",
            env=full,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self._lock = threading.Lock()
        self._is_closed = False
        self.asked_at = time.monotonic()

    def ask(self, names: Sequence[bytes]) -> list[bytes]:
        """Return git's line for each name. Raises NoAnswer; the process has then ended."""
        with self._lock:
            self.asked_at = time.monotonic()
            try:
                parts = [names[start : start + AT_ONCE] for start in range(0, len(names), AT_ONCE)]
                return [line for part in parts for line in self._read_answer(part)]
            except (OSError, ValueError) as error:
                self._end_process()
                raise NoAnswer from error
            except BaseException:  # the rest of this answer would be read as the next one
                self._end_process()
                raise

    def _read_answer(self, names: Sequence[bytes]) -> list[bytes]:
        given, told = self._process.stdin, self._process.stdout
        assert given is not None and told is not None
        found, deadline = bytearray(), time.monotonic() + PATIENCE_SECONDS
        ready = select.poll()
        ready.register(told, select.POLLIN)
        given.write(b"".join(name + b"\n" for name in names))
        while found.count(b"\n") < len(names):
            if not ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise NoAnswer
            part = os.read(told.fileno(), CHUNK)
            if not part:
                raise NoAnswer
            found += part
        return bytes(found).split(b"\n")[:-1]

    def end(self) -> None:
        """End the process after any pending answer."""
        with self._lock:
            self._end_process()

    def _end_process(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class NameReaders:
    """The processes of a supervisor, by repository."""

    def __init__(self) -> None:
        self._readers: dict[str, tuple[NameReader, object]] = {}
        self._lock = threading.Lock()

    def ask(self, git_dir: str, env: Mapping[str, str], names: Sequence[bytes]) -> list[bytes]:
        """Return git's line for each name. Raises NoAnswer, OSError."""
        reader = self._reader(git_dir, env)
        try:
            return reader.ask(names)
        except NoAnswer:
            with self._lock:
                if self._readers.get(git_dir, (None,))[0] is reader:
                    del self._readers[git_dir]
            raise

    def end_idle(self, seconds: float) -> None:
        """End the processes that were not used for `seconds`."""
        before = time.monotonic() - seconds
        with self._lock:
            idle = [key for key, (reader, _) in self._readers.items() if reader.asked_at <= before]
            ended = [self._readers.pop(key)[0] for key in idle]
        for reader in ended:
            reader.end()

    def _reader(self, git_dir: str, env: Mapping[str, str]) -> NameReader:
        state = _read_state(git_dir)
        ended: list[NameReader] = []
        with self._lock:
            known = self._readers.pop(git_dir, None)
            if known is not None and known[1] != state:
                ended.append(known[0])
                known = None
            known = known or (NameReader(git_dir, env), state)
            self._readers[git_dir] = known  # the last entry is the most recently used
            while len(self._readers) > MOST:
                ended.append(self._readers.pop(next(iter(self._readers)))[0])
        for reader in ended:
            reader.end()
        return known[0]


_readers: NameReaders | None = None


@contextlib.contextmanager
def keep_name_readers() -> Iterator[None]:
    """Keep the processes that answer `ask_reader`, until the block ends."""
    global _readers
    _readers = readers = NameReaders()
    try:
        yield
    finally:
        _readers = None
        readers.end_idle(0.0)


def end_idle_readers() -> None:
    """End the processes that were not used for a while, because they keep files of their repositories open."""
    if _readers is not None:
        _readers.end_idle(IDLE_SECONDS)


def ask_reader(git_dir: str, env: Mapping[str, str], names: Sequence[bytes]) -> list[bytes] | None:
    """Return git's line for each name, or None if git must be started instead."""
    if _readers is None or any(len(name) >= LONGEST_NAME or b"\n" in name for name in names):
        return None
    with contextlib.suppress(NoAnswer, OSError):
        return _readers.ask(git_dir, env, names)
    return None


def _read_state(git_dir: str) -> object:
    """Return the state that a process read only once: the settings and the list of packs."""
    seen = (os.stat(os.path.join(git_dir, name)) for name in ("config", "objects/pack"))
    return [(each.st_dev, each.st_ino, each.st_mtime_ns) for each in seen]
