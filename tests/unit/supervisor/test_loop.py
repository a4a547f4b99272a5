"""Hints of a shared queue: many become one, and none arrives after the loop has ended."""

import asyncio
import threading

from fleet.supervisor.loop import JITTER_SECONDS, Hints


def test_many_hints_of_a_thread_become_few_calls_on_the_loop() -> None:
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
    assert set(calls) == {threading.current_thread()}
    assert 2 <= len(calls) < 10, "a slow thread may need a few calls for its 100 hints"


def test_hint_after_the_end_of_the_loop_is_ignored() -> None:
    async def make() -> Hints:
        return Hints(lambda: None)

    asyncio.run(make())()
