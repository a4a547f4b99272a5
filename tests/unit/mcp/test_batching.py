"""Batched work: no caller waits for dependencies to join, and each gets its own result."""

import asyncio

import pytest

from fleet.mcp.batching import MOST_AT_ONCE, WorkBatcher


class Work:
    """Work that doubles numbers and records its batches. A batch waits until the test lets it go."""

    def __init__(self) -> None:
        self.parts: list[list[int]] = []
        self.go = asyncio.Event()

    async def __call__(self, key: str, items: list[int]) -> list[int | Exception]:
        self.parts.append(items)
        await self.go.wait()
        if key == "bad":
            raise OSError("no such place")
        return [ValueError(f"{item} is odd") if item % 2 else item * 2 for item in items]


async def _idle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_first_item_starts_at_once_and_later_ones_are_batched() -> None:
    async def story() -> None:
        work = Work()
        gathering: WorkBatcher[int, int] = WorkBatcher(work)
        first = asyncio.create_task(gathering.add("here", 0))
        await _idle()
        assert work.parts == [[0]]
        rest = [asyncio.create_task(gathering.add("here", number)) for number in (2, 4, 6)]
        await _idle()
        assert work.parts == [[0]], "they wait for the one before"
        work.go.set()
        assert await asyncio.gather(first, *rest) == [0, 4, 8, 12]
        assert work.parts == [[0], [2, 4, 6]]
        assert await gathering.add("here", 8) == 16, "and it starts anew"

    asyncio.run(story())


def test_failing_item_fails_alone_and_a_failing_batch_as_a_whole() -> None:
    async def story() -> None:
        work = Work()
        work.go.set()
        gathering: WorkBatcher[int, int] = WorkBatcher(work)
        found = await asyncio.gather(*(gathering.add("here", number) for number in (2, 3, 4)), return_exceptions=True)
        assert (found[0], str(found[1]), found[2]) == (4, "3 is odd", 8)
        with pytest.raises(OSError, match="no such place"):
            await gathering.add("bad", 2)
        assert await gathering.add("here", 2) == 4

    asyncio.run(story())


def test_batches_of_different_keys_run_independently() -> None:
    async def story() -> None:
        work = Work()
        gathering: WorkBatcher[int, int] = WorkBatcher(work)
        tasks = [asyncio.create_task(gathering.add(key, 2)) for key in ("here", "there")]
        await _idle()
        assert len(work.parts) == 2
        work.go.set()
        await asyncio.gather(*tasks)

    asyncio.run(story())


def test_canceled_caller_harms_no_other_and_batches_are_bounded() -> None:
    async def story() -> None:
        work = Work()
        gathering: WorkBatcher[int, int] = WorkBatcher(work)
        first = asyncio.create_task(gathering.add("here", 0))
        await _idle()
        rest = [asyncio.create_task(gathering.add("here", 2 * number)) for number in range(MOST_AT_ONCE + 5)]
        await _idle()
        rest[3].cancel()
        await _idle()
        work.go.set()
        found = await asyncio.gather(first, *rest, return_exceptions=True)
        assert isinstance(found[4], asyncio.CancelledError)
        assert [each for each in found if not isinstance(each, BaseException)][-1] == 4 * (MOST_AT_ONCE + 4)
        assert [len(part) for part in work.parts] == [1, MOST_AT_ONCE, 5]

    asyncio.run(story())
