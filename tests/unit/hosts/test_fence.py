"""The fence: how long a claim is certain, and the freezing of its agent afterwards. The agents are real."""

import asyncio
import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.agents.headless import HeadlessLauncher
from fleet.hosts.alone import UnlimitedLeases
from fleet.hosts.fence import SHARE, Fence
from launching import a_token, asynchronous, living, read, scripted, soon, until


class Clock:
    """A machine clock that the test sets."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fence(clock: Clock) -> Iterator[Fence]:
    made = Fence(clock=clock)
    yield made
    made.end()


def is_frozen(token: str) -> bool:
    agents = [pid for pid in living(token) if b"fleet.launchers" not in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert agents
    states = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] for pid in agents]
    return all(state == "T" for state in states)


def move(place: str, name: str, other: str) -> None:
    Path(place, name).rename(Path(place, other))


def test_claim_is_certain_for_a_share_of_its_lease_from_before_the_query(fence: Fence, clock: Clock) -> None:
    asked = fence.now()
    clock.seconds += 4  # the time the database took to answer
    fence.confirm(["t"], asked, 10)
    assert fence.left("t") == pytest.approx(10 * SHARE - 4)
    clock.seconds = asked + 10 * SHARE - 0.01
    assert not fence.is_closed("t")
    clock.seconds = asked + 10 * SHARE
    assert fence.is_closed("t")


def test_late_reply_does_not_shorten_a_lease(fence: Fence) -> None:
    fence.confirm(["t"], 1_000, 10)
    fence.confirm(["t"], 900, 10)
    assert fence.left("t") == pytest.approx(10 * SHARE)


def test_unconfirmed_claim_is_closed(fence: Fence) -> None:
    assert fence.is_closed("t")
    fence.confirm(["t"], fence.now(), 10)
    fence.forget("t")
    assert fence.is_closed("t")


def test_each_task_has_its_own_lease(fence: Fence, clock: Clock) -> None:
    fence.confirm(["a", "b"], fence.now(), 10)
    clock.seconds += 5
    fence.confirm(["b"], fence.now(), 10)
    clock.seconds += 2
    assert (fence.is_closed("a"), fence.is_closed("b")) == (True, False)


def test_leases_never_end_when_one_machine_has_the_queue() -> None:
    leases = UnlimitedLeases()
    leases.confirm(["t"], leases.now(), 0)
    leases.lose(["t"])
    assert leases.left("t") is None and not leases.is_closed("t") and not leases.is_lost("t")


@asynchronous
async def test_agent_is_frozen_when_its_lease_ends_and_not_before(tmp_path: Path) -> None:
    clock, token, launcher = Clock(), a_token(), HeadlessLauncher()
    fence = Fence(clock=clock)
    place = str(tmp_path / "run")
    fence.confirm(["t", "unstarted"], fence.now(), 10)
    agent = await launcher.start(place, scripted("ticking", token))
    await until(lambda: read(place, "stdout"))
    fence.guard("t", launcher, place)
    clock.seconds += 10 * SHARE - 0.1
    fence.look()
    assert not is_frozen(token)
    clock.seconds += 0.2
    fence.look()
    assert is_frozen(token)
    fence.confirm(["t"], fence.now(), 10)
    await agent.put_off(fence.left("t"))
    await until(lambda: not is_frozen(token))
    clock.seconds += 10
    fence.look()
    assert is_frozen(token)  # the fence notices that it runs again
    await agent.kill_tree()
    await soon(agent.ended())


@asynchronous
async def test_fence_freezes_agents_while_the_event_loop_is_blocked(tmp_path: Path) -> None:
    token, launcher, place = a_token(), HeadlessLauncher(), str(tmp_path / "run")
    agent = await launcher.start(place, scripted("ticking", token))
    await until(lambda: read(place, "stdout"))
    fence = Fence()
    fence.begin()
    try:
        fence.confirm(["t"], fence.now(), 1)
        fence.guard("t", launcher, place)
        give_up = time.monotonic() + 60
        while not is_frozen(token):
            assert time.monotonic() < give_up
            time.sleep(0.01)  # noqa: ASYNC251 - the loop stands still
    finally:
        fence.end()
    await agent.kill_tree()
    await soon(agent.ended())


@asynchronous
async def test_failed_freeze_is_tried_again(tmp_path: Path) -> None:
    clock, token, launcher = Clock(), a_token(), HeadlessLauncher()
    fence, place = Fence(clock=clock), str(tmp_path / "run")
    agent = await launcher.start(place, scripted("ticking", token))
    await until(lambda: read(place, "stdout"))
    fence.guard("t", launcher, place)
    move(place, "control", "hidden")
    fence.look()
    assert not is_frozen(token)
    move(place, "hidden", "control")
    fence.look()
    assert is_frozen(token)
    await agent.kill_tree()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(agent.ended(), 10)


def test_lost_claim_stays_lost_until_it_is_confirmed_again(fence: Fence, clock: Clock) -> None:
    fence.confirm(["t", "u"], fence.now(), 10)
    fence.lose(["t", "never held"])
    assert (fence.is_lost("t"), fence.is_closed("t")) == (True, True)
    assert (fence.is_lost("u"), fence.is_lost("never held")) == (False, False)
    clock.seconds += 1
    fence.confirm(["t"], fence.now(), 10)
    assert (fence.is_lost("t"), fence.is_closed("t")) == (False, False)
