"""The hosts that may run a task: requirements that pin a task, and data that travels with it."""

import json
from pathlib import Path

import pytest

from builders import a_task
from fleet.actions.tasks.placement import Ticket, stay
from fleet.core.clock import EPOCH
from fleet.core.host import Host
from fleet.home import Home
from fleet.hosts.backoff import LONGEST_SECONDS, Backoff
from fleet.supervisor.host import pin_here
from fleet.supervisor.run.environment import path_of


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(str(tmp_path / "home"))
    made.make()
    Path(made.settings).write_text('[host]\nname = "alpha"\n')
    return made


def test_pinned_task_requires_its_host_besides_its_other_requirements(home: Home) -> None:
    pin = pin_here(home)
    assert pin.startswith("host:alpha@") and stay(home, "") == f'["{pin}"]'
    assert json.loads(stay(home, '["gpu"]')) == ["gpu", pin]
    Path(home.settings).write_text('[host]\nname = "other"\n')
    assert stay(home, "") == f'["{pin}"]', "whatever its host is called"
    assert stay(home, '["gpu", "host:beta"]') == '["gpu", "host:beta"]'  # the user named a host


def test_pinned_task_follows_its_host_after_a_rename(home: Home) -> None:
    pin = pin_here(home)
    beside = Host(id="a", name="alpha", labels=("host:alpha@1234",), seen_at=EPOCH)
    assert stay(home, "", [beside]) == '["host:alpha"]'
    assert stay(home, "", [beside.replace(name="beta")]) == f'["{pin}"]'
    assert stay(home, "", [beside, beside.replace(id="b", labels=(pin,))]) == f'["{pin}"]', "it was one itself"


@pytest.mark.parametrize(
    ("own", "of_all", "both"),
    [
        ("", "", []),
        ('["gpu"]', "", ["gpu"]),
        ('["gpu"]', '["host:alpha"]', ["gpu", "host:alpha"]),
        ('["host:beta"]', '["host:alpha"]', ["host:beta"]),
    ],
)
def test_stage_requirement_of_a_host_replaces_that_of_the_workflow(own: str, of_all: str, both: list[str]) -> None:
    assert json.loads(Ticket(requires=of_all).with_words(own) or "[]") == both


def test_backoff_grows_up_to_a_limit_and_starts_again_when_reset() -> None:
    backoff = Backoff()
    found = [backoff.next_seconds("remote") for _ in range(12)]
    assert found[:4] == [2, 4, 8, 16] and max(found) == LONGEST_SECONDS and found == sorted(found)
    assert backoff.next_seconds("another") == 2
    backoff.reset("remote")
    assert backoff.next_seconds("remote") == 2


def test_only_a_worktree_with_a_remote_travels() -> None:
    assert a_task(workspace="worktree", remote="/srv/a.git").travels
    assert not a_task(workspace="worktree").travels
    assert not a_task(workspace="directory", remote="/srv/a.git").travels


def test_programs_are_searched_in_the_path_of_the_task_first() -> None:
    ours = {"PATH": "/ours"}
    assert path_of(a_task(path="/makers"), ours) == "/makers:/ours"
    assert path_of(a_task(path="/ours:/makers:"), ours) == "/ours:/makers"
    assert path_of(a_task(remote="/srv/a.git"), ours) == "/ours"
