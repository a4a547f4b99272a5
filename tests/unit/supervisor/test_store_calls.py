"""Calls of an unreachable store: runs wait, and write nothing about a task that another host may have."""

import asyncio
from collections.abc import Iterator

import pytest

from contract.store_builders import a_claim
from fleet.core.errors import ClaimLost, DatabaseReplaced, StoreAway
from fleet.core.task import Claim
from fleet.hosts.fence import Fence
from fleet.supervisor.store_calls import StoreCalls
from launching import asynchronous, soon, until
from stores import open_queue


class Outage:
    """A store that can be unreachable or replaced, and a claim whose lease can lapse."""

    def __init__(self) -> None:
        queue = open_queue()
        self.claim: Claim = a_claim(queue)
        self.calls = StoreCalls(queue)
        self.leases = Fence()
        self.error: Exception | None = None
        self.called = 0

    def read(self) -> str:
        self.called += 1
        if self.error is not None:
            raise self.error
        return "answer"

    def renew(self) -> None:
        self.leases.confirm([self.claim.task.id], self.leases.now(), 60)

    async def follow(self) -> str:
        """Call the store as a run does."""
        self.calls.wait_for_store(self.claim, self.leases)
        return await self.calls.call(self.read)


AWAY = StoreAway("the database cannot be reached")


@pytest.fixture
def outage() -> Iterator[Outage]:
    made = Outage()
    yield made
    made.calls.close()


@asynchronous
async def test_call_raises_at_once_when_it_follows_no_run(outage: Outage) -> None:
    outage.error = AWAY
    with pytest.raises(StoreAway):
        await outage.calls.call(outage.read)
    assert outage.calls.is_away and outage.called == 1
    outage.calls.note_back()
    assert not outage.calls.is_away


@asynchronous
async def test_call_of_a_run_waits_when_the_store_is_unreachable(outage: Outage) -> None:
    outage.renew()
    outage.error = AWAY
    waiting = asyncio.create_task(outage.follow())
    await until(lambda: outage.calls.is_away)
    outage.error = None
    await asyncio.sleep(0.05)
    assert not waiting.done()
    outage.calls.note_back()
    assert await soon(waiting) == "answer"
    outage.error = AWAY
    with pytest.raises(StoreAway):  # only the task that follows the run waits
        await outage.calls.call(outage.read)


@asynchronous
async def test_call_once_of_a_run_does_not_wait(outage: Outage) -> None:
    outage.renew()
    outage.error = AWAY
    outage.calls.wait_for_store(outage.claim, outage.leases)
    with pytest.raises(StoreAway):
        await outage.calls.call_once(outage.read)


@asynchronous
async def test_call_of_a_run_waits_until_its_claim_is_confirmed(outage: Outage) -> None:
    waiting = asyncio.create_task(outage.follow())
    await asyncio.sleep(0.05)
    assert outage.called == 0 and not waiting.done()
    outage.renew()
    assert await soon(waiting) == "answer"


@asynchronous
async def test_call_of_a_run_raises_when_its_claim_is_lost(outage: Outage) -> None:
    outage.renew()
    outage.leases.lose([outage.claim.task.id])
    with pytest.raises(ClaimLost):
        await soon(asyncio.create_task(outage.follow()))
    assert outage.called == 0


@asynchronous
async def test_replaced_database_ends_the_store_and_cancels_the_run(outage: Outage) -> None:
    outage.renew()
    outage.error = DatabaseReplaced("fleet.db", "replaced")
    run = asyncio.create_task(outage.follow())
    await soon(asyncio.wait([run]))
    assert run.cancelled() and outage.calls.ended.is_set() and outage.calls.why_ended is outage.error
