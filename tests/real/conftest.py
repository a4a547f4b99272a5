"""What tests with real CLIs share: a network with no way out, and the scripted model inside it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from model_server import ModelServer, Scenario
from model_server.network import ClosedNetwork, NoNetwork
from needs import require
from real.through_fleet import RealFleet


@pytest.fixture(scope="session")
def network() -> Iterator[ClosedNetwork]:
    """A network that holds nothing but its own loopback."""
    with closed_network() as network:
        yield network


@pytest.fixture(scope="session")
def server(network: ClosedNetwork) -> Iterator[ModelServer]:
    """The scripted model; only what runs in the closed network reaches it."""
    with ModelServer(network.listener) as server:
        yield server


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """The directory that a CLI is started in."""
    work = tmp_path / "work"
    work.mkdir()
    return work


def closed_network() -> ClosedNetwork:
    """Make one; tests are left out where the machine does not allow it."""
    try:
        return ClosedNetwork()
    except NoNetwork as error:
        require(False, f"a network namespace: {error}")
        raise


@pytest.fixture
def real(network: ClosedNetwork, tmp_path: Path) -> Iterator[Callable[[str, Scenario], RealFleet]]:
    """Makes a home whose coder is a real CLI with a scenario; its supervisor ends with the test."""
    made: list[RealFleet] = []

    def make(cli: str, scenario: Scenario) -> RealFleet:
        base = tmp_path / f"{cli}-{len(made)}"
        base.mkdir()
        made.append(RealFleet(base, network, cli, scenario))
        return made[-1]

    yield make
    for each in made:
        each.stop()
        assert not each.agents()
        each.clear()
