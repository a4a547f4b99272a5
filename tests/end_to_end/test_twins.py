"""Two machines with the same host name and path, as clones have: the second is refused while the first lives."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from campaign.auditor import notes_in, overlaps
from campaign.database import Database
from campaign.hosts import Host
from campaign.network import Network, can_be_had
from needs import require
from postgres import _program
from supervised import wait_for

LEASE = 6


@pytest.fixture
def twins(tmp_path: Path) -> Iterator[tuple[Host, Host]]:
    """Yield two machines with separate disks whose homes have the same name and path."""
    require(can_be_had(), "network namespaces (need root and the program ip)")
    require(_program("postgres"), "PostgreSQL")
    network = Network("db", "a", "b")
    database = Database(network, "db")
    url = database.over_the_network(database.make_database())
    made = Host(network, "a", tmp_path, url), Host(network, "b", tmp_path, url)
    for host in made:
        host.set_up(LEASE, slots=2)
        host.fleet("config", "set", "host.name=clone")
    yield made
    for host in made:
        host.kill_all()
    database.remove()
    network.close()


def test_second_clone_is_refused_and_takes_over_when_the_first_is_gone(twins: tuple[Host, Host]) -> None:
    one, other = twins
    one.fleet("bd", "create", "long work", "--description", "do: steps=100000", "--silent")
    one.start()
    wait_for(lambda: notes_in([one.audit]), "an agent", one.said)
    other.start()
    wait_for(lambda: other.is_over, "the second to give up", other.said)
    assert "another machine runs as clone" in other.said()
    assert "host.name" in other.said() or "[host] name" in other.said()
    assert not notes_in([other.audit])
    assert one.fleet("hosts", "--json").count('"clone"') == 1
    # A machine that left or restarted leaves a record that is no longer renewed: the second waits for it, and says so.
    one.kill_all()
    other.start()
    wait_for(lambda: "waiting" in other.said(), "the second to say so", other.said)
    wait_for(lambda: notes_in([other.audit]), "the task to go on", other.said)
    assert overlaps(notes_in([one.audit, other.audit])) == []


def test_restarted_supervisor_on_the_same_machine_does_not_wait(twins: tuple[Host, Host]) -> None:
    one, _ = twins
    one.fleet("bd", "create", "long work", "--description", "do: steps=100000", "--silent")
    one.start()
    wait_for(lambda: notes_in([one.audit]), "an agent", one.said)
    one.kill_supervisor()
    one.start()
    wait_for(lambda: "adopted" in one.said(), "the agent to be followed again", one.said)
    assert "waiting" not in one.said()
