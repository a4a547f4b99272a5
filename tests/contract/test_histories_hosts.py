"""What every history promises about hosts and the tails of runs, and every queue about what tasks require of a host."""

from typing import Any

import pytest

from builders import HOUR, MINUTE, NOON, a_task
from fleet.core.filter import Filter, Lane
from fleet.core.host import Host, required, requiring
from fleet.store.base import History, Queue

pytestmark = pytest.mark.bd_in_soak


def a_host(key: str = "fleet@a-1", **said: Any) -> Host:
    return Host(**{"id": key, "name": "a", "seen_at": NOON, **said})


def test_a_host_comes_back_as_it_told_of_itself(history: History) -> None:
    told = a_host(labels=("gpu", "ünï"), slots=7, agents=2, load=1.5, version="1", address="10.0.0.1:7717")
    assert history.keep_host(told) == told
    assert history.hosts() == [told]


def test_the_last_word_of_a_host_counts_but_only_a_person_says_whether_it_takes_work(history: History) -> None:
    history.keep_host(a_host(agents=1))
    assert history.drain_host("fleet@a-1", NOON + MINUTE)
    told = history.keep_host(a_host(agents=3, seen_at=NOON + HOUR))
    assert told == a_host(agents=3, seen_at=NOON + HOUR, drained_at=NOON + MINUTE)
    assert history.hosts() == [told]
    assert history.drain_host("fleet@a-1", None)
    assert history.hosts() == [told.replace(drained_at=None)]


def test_hosts_are_told_by_name(history: History) -> None:
    for key, name in (("1", "b"), ("2", "a"), ("3", "b"), ("4", "C")):
        history.keep_host(a_host(key, name=name))
    assert [(host.name, host.id) for host in history.hosts()] == [("C", "4"), ("a", "2"), ("b", "1"), ("b", "3")]


def test_a_host_that_is_forgotten_is_gone_and_one_that_is_not_known_is_not_drained(history: History) -> None:
    history.keep_host(a_host())
    assert history.forget_host("fleet@a-1")
    assert not history.forget_host("fleet@a-1")
    assert not history.drain_host("fleet@a-1", NOON)
    assert history.hosts() == []


def test_a_glance_shows_all_that_a_host_goes_by_when_it_looks_for_work(queue: Queue, history: History) -> None:
    nothing = history.glance("fleet@a-1", "x")
    assert (list(nothing.coders), list(nothing.accounts), nothing.setting, nothing.host) == ([], [], None, None)
    for key, coder in (("t-1", "codex"), ("t-2", ""), ("t-3", "codex"), ("t-4", "odd ' % :key")):
        queue.add(a_task(id=key, coder=coder))
    queue.add(a_task(id="t-5", coder="taken", assignee="ada"))
    history.park("codex", "work\0\ufdd0", until=NOON + HOUR, reason="ünï 'quoted'")
    history.park("claude", "", until=NOON + MINUTE, reason="")
    queue.set_config("x", "1\n'2'")
    queue.set_config("y", "3")
    told = a_host(labels=("gpu", "ünï"), slots=7, agents=2, load=1.5, version="1", address="10.0.0.1:7717")
    history.keep_host(told)
    history.keep_host(a_host("other"))
    history.drain_host(told.id, NOON)
    found = history.glance("fleet@a-1", "x")
    assert found.coders == queue.waiting_coders() and set(found.coders) == {"", "codex", "odd ' % :key"}
    assert found.accounts == history.accounts() and len(found.accounts) == 2
    assert found.setting == "1\n'2'"
    assert found.host == told.replace(drained_at=NOON)
    elsewhere = history.glance("nobody", "z")
    assert (elsewhere.setting, elsewhere.host, elsewhere.coders) == (None, None, found.coders)


def test_the_tail_of_a_run_is_the_last_that_was_kept(history: History) -> None:
    assert history.tail("t-1/1") is None
    history.keep_tail("t-1/1", "one", NOON)
    history.keep_tail("t-1/1", "two \u2028 🚀 \ud800", NOON + MINUTE)
    kept = history.tail("t-1/1")
    assert kept is not None
    assert kept[0].startswith("two \u2028 🚀") and kept[1] == NOON + MINUTE
    assert history.tail("t-1/2") is None


def test_tails_from_before_a_moment_are_let_go_of(history: History) -> None:
    for number in range(4):
        history.keep_tail(f"t-{number}/1", "x", NOON + number * MINUTE)
    assert history.forget_tails(NOON + 2 * MINUTE) == 2
    assert [history.tail(f"t-{number}/1") is None for number in range(4)] == [True, True, False, False]
    assert history.forget_tails(NOON) == 0


def test_only_who_offers_all_that_a_task_requires_finds_it(queue: Queue) -> None:
    fits = {"", "[]", requiring(["gpu"]), requiring(["gpu", "host:a"])}
    misses = {requiring(["gpu", "big"]), requiring(["host:b"]), "gpu", '{"a": "gpu"}', "[1]", "["}
    with queue.atomic():
        for requires in fits | misses:
            queue.add(a_task(requires=requires))
    offered = Filter(offers=("gpu", "host:a"))
    assert {task.requires for task in queue.find(offered)} == fits
    claims = queue.claim("a", [Lane(room=99, where=offered)], room=99, ttl=HOUR)
    assert {claim.task.requires for claim in claims} == fits


def test_what_a_task_requires_is_kept_sorted_and_once() -> None:
    assert requiring(["b", "a", "b"]) == '["a", "b"]'
    assert requiring([]) == ""
    assert required('["a","b"]') == ("a", "b") and required("") == ()
    assert required("x") is None and required('{"a":1}') is None and required("[1]") is None
