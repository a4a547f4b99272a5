"""Asking a store that is away: who follows a run waits, and writes nothing that another host may have a say in."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from contract.store_builders import a_claim
from fleet.assembly import open_cluster, open_launcher
from fleet.core.errors import ClaimLost, StoreAway
from fleet.core.task import Claim
from fleet.engine.office import Office
from fleet.home import Home
from fleet.hosts.fence import Fence
from launching import asynchronous, soon, until
from stores import open_queue


class Place:
    """An office whose store can be away."""

    def __init__(self, folder: Path) -> None:
        home = Home(str(folder / "home"))
        home.make()
        self.store = open_queue()
        self.office = Office(home, self.store, open_launcher(), owner="host", cluster=open_cluster)
        self.office.cluster.leases = Fence()
        self.claim: Claim = a_claim(self.store)
        self.is_away, self.asked = False, 0

    def call(self) -> str:
        """What the store does."""
        self.asked += 1
        if self.is_away:
            raise StoreAway("the database cannot be reached")
        return "answer"

    def confirm(self) -> None:
        """The claim is renewed."""
        self.office.cluster.leases.confirm([self.claim.task.id], self.office.cluster.leases.now(), 60)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.office.close()


async def follow(place: Place) -> str:
    """Ask as who follows a run does."""
    place.office.be_patient(place.claim)
    return await place.office.ask(place.call)


@asynchronous
async def test_others_are_told_at_once(place: Place) -> None:
    place.is_away = True
    with pytest.raises(StoreAway):
        await place.office.ask(place.call)
    assert place.office.is_away and place.asked == 1
    place.office.note_back()
    assert not place.office.is_away


@asynchronous
async def test_who_follows_a_run_waits_until_the_store_is_back(place: Place) -> None:
    place.confirm()
    place.is_away = True
    waiting = asyncio.create_task(follow(place))
    await until(lambda: place.office.is_away)
    place.is_away = False
    await asyncio.sleep(0.05)
    assert not waiting.done()
    place.office.note_back()
    assert await soon(waiting) == "answer"
    assert await place.office.ask(place.call) == "answer"  # and the patience is that task's own


@asynchronous
async def test_nothing_is_written_while_it_is_not_sure_whose_the_task_is(place: Place) -> None:
    waiting = asyncio.create_task(follow(place))
    await asyncio.sleep(0.05)
    assert place.asked == 0 and not waiting.done()
    place.confirm()
    assert await soon(waiting) == "answer"


@asynchronous
async def test_who_lost_the_task_learns_it_instead_of_writing(place: Place) -> None:
    place.confirm()
    place.office.cluster.leases.lose([place.claim.task.id])
    with pytest.raises(ClaimLost):
        await soon(asyncio.create_task(follow(place)))
    assert place.asked == 0
