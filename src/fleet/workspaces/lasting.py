"""Git processes that answer one question after another, where one process asks the same of a repository all day.

Starting git takes longer than most of what it is asked. A supervisor keeps the few that can be asked again; whoever is
here for one command starts git for it. One that gives no answer, for whatever reason, is started anew for the next
question; who asked starts git for this one, and so hears from it what is wrong.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import threading
import time
from typing import TYPE_CHECKING

from fleet.workspaces.git import PATIENCE_SECONDS, SAFE, GitFault, environment, program
from fleet.workspaces.view import ALONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fleet.workspaces.view import View

#: How many there are at most, and for how long one that nobody asks anything stays.
MOST, IDLE_SECONDS = 16, 60.0
CHUNK = 1 << 16
#: How long one may take to end by itself.
END_SECONDS = 5.0


class Lasting:
    """One git process; whoever asks has it alone until the answer is there."""

    def __init__(self, view: View, words: tuple[str, ...]) -> None:
        self._words = words
        env = environment(ALONE | {"GIT_DIR": os.path.abspath(view.path)})  # noqa: PTH100
        self._process = subprocess.Popen(
            [program(env.get("PATH", os.defpath)), *SAFE, *words],
            cwd="/",
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        self._alone = threading.Lock()
        self.asked_at = time.monotonic()

    def ask(self, question: bytes, is_whole: Callable[[bytearray], bool], most: int) -> bytes:
        """What it says to a question, once that is whole; more than `most` bytes are cut, and git is ended.

        Raises GitFault when it ended instead, or does not answer.
        """
        with self._alone:
            self.asked_at = time.monotonic()
            try:
                return self._answer(question, is_whole, most)
            except (OSError, ValueError) as error:  # it is gone, or was closed
                self.close()
                raise GitFault(self._words, 128, str(error)) from error
            except BaseException:  # whatever is left of the answer would be taken for the next one
                self.close()
                raise

    def _answer(self, question: bytes, is_whole: Callable[[bytearray], bool], most: int) -> bytes:
        assert self._process.stdin is not None and self._process.stdout is not None
        told, deadline, output = bytearray(), time.monotonic() + PATIENCE_SECONDS, self._process.stdout.fileno()
        ready = select.poll()
        ready.register(output, select.POLLIN)
        self._process.stdin.write(question)
        while not is_whole(told):
            if not ready.poll(max(0.0, deadline - time.monotonic()) * 1000):
                raise GitFault(self._words, 128, f"no answer in {PATIENCE_SECONDS:g} s")
            part = os.read(output, CHUNK)
            if not part:
                raise GitFault(self._words, 128, "it ended before it had answered")
            told += part
            if len(told) > most:
                self.close()
                break
        return bytes(told)

    @property
    def is_there(self) -> bool:
        """Whether it can be asked."""
        return self._process.poll() is None

    def end(self) -> None:
        """Have it end once nobody waits for an answer."""
        with self._alone:
            self.close()

    def close(self) -> None:
        """Have it end, whoever waits; may be called twice."""
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()
        # Killed, it would leave its locks in the user's repository; without anybody at its ends it goes by itself.
        for insist in (self._process.terminate, self._process.kill):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(END_SECONDS)
                return
            insist()
        self._process.wait()


class _Shelf:
    """Those that are kept, by the repository and the words they were started with."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, ...], Lasting] = {}
        self._lock = threading.Lock()

    def get(self, view: View, words: tuple[str, ...]) -> Lasting:
        """One that can be asked."""
        key = (view.path, *words)
        with self._lock:
            found = self._kept.pop(key, None)
            gone = [] if found is None or found.is_there else [found]
            if found is None or gone:
                found = Lasting(view, words)
            self._kept[key] = found  # the last is the one that was asked last
            gone += [self._kept.pop(each) for each in list(self._kept)[: max(0, len(self._kept) - MOST)]]
        _close(gone)
        return found

    def tidy(self, seconds: float) -> None:
        """End those that were asked nothing for so long."""
        before = time.monotonic() - seconds
        with self._lock:
            idle = [key for key, each in self._kept.items() if each.asked_at <= before]
            gone = [self._kept.pop(key) for key in idle]
        _close(gone)


_shelf: _Shelf | None = None


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """While this lasts, processes that were asked once stay for the next question."""
    global _shelf
    _shelf = shelf = _Shelf()
    try:
        yield
    finally:
        _shelf = None
        shelf.tidy(0.0)


def tidy() -> None:
    """End those that nobody asks anything any more."""
    if _shelf is not None:
        _shelf.tidy(IDLE_SECONDS)


def lasting(view: View, *words: str) -> Lasting | None:
    """A process of git with these words that is there to be asked; none where none is kept."""
    if _shelf is None:
        return None
    view.make()
    return _shelf.get(view, words)


def _close(gone: list[Lasting]) -> None:
    for each in gone:
        each.end()
