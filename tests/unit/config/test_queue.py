"""Which queue a home has, and that its connection string is repeated nowhere."""

import logging
import os
import stat
import sys
from pathlib import Path

import pytest

from fleet.actions.settings import row
from fleet.config.load import load
from fleet.config.queue import BEADS, POSTGRES, SQLITE, chosen, keep, kind_of, refuse_password
from fleet.core.errors import BadInput, FleetError, Usage
from fleet.home import Home

URL = "postgresql://ada:hunter22@host/tasks"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(str(tmp_path / "home"))
    made.make()
    return made


def say(home: Home, text: str) -> None:
    Path(home.settings).write_text(text)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("", SQLITE), ("sqlite", SQLITE), ("beads", BEADS), (URL, POSTGRES), ("postgres://h/x", POSTGRES)],
)
def test_a_queue_is_known_by_its_name(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize("name", ["mysql://ada:hunter22@h/x", "hunter22", "Postgresql://ada:hunter22@h"])
def test_an_unknown_queue_is_refused_without_repeating_it(name: str, home: Home) -> None:
    with pytest.raises(BadInput) as refused:
        kind_of(name)
    assert "hunter22" not in f"{refused.value}{refused.value.hint}"
    for env, text in (({}, f'queue = "{name}"\n'), ({"FLEET_QUEUE": name}, "")):
        say(home, text)
        with pytest.raises(BadInput) as refused:
            chosen(home, env)
        assert "hunter22" not in f"{refused.value}{refused.value.hint}"


@pytest.mark.parametrize(
    "typed",
    [
        URL,
        "postgresql://ada:@host/x",
        "postgresql://ada:hun/ter22@host/x",
        "postgresql://host/x?password=hunter22",
        "postgresql://host:5432/x?user=ada&password=hunter22",
        "postgresql://host?sslmode=require&sslpassword=hunter22",
        "postgresql://host/x?oauth_client_secret=hunter22",
        "postgresql://host/x?scram_client_key=hunter22",
        "postgresql://ada@host/x?pass%77ord=hunter22",
        "postgresql://host/x?%50ASSWORD=hunter22",
        "postgresql://host/x?Password=hunter22",
        "postgresql://host/x? password =hunter22",
        "postgresql://host/x?a=b?&password=hunter22",
        "postgresql://a?b@host/x?password=hunter22",
    ],
)
def test_a_password_that_is_typed_is_refused_however_it_is_said(typed: str) -> None:
    with pytest.raises(Usage, match="can be read by every user") as refused:
        refuse_password(typed, hint="say it elsewhere.")
    assert "hunter22" not in f"{refused.value}{refused.value.hint}"


@pytest.mark.parametrize(
    "typed",
    [
        *("sqlite", "beads", "-", "postgresql://host:5432/x", "postgresql://ada@host/x", "postgresql://ada@[::1]:1/x"),
        *("postgresql://host/x?passfile=/etc/fleet/pass", "postgresql:///password?user=password", "postgresql://h/x?"),
    ],
)
def test_what_holds_no_password_may_be_typed(typed: str) -> None:
    refuse_password(typed, hint="say it elsewhere.")


@pytest.mark.parametrize(
    ("text", "elsewhere"),
    [
        ("", False),
        ("coder = 'x'\n", False),
        ('queue = ""\n', False),
        ("queue='sqlite'\n", False),
        ('# queue = "beads"\n', False),
        ('queue = "beads"\n', True),
        (f'  "queue" = "{URL}"\n', True),
        (f"coder = 'x'\nqueue= '''{URL}'''", True),
        ('queue_command = ["x"]\n', True),
        ('queue = "sqlite" # for now\n', True),  # the settings are read, and say no
    ],
)
def test_a_cheap_look_never_misses_a_queue_that_is_named(home: Home, text: str, elsewhere: bool) -> None:
    say(home, text)
    assert home.names_queue({}) is elsewhere
    assert home.names_queue({"FLEET_QUEUE": "beads"})


def test_without_settings_the_queue_is_the_file_here(home: Home) -> None:
    assert not home.names_queue({}) and not home.exists
    assert chosen(home, {}).kind == SQLITE


def test_a_home_exists_without_a_database_where_its_tasks_are_elsewhere(home: Home) -> None:
    say(home, f'queue = "{URL}"\n')
    assert home.exists
    home.require()
    assert not Home(f"{home.root}/nowhere").exists


def test_the_environment_wins_then_the_settings_then_what_was_kept(home: Home) -> None:
    keep(home, {"FLEET_QUEUE": "postgresql://kept/x"})
    assert home.names_queue({})
    assert chosen(home, {}).url == "postgresql://kept/x"
    say(home, f'queue = "{URL}"\n[supervisor]\nclaim_seconds = 90\n')
    found = chosen(home, {})
    assert (found.kind, found.url, found.lease_seconds) == (POSTGRES, URL, 90)
    assert chosen(home, {"FLEET_QUEUE": "postgresql://env/x"}).url == "postgresql://env/x"
    assert chosen(home, {"FLEET_QUEUE": "sqlite"}).kind == SQLITE
    assert chosen(home, {"FLEET_QUEUE": URL}, said="beads").kind == BEADS


def test_what_a_supervisor_was_started_with_is_kept_for_this_user_alone_until_the_settings_say_it(home: Home) -> None:
    keep(home, {"FLEET_QUEUE": URL})
    kept = Path(home.kept_queue)
    assert kept.read_text() == URL and stat.S_IMODE(kept.stat().st_mode) == 0o600
    keep(home, {})
    assert kept.exists()
    say(home, 'queue = "sqlite"\n')
    keep(home, {})
    assert not kept.exists()
    keep(home, {})


def test_a_program_prints_the_connection_string_in_its_first_line(home: Home) -> None:
    program(home, f"print('{URL}  '); print('more')")
    assert chosen(home, {}).url == URL
    assert chosen(home, {"FLEET_QUEUE": "postgresql://env/x"}).url == "postgresql://env/x"


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("import sys; print('hunter22'); sys.exit('hunter22')", "exit code 1"),
        ("print()", "printed nothing"),
        ("print('hunter22')", "no queue of the name"),
        ("import time; time.sleep(60)", "longer than"),
    ],
)
def test_a_program_that_fails_is_told_without_what_it_said(
    home: Home, code: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet.config.queue.COMMAND_SECONDS", 0.5 if "sleep" in code else 30)
    program(home, code)
    with pytest.raises(FleetError, match=fault) as refused:
        chosen(home, {})
    assert "hunter22" not in f"{refused.value}{refused.value.hint}"


def test_a_program_that_is_not_there_is_told(home: Home) -> None:
    say(home, 'queue_command = ["/nowhere/at/all"]\n')
    with pytest.raises(FleetError, match="cannot be started"):
        chosen(home, {})


def program(home: Home, code: str) -> None:
    say(home, f'queue_command = ["{sys.executable}", "-c", "{code}"]\n')


def test_settings_show_that_there_is_a_queue_and_not_how_to_reach_it(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    for env, text in (({}, f'queue = "{URL}"\n'), ({"FLEET_QUEUE": URL}, "")):
        say(home, text)
        settings = load(home, env=env)
        assert settings.queue == URL
        assert row(settings, ("queue",)).value == "postgresql://…"
    assert "hunter22" not in caplog.text
    say(home, 'queue = "beads"\n')
    assert row(load(home, env={}), ("queue",)).value == "beads"


def test_the_file_of_what_was_kept_that_cannot_be_read_is_told(home: Home) -> None:
    os.mkdir(home.kept_queue)  # noqa: PTH102
    with pytest.raises(FleetError, match="cannot read"):
        chosen(home, {})
