"""A real bd that is asked each question once: the same call on the same folder is answered from memory.

A process of bd takes a quarter of a second of a processor, nearly all of it to open its database, and most tests of a
queue begin with the same calls on the same empty folder. What bd answered, and every byte that it left in the folder,
is kept for a while; whatever differs in the folder, the words, the actor or what is read from stdin is a call that bd
has not heard, and bd itself is run. Nothing is kept from one run of the tests to the next.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from fleet.store.beads import BeadsQueue
from fleet.store.beads_program import Answer, Bd

#: Leases in what bd left last five minutes: nothing is remembered so long that one could be over.
FRESH_SECONDS = 240.0

Files = dict[str, bytes]


class Remembered(NamedTuple):
    """What bd answered to a call, what it left in its folder, and when."""

    answer: Answer
    files: Files
    at: float


class RememberedBd(Bd):
    """A bd and its folder. Only one of a folder's bds may be at work at a time."""

    _known: dict[bytes, Remembered] = {}  # noqa: RUF012 - one for all of this process's folders

    def _once(self, argv: Sequence[str], actor: str, text: str, seconds: float) -> Answer:
        before = _files(self.folder)
        call = _digest(self.program, *argv, "", actor, text, files=before)
        now = time.monotonic()
        found = self._known.get(call)
        if found is not None and now - found.at < FRESH_SECONDS:
            _write(self.folder, before, found.files)
            return found.answer
        answer = super()._once(argv, actor, text, seconds)
        if not answer.code or not answer.is_passing:
            after = _files(self.folder)
            kept = {name: before[name] if before.get(name) == data else data for name, data in after.items()}
            self._forget(now)
            self._known[call] = Remembered(answer, kept, now)
        return answer

    def _forget(self, now: float) -> None:
        """Keep no more than can still be used: a thousand folders take some room."""
        for call, found in list(self._known.items()):  # the oldest come first
            if now - found.at < FRESH_SECONDS:
                return
            del self._known[call]


class RememberedBeadsQueue(BeadsQueue):
    """A queue in beads whose bd is asked each question once."""

    def __init__(self, home: Path, now: Callable[[], datetime]) -> None:
        self._remembered: RememberedBd | None = None
        super().__init__(str(home / "fleet.db"), str(home / ".beads"), now=now)

    @property
    def bd(self) -> Bd:
        if self._remembered is None:
            found = super().bd
            self._remembered = RememberedBd(found.program, found.folder)
        return self._remembered


def _digest(*words: str, files: Files) -> bytes:
    whole = hashlib.sha256()
    for part in (*(word.encode() for word in words), *(part for pair in sorted(files.items()) for part in _pair(pair))):
        whole.update(b"%d:" % len(part) + part)
    return whole.digest()


def _pair(pair: tuple[str, bytes]) -> tuple[bytes, bytes]:
    return pair[0].encode(), pair[1]


def _files(folder: str) -> Files:
    root = Path(folder)
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def _write(folder: str, before: Files, after: Files) -> None:
    for name in before.keys() - after.keys():
        Path(folder, name).unlink()
    for name, data in after.items():
        if before.get(name) != data:
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
