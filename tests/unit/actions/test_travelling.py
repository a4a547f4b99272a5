"""Where tasks may be worked on: what keeps one on its host, and what goes with it to another."""

import json
from pathlib import Path

import pytest

from builders import a_task
from fleet.actions.travelling import Ticket, stay
from fleet.core.clock import EPOCH
from fleet.core.host import Host
from fleet.engine.environment import path_of
from fleet.engine.hosting import pin_here
from fleet.home import Home
from fleet.hosts.backoff import LONGEST_SECONDS, Backoff


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(str(tmp_path / "home"))
    made.make()
    Path(made.settings).write_text('[host]\nname = "alpha"\n')
    return made


def test_what_stays_requires_its_host_besides_what_it_required(home: Home) -> None:
    pin = pin_here(home)
    assert pin.startswith("host:alpha@") and stay(home, "") == f'["{pin}"]'
    assert json.loads(stay(home, '["gpu"]')) == ["gpu", pin]
    Path(home.settings).write_text('[host]\nname = "other"\n')
    assert stay(home, "") == f'["{pin}"]', "whatever its host is called"
    assert stay(home, '["gpu", "host:beta"]') == '["gpu", "host:beta"]'  # somebody said so


def test_what_stays_is_left_to_the_host_of_that_name_where_its_home_never_was_one(home: Home) -> None:
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
def test_a_stage_that_names_a_host_goes_by_that(own: str, of_all: str, both: list[str]) -> None:
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


def test_programs_are_found_by_the_path_of_the_task_first_and_then_by_ours() -> None:
    ours = {"PATH": "/ours"}
    assert path_of(a_task(path="/makers"), ours) == "/makers:/ours"
    assert path_of(a_task(path="/ours:/makers:"), ours) == "/ours:/makers"
    assert path_of(a_task(remote="/srv/a.git"), ours) == "/ours"
