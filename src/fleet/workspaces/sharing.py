"""One look for all who ask at the same time: each gets one that began after it asked."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

#: How long ago a look may have begun that was meant for somebody who would ask soon.
RECENT_SECONDS = 0.5


class _Looks(Generic[T]):
    """The looks at one thing, numbered as they begin."""

    def __init__(self) -> None:
        self.begun = self.asking = 0
        self.is_looking = False
        self.found: tuple[int, T] | None = None  # the last look that found something, and what
        self.expected, self.expected_at = 0, 0.0  # the last one for somebody who would ask soon


class Shared(Generic[T]):
    """Looks that threads share: while one looks, the others wait, and then one looks for all of them."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._looks: dict[str, _Looks[T]] = {}

    def expect(self, key: str, call: Callable[[], T]) -> None:
        """Look for somebody who will ask soon; nothing where that is done already."""
        with self._turn:
            looks = self._looks.setdefault(key, _Looks())
            if _is_recent(looks) or looks.is_looking:
                return
            looks.expected, looks.expected_at = looks.begun + 1, time.monotonic()
        self.look(key, call)

    def look(self, key: str, call: Callable[[], T], *, recent: bool = False) -> T:
        """What a call finds that begins from now on; ours, or that of somebody who asked meanwhile.

        With `recent` one that was expected just now will do.
        """
        with self._turn:
            looks = self._looks.setdefault(key, _Looks())
            looks.asking += 1
            wanted = looks.expected if recent and _is_recent(looks) else looks.begun + 1
        try:
            with self._turn:
                while looks.is_looking and not _is_new(looks, wanted):
                    self._turn.wait()
                if looks.found is not None and _is_new(looks, wanted):
                    return looks.found[1]
                looks.is_looking = True
                looks.begun += 1
            return self._found(looks, call)
        finally:
            with self._turn:
                looks.asking -= 1
                for each in [each for each, old in self._looks.items() if not old.asking and not _is_recent(old)]:
                    del self._looks[each]

    def _found(self, looks: _Looks[T], call: Callable[[], T]) -> T:
        try:
            found = call()
            looks.found = (looks.begun, found)
            return found
        finally:
            with self._turn:
                looks.is_looking = False
                self._turn.notify_all()


def _is_new(looks: _Looks[T], wanted: int) -> bool:
    return looks.found is not None and looks.found[0] >= wanted


def _is_recent(looks: _Looks[T]) -> bool:
    return time.monotonic() - looks.expected_at < RECENT_SECONDS
