"""Hints of a shared queue: many become one, and none arrives after the loop has ended."""

import asyncio
import threading

from fleet.supervisor.loop import JITTER_SECONDS, Hints


def test_many_hints_of_a_thread_become_one_call_on_the_loop() -> None:
    calls: list[threading.Thread] = []

    async def listen() -> None:
        hints = Hints(lambda: calls.append(threading.current_thread()))

        def hint_often() -> None:
            for _ in range(100):
                hints()

        for _ in range(2):
            other = threading.Thread(target=hint_often)
            other.start()
            await asyncio.to_thread(other.join)
            await asyncio.sleep(2 * JITTER_SECONDS)

    asyncio.run(listen())
    assert calls == [threading.current_thread()] * 2


def test_hint_after_the_end_of_the_loop_is_ignored() -> None:
    async def make() -> Hints:
        return Hints(lambda: None)

    asyncio.run(make())()
