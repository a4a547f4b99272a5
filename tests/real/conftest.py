"""Fixtures for tests with real CLIs: a network without a way out, and the scripted model inside."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from model_server import ModelServer, Scenario
from model_server.network import ClosedNetwork, NoNetwork
from needs import require
from real.through_fleet import RealFleet


@pytest.fixture(scope="session")
def network() -> Iterator[ClosedNetwork]:
    """Yield a network with nothing but its own loopback."""
    with closed_network() as network:
        yield network


@pytest.fixture(scope="session")
def server(network: ClosedNetwork) -> Iterator[ModelServer]:
    """Yield the scripted model, which only programs in the closed network reach."""
    with ModelServer(network.listener) as server:
        yield server


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return the directory in which a CLI is started."""
    work = tmp_path / "work"
    work.mkdir()
    return work


def closed_network() -> ClosedNetwork:
    """Return a closed network. The test is skipped if the machine does not allow it."""
    try:
        return ClosedNetwork()
    except NoNetwork as error:
        require(False, f"a network namespace: {error}")
        raise


@pytest.fixture
def real(network: ClosedNetwork, tmp_path: Path) -> Iterator[Callable[[str, Scenario], RealFleet]]:
    """Yield a function that creates a home whose coder is a real CLI with a scenario. The test ends its supervisor."""
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
