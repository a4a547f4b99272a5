"""Batching of work: items that arrive during one batch form the next."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

T = TypeVar("T")
R = TypeVar("R")

MOST_AT_ONCE = 100


class WorkBatcher(Generic[T, R]):
    """Batches per key. The first item of a key starts at once, and keys do not wait for each other.

    `work` returns one answer per item, in the same order. Answers that are exceptions are raised to the item's caller.
    """

    def __init__(self, work: Callable[[str, list[T]], Awaitable[Sequence[R | Exception]]]) -> None:
        self._work = work
        self._waiting: dict[str, list[tuple[T, asyncio.Future[R]]]] = {}
        self._running: dict[str, asyncio.Task[None]] = {}

    async def add(self, key: str, item: T) -> R:
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, []).append((item, answer))
        if key not in self._running:
            self._running[key] = asyncio.create_task(self._serve(key))
        return await answer

    async def _serve(self, key: str) -> None:
        try:
            while waiting := self._waiting.pop(key, []):
                now, later = waiting[:MOST_AT_ONCE], waiting[MOST_AT_ONCE:]
                if later:
                    self._waiting[key] = later
                await self._do(key, now)
        finally:
            del self._running[key]

    async def _do(self, key: str, part: list[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            found: Sequence[R | Exception] = await self._work(key, [item for item, _ in part])
        except Exception as error:  # noqa: BLE001 - passed to every caller of the batch
            found = [error] * len(part)
        for (_, answer), result in zip(part, found, strict=True):
            if answer.done():  # its caller has gone meanwhile
                continue
            if isinstance(result, Exception):
                answer.set_exception(result)
            else:
                answer.set_result(result)
