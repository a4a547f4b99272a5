"""The reason why a task waits for a host, in words that help to resolve it."""

from datetime import datetime

import pytest

from builders import HOUR, NOON
from fleet.actions.control.hosts import HostState, HostView
from fleet.actions.control.outlook import why_not
from fleet.core.host import Host


def a_host(name: str, *labels: str, state: str = HostState.HERE, seen_at: datetime = NOON) -> HostView:
    return HostView(Host(id=name, name=name, labels=labels, slots=1, seen_at=seen_at), state, [], is_this=False)


KNOWN = [
    a_host("a", "linux", "gpu"),
    a_host("b", "linux", "arm"),
    a_host("c", "big", state=HostState.DRAINED),
    a_host("d", "old", state=HostState.GONE),
    a_host("e", "old", state=HostState.DRAINING),
    a_host("f", "host:first@12", state=HostState.GONE),
    a_host("g", "host:first@12", state=HostState.GONE, seen_at=NOON + HOUR),
]
SINCE = f"{NOON.astimezone():%Y-%m-%d %H:%M:%S}"


@pytest.mark.parametrize(
    ("requires", "reason"),
    [
        ("", ""),
        ('["linux"]', ""),
        ('["gpu", "linux"]', ""),
        ('["host:a"]', ""),
        ('["gpu", "host:a"]', ""),
        ('["tpu"]', "no host offers tpu"),
        ('["linux", "qpu", "tpu"]', "no host offers qpu, tpu"),
        ('["arm", "gpu"]', "no host offers arm, gpu together"),
        ('["big"]', "host c is drained"),
        ('["host:d"]', f"host d was last seen at {SINCE}"),
        ('["old"]', f"no reachable host offers old: d was last seen at {SINCE}, e is drained"),
        ('["host:z"]', "no host is called z"),
        ('["gpu", "host:z"]', "no host is called z"),
        ('["arm", "host:a"]', "host a does not offer arm"),
        ('["host:first@12"]', f"host g was last seen at {NOON.astimezone() + HOUR:%Y-%m-%d %H:%M:%S}"),
        ('["gpu", "host:first@12"]', "host g does not offer gpu"),
        ('["host:a@99"]', "the host that created it, a, is unknown"),
        ("odd", "no host can offer this: `fleet.requires` in the metadata is not a list of words"),
    ],
)
def test_reason_explains_why_no_host_can_run_a_task(requires: str, reason: str) -> None:
    assert why_not(requires, KNOWN) == reason


def test_reason_suggests_no_label_when_no_host_exists() -> None:
    assert why_not('["gpu"]', []) == "no host offers gpu"
