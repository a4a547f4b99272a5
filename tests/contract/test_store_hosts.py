"""The contract of all stores for hosts, and for the glance that a host decides by."""

from typing import Any

import pytest

from builders import HOUR, MINUTE, NOON, a_task
from fleet.core.host import Host
from fleet.store.base import Store

pytestmark = pytest.mark.bd_in_soak


def a_host(key: str = "fleet@a-1", **said: Any) -> Host:
    return Host(**{"id": key, "name": "a", "seen_at": NOON, **said})


def test_host_is_returned_unchanged(store: Store) -> None:
    told = a_host(labels=("gpu", "ünï"), slots=7, agents=2, load=1.5, version="1", address="10.0.0.1:7717")
    assert store.hosts.keep(told) == told
    assert store.hosts.all() == [told]


def test_last_report_of_a_host_counts_except_for_draining(store: Store) -> None:
    store.hosts.keep(a_host(agents=1))
    assert store.hosts.drain("fleet@a-1", NOON + MINUTE)
    told = store.hosts.keep(a_host(agents=3, seen_at=NOON + HOUR))
    assert told == a_host(agents=3, seen_at=NOON + HOUR, drained_at=NOON + MINUTE)
    assert store.hosts.all() == [told]
    assert store.hosts.drain("fleet@a-1", None)
    assert store.hosts.all() == [told.replace(drained_at=None)]


def test_hosts_are_sorted_by_name(store: Store) -> None:
    for key, name in (("1", "b"), ("2", "a"), ("3", "b"), ("4", "C")):
        store.hosts.keep(a_host(key, name=name))
    assert [(host.name, host.id) for host in store.hosts.all()] == [("C", "4"), ("a", "2"), ("b", "1"), ("b", "3")]


def test_forgotten_host_is_deleted_and_unknown_host_cannot_be_drained(store: Store) -> None:
    store.hosts.keep(a_host())
    assert store.hosts.forget("fleet@a-1")
    assert not store.hosts.forget("fleet@a-1")
    assert not store.hosts.drain("fleet@a-1", NOON)
    assert store.hosts.all() == []


def test_glance_shows_everything_that_a_host_decides_by(store: Store) -> None:
    nothing = store.hosts.glance("fleet@a-1", "x")
    assert (list(nothing.coders), list(nothing.accounts), nothing.setting, nothing.host) == ([], [], None, None)
    for key, coder in (("t-1", "codex"), ("t-2", ""), ("t-3", "codex"), ("t-4", "odd ' % :key")):
        store.tasks.add(a_task(id=key, coder=coder))
    store.tasks.add(a_task(id="t-5", coder="taken", assignee="ada"))
    store.accounts.park("codex", "work\0\ufdd0", until=NOON + HOUR, reason="ünï 'quoted'")
    store.accounts.park("claude", "", until=NOON + MINUTE, reason="")
    store.config.set("x", "1\n'2'")
    store.config.set("y", "3")
    told = a_host(labels=("gpu", "ünï"), slots=7, agents=2, load=1.5, version="1", address="10.0.0.1:7717")
    store.hosts.keep(told)
    store.hosts.keep(a_host("other"))
    store.hosts.drain(told.id, NOON)
    found = store.hosts.glance("fleet@a-1", "x")
    assert found.coders == store.claims.waiting_coders() and set(found.coders) == {"", "codex", "odd ' % :key"}
    assert found.accounts == store.accounts.all() and len(found.accounts) == 2
    assert found.setting == "1\n'2'"
    assert found.host == told.replace(drained_at=NOON)
    elsewhere = store.hosts.glance("nobody", "z")
    assert (elsewhere.setting, elsewhere.host, elsewhere.coders) == (None, None, found.coders)
