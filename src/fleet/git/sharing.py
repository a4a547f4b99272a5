"""Sharing the result of a call among threads: each thread gets a result whose call began after its request."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class _Looks(Generic[T]):
    """The calls for one key, numbered as they begin."""

    def __init__(self) -> None:
        self.begun = self.asking = 0
        self.is_looking = False
        self.found: tuple[int, T] | None = None  # the number and result of the last successful call


class SharedCalls(Generic[T]):
    """Calls shared by threads: while one thread runs a call, others wait, and then one runs a call for all of them."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._looks: dict[str, _Looks[T]] = {}

    def look(self, key: str, call: Callable[[], T]) -> T:
        """Return the result of a call that begins after this request, either ours or another thread's."""
        with self._turn:
            looks = self._looks.setdefault(key, _Looks())
            looks.asking += 1
            wanted = looks.begun + 1
        try:
            with self._turn:
                while looks.is_looking and not _is_new(looks, wanted):
                    self._turn.wait()
                if looks.found is not None and _is_new(looks, wanted):
                    return looks.found[1]
                looks.is_looking = True
                looks.begun += 1
            return self._make_call(looks, call)
        finally:
            with self._turn:
                looks.asking -= 1
                for each in [each for each, old in self._looks.items() if not old.asking]:
                    del self._looks[each]

    def _make_call(self, looks: _Looks[T], call: Callable[[], T]) -> T:
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
