"""Why a task that requires something of a host waits, said so that somebody can help it."""

import pytest

from builders import NOON
from fleet.actions.hosts import Seen, State
from fleet.actions.unmet import why_not
from fleet.core.host import Host


def a_host(name: str, *labels: str, state: str = State.HERE) -> Seen:
    return Seen(Host(id=name, name=name, labels=labels, slots=1, seen_at=NOON), state, [], is_this=False)


KNOWN = [
    a_host("a", "linux", "gpu"),
    a_host("b", "linux", "arm"),
    a_host("c", "big", state=State.DRAINED),
    a_host("d", "old", state=State.GONE),
    a_host("e", "old", state=State.DRAINING),
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
        ('["host:d"]', f"host d was not seen since {SINCE}"),
        ('["old"]', f"no host that is here offers old: d was not seen since {SINCE}, e is drained"),
        ('["host:z"]', "no host is called z"),
        ('["gpu", "host:z"]', "no host is called z"),
        ('["arm", "host:a"]', "host a does not offer arm"),
        ("odd", "nobody can offer what is no list of words: see `fleet.requires` in the metadata"),
    ],
)
def test_what_keeps_a_task_from_every_host(requires: str, reason: str) -> None:
    assert why_not(requires, KNOWN) == reason


def test_without_any_host_no_label_is_offered() -> None:
    assert why_not('["gpu"]', []) == "no host offers gpu"
