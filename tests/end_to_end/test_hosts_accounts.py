"""The limits of an account hold across all hosts that share its queue."""

import re
from collections.abc import Callable
from itertools import pairwise

from machines import Machine, machine
from supervised import CODER, wait_for

__all__ = ["machine"]


def account(name: str, most: int = 1) -> str:
    return f'[[accounts]]\nname = "{name}"\ncoder = "{CODER}"\nmax_concurrent = {most}\n'


def lives(*hosts: Machine) -> dict[str, list[tuple[float, float]]]:
    """Return the working times of agents by account, as the agents recorded them."""
    accounts = dict(hosts[0].rows("select id, account from runs"))
    begun = {run: float(at) for host in hosts for what, _, run, _, at in host.notes() if what == "start"}
    ended = {run: float(at) for host in hosts for what, _, run, _, at in host.notes() if what == "end"}
    found: dict[str, list[tuple[float, float]]] = {}
    for run in sorted(begun, key=lambda run: begun[run]):
        found.setdefault(accounts[run], []).append((begun[run], ended[run]))
    return found


def test_two_hosts_never_exceed_the_agent_limit_of_an_account(machine: Callable[..., Machine]) -> None:
    both = account("first") + account("second")
    one, two = machine("one", more=both), machine("two", more=both)
    one.add(f"until file={one.fleet.user / 'go'}", long=["host:one"])
    wait_for(one.ran, "the agent of the first account", one.said)
    two.add("ok seconds=0.2", a=["host:two"], b=["host:two"])
    two.wait("t-long")  # with the other account, one after the other
    for host in (one, two):
        host.add("ok seconds=0.2", **{f"{host.name}{number}": [f"host:{host.name}"] for number in range(3)})
    (one.fleet.user / "go").touch()
    one.wait()
    worked = lives(one, two)
    assert {name: len(spans) > 1 for name, spans in worked.items()} == {"first": True, "second": True}
    for name, spans in worked.items():
        assert all(end <= begin for (_, end), (begin, _) in pairwise(spans)), (name, spans)


def test_limit_met_on_one_host_makes_other_hosts_wait(machine: Callable[..., Machine]) -> None:
    one, two = (machine(name, more=account("only", 4)) for name in ("one", "two"))
    one.add("limit in=5", limited=["host:one"])
    parked = "select extract(epoch from now()) * 1000000 < parked_until, parked_until from accounts where name = 'only'"
    wait_for(lambda: one.rows(parked)[:1] and one.rows(parked)[0][0], "the limit", one.said)
    until = one.rows(parked)[0][1] / 1e6
    one.fleet.ok("bd", "close", "t-limited")  # otherwise it might meet the next limit before another task begins
    two.add(waits=["host:two"])
    seen = two.fleet("tasks").err
    assert re.search(r"account 'only' of .* is slowed down until .*: .*come back later", seen), seen
    two.wait()
    ((_, _, _, _, began), *_) = [note for note in two.notes() if note[0] == "start"]
    assert float(began) >= until
    assert two.rows("select failures from tasks where id = 't-limited'") == [(0,)]
