"""The name and labels of a host, and its row that other hosts see."""

import logging
import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from builders import MINUTE, NOON, FakeClock, a_task
from fleet.actions.control.supervisor import told
from fleet.assembly import open_cluster, open_launcher
from fleet.core.admission import Situation, admit
from fleet.core.errors import BadInput
from fleet.core.host import Host
from fleet.home import Home
from fleet.settings import load
from fleet.store.sql.hosts import SqlHosts
from fleet.supervisor.agent_launchers import AgentLaunchers
from fleet.supervisor.context import Context
from fleet.supervisor.host import (
    Said,
    is_seen,
    keep_name,
    machine_name,
    name_here,
    name_of,
    offers,
    owner_of,
    pin_here,
    said_in,
    settings_here,
)
from fleet.supervisor.lock import Single, holder
from fleet.supervisor.presence import Presence
from fleet.supervisor.store_calls import StoreCalls
from stores import open_queue


class Place:
    """A home with a queue and any number of supervisors."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.home = Home(str(folder / "home"))
        self.home.make()
        self.store = open_queue(self.clock)

    def host(self, owner: str = "fleet@a-1", **said: Any) -> Presence:
        context = Context(
            self.home,
            StoreCalls(self.store),
            AgentLaunchers(open_launcher()),
            owner=owner,
            cluster=open_cluster,
            said=Said(**{"name": "a", **said}),
        )
        return Presence(context)

    def later(self) -> None:
        self.clock.advance(MINUTE / 3)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def look(host: Presence, agents: int) -> list[str]:
    """Return the reasons why a host may take no tasks."""
    context = host._context
    return host.look(context.store.hosts.glance(context.owner, "").host, agents)


def write(home: Home, text: str) -> None:
    Path(home.settings).write_text(text)


def test_host_name_defaults_to_the_machine(place: Place) -> None:
    settings = load(place.home, env={})
    assert name_of(settings) == machine_name() != ""
    assert owner_of(place.home, settings).startswith(f"fleet@{socket.gethostname()}-")
    write(place.home, '[host]\nname = "build7"\nlabels = ["linux", "gpu"]\n')
    settings = load(place.home, env={})
    assert name_of(settings) == "build7"
    assert offers(settings, "host:a@1") == ("gpu", "host:a@1", "linux", "host:build7")
    assert owner_of(place.home, settings).startswith("fleet@build7-")


@pytest.mark.parametrize(
    ("machine", "name"),
    [("José's box", "Jos--s-box"), ("-x", "x"), ("ünï", "n-"), ("...", "host"), ("a.b_c-1", "a.b_c-1")],
)
def test_invalid_machine_name_becomes_a_valid_host_name(
    monkeypatch: pytest.MonkeyPatch, machine: str, name: str
) -> None:
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(nodename=machine))
    assert machine_name() == name


def test_supervisor_arguments_override_the_settings_and_are_recorded(place: Place) -> None:
    write(place.home, 'max_concurrent = 9\n[host]\nname = "settings"\nlabels = ["gpu"]\nlisten = "127.0.0.1:0"\n')
    assert name_here(place.home) == "settings"
    said = Said(coder="codex", name="flag", labels=(), listen="10.0.0.7:7717", slots=2)
    single = Single(place.home)
    single.take(said=said.note())
    try:
        assert said_in(holder(place.home)) == said
        settings = settings_here(place.home)
        assert (name_here(place.home), settings.host.labels, settings.max_concurrent) == ("flag", (), 2)
        assert settings.host.listen == "10.0.0.7:7717"
    finally:
        single.release()
    assert settings_here(place.home).max_concurrent == 9
    assert settings_here(place.home).host.listen == "127.0.0.1:0"
    assert said_in(None) == said_in({"pid": 1}) == Said()


@pytest.mark.parametrize("place", ["7717", ":7717", "box:", "box:http", "box:70000"])
def test_listen_address_needs_address_and_port(place: str) -> None:
    assert told(listen="10.0.0.7:7717").listen == "10.0.0.7:7717"
    with pytest.raises(BadInput, match="is not ADDRESS:PORT"):
        told(listen=place)


def test_supervisor_arguments_hold_when_the_settings_change(place: Place) -> None:
    context = Context(
        place.home,
        StoreCalls(place.store),
        AgentLaunchers(open_launcher()),
        owner="x",
        cluster=open_cluster,
        said=Said(slots=2),
    )
    write(place.home, 'max_concurrent = 9\ncoder = "codex"\n')
    context.reload()
    assert (context.settings.max_concurrent, context.settings.coder) == (2, "codex")


def test_host_row_describes_the_host(place: Place) -> None:
    place.host(labels=("gpu",), slots=4).tell(3)
    [row] = place.store.hosts.all()
    assert (row.id, row.name, row.shown_labels, row.slots, row.agents) == ("fleet@a-1", "a", ("gpu",), 4, 3)
    assert row.seen_at == NOON and row.version and row.load == pytest.approx(os.getloadavg()[0], abs=50)


def test_drained_host_claims_nothing_until_it_is_undrained(place: Place) -> None:
    host = place.host()
    assert look(host, 0) == []  # the host has no row yet
    host.tell(0)
    assert look(host, 0) == []
    place.store.hosts.drain("fleet@a-1", NOON)
    assert look(host, 0) == ["this host, a, is drained"]
    host.tell(0)
    assert look(host, 0) == ["this host, a, is drained"]
    place.store.hosts.drain("fleet@a-1", None)
    assert look(host, 0) == []


def test_changed_labels_are_reported_at_once(place: Place) -> None:
    host = place.host(name="")
    host.tell(0)
    write(place.home, 'max_concurrent = 9\n[host]\nname = "b"\nlabels = ["gpu"]\n')
    host._context.reload()
    assert look(host, 2) == []
    [row] = place.store.hosts.all()
    assert (row.name, row.shown_labels, row.slots, row.agents) == ("b", ("gpu",), 9, 2)
    assert look(host, 3) == [] and place.store.hosts.all() == [row]  # reported only once


def test_host_is_absent_when_it_left_or_is_silent(place: Place) -> None:
    host = place.host()
    host.tell(1)
    [row] = place.store.hosts.all()
    assert is_seen(row, NOON + MINUTE, 60) and not is_seen(row, NOON + MINUTE * 1.1, 60)
    host.leave(1)
    [row] = place.store.hosts.all()
    assert not is_seen(row, NOON, 60) and row.agents == 1


def test_two_supervisors_with_one_id_claim_nothing(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    one, other = place.host(), place.host()
    one.tell(0)
    place.later()
    other.tell(0)
    place.later()
    one.tell(0)
    assert look(one, 0) == ["another supervisor also uses the name a"]
    place.later()
    other.tell(0)
    assert look(other, 0) and "give each host its own [host] name" in caplog.text
    place.later()
    one.tell(0)
    other.leave(0)
    place.later()
    one.tell(0)
    assert look(one, 0) == []  # the other supervisor has gone
    place.later()
    one.tell(0)
    assert look(one, 0) == []


def test_lost_reply_is_not_mistaken_for_another_supervisor(place: Place) -> None:
    class Deaf(SqlHosts):
        def keep(self, host: Host) -> Host:
            super().keep(host)
            raise OSError("the answer was lost")

    host = place.host()
    host.tell(0)
    place.later()
    heard, place.store.hosts = place.store.hosts, Deaf(place.store.connection)
    with pytest.raises(OSError, match="lost"):
        host.tell(0)
    place.store.hosts = heard
    place.later()
    host.tell(0)
    assert look(host, 0) == []


def test_forgotten_host_reappears_while_it_works(place: Place) -> None:
    host = place.host()
    host.tell(0)
    place.store.hosts.forget("fleet@a-1")
    place.later()
    host.tell(0)
    assert look(host, 0) == [] and len(place.store.hosts.all()) == 1


def test_second_host_with_the_same_name_is_reported_once(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.host("fleet@a-2").tell(0)
    host = place.host()
    for _ in range(3):
        host.tell(0)
    assert [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING] == [
        "fleet@a-2 also uses the name a: tasks that require this host may run there"
    ]


def test_copied_home_in_use_elsewhere_is_reported_once(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    host = place.host()
    host.tell(0)
    [row] = place.store.hosts.all()
    place.store.hosts.keep(row.replace(id="fleet@b-1", name="b"))
    host.tell(0)
    assert not caplog.records, "this home had another name before"
    place.store.hosts.keep(row.replace(id="fleet@c-1", name="c", machine="another"))
    for _ in range(3):
        host.tell(0)
    [told] = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert "fleet@c-1 has a copy of this home" in told and place.home.identity in told


def test_pin_of_a_home_is_unique_and_survives_a_rename_of_its_host(place: Place, tmp_path: Path) -> None:
    other = Place(tmp_path / "other")
    pin = pin_here(place.home)
    assert pin.startswith(f"host:{machine_name()}@") and pin_here(other.home) != pin
    keep_name(place.home, "build7")
    assert (name_here(place.home), pin_here(place.home)) == ("build7", pin)
    keep_name(place.home, "")
    keep_name(place.home, "")
    assert name_here(place.home) == machine_name()


def test_host_claims_only_tasks_it_can_run(place: Place) -> None:
    words = {"t-1": "", "t-2": '["gpu"]', "t-3": '["host:a"]', "t-4": '["arm"]', "t-5": "odd"}
    words |= {"t-6": f'["{pin_here(place.home)}"]', "t-7": '["host:a@12"]'}
    for key, requires in words.items():
        place.store.tasks.add(a_task(id=key, requires=requires))
    write(place.home, 'max_concurrent = 9\n[host]\nname = "a"\nlabels = ["gpu", "linux"]\n')
    settings = load(place.home, env={})
    offered = offers(settings, pin_here(place.home))
    seen = Situation(now=NOON, default_coder="claude", coders={"claude": ""}, offers=offered)
    room = admit(settings, seen)
    taken = place.store.claims.acquire("a", room.lanes, room=9, ttl=MINUTE)
    assert sorted(claim.task.id for claim in taken) == ["t-1", "t-2", "t-3", "t-6"]
    shut = admit(settings, seen.replace(closed=["it is drained"]))
    assert (shut.lanes, shut.room, shut.reasons) == ([], 0, ["it is drained"])
