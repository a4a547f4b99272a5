"""The queue of a home, and the secrecy of its connection string."""

import logging
import os
import stat
import sys
from pathlib import Path

import pytest

from fleet.actions.control.settings import row
from fleet.core.errors import BadInput, FleetError, UsageError
from fleet.home import Home
from fleet.settings.load import load
from fleet.settings.queue import BEADS, POSTGRES, SQLITE, choose_queue, kind_of, record_queue, refuse_password

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
def test_queue_kind_follows_from_its_name(name: str, kind: str) -> None:
    assert kind_of(name) == kind


@pytest.mark.parametrize("name", ["mysql://ada:hunter22@h/x", "hunter22", "Postgresql://ada:hunter22@h"])
def test_unknown_queue_is_refused_without_repeating_it(name: str, home: Home) -> None:
    with pytest.raises(BadInput) as refused:
        kind_of(name)
    assert "hunter22" not in f"{refused.value}{refused.value.hint}"
    for env, text in (({}, f'queue = "{name}"\n'), ({"FLEET_QUEUE": name}, "")):
        say(home, text)
        with pytest.raises(BadInput) as refused:
            choose_queue(home, env)
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
def test_password_in_an_argument_is_refused_in_any_form(typed: str) -> None:
    with pytest.raises(UsageError, match="is visible to every user") as refused:
        refuse_password(typed, hint="say it elsewhere.")
    assert "hunter22" not in f"{refused.value}{refused.value.hint}"


@pytest.mark.parametrize(
    "typed",
    [
        *("sqlite", "beads", "-", "postgresql://host:5432/x", "postgresql://ada@host/x", "postgresql://ada@[::1]:1/x"),
        *("postgresql://host/x?passfile=/etc/fleet/pass", "postgresql:///password?user=password", "postgresql://h/x?"),
    ],
)
def test_connection_string_without_password_is_accepted(typed: str) -> None:
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
        ('queue = "sqlite" # for now\n', True),  # the settings are read and name no queue
    ],
)
def test_quick_check_finds_each_configured_queue(home: Home, text: str, elsewhere: bool) -> None:
    say(home, text)
    assert home.names_queue({}) is elsewhere
    assert home.names_queue({"FLEET_QUEUE": "beads"})


def test_queue_defaults_to_the_local_file(home: Home) -> None:
    assert not home.names_queue({}) and not home.exists
    assert choose_queue(home, {}).kind == SQLITE


def test_home_exists_without_a_database_when_its_tasks_are_elsewhere(home: Home) -> None:
    say(home, f'queue = "{URL}"\n')
    assert home.exists
    home.require()
    assert not Home(f"{home.root}/nowhere").exists


def test_queue_comes_from_environment_then_settings_then_record(home: Home) -> None:
    record_queue(home, {"FLEET_QUEUE": "postgresql://kept/x"})
    assert home.names_queue({})
    assert choose_queue(home, {}).url == "postgresql://kept/x"
    say(home, f'queue = "{URL}"\n[supervisor]\nclaim_seconds = 90\n')
    found = choose_queue(home, {})
    assert (found.kind, found.url, found.lease_seconds) == (POSTGRES, URL, 90)
    assert choose_queue(home, {"FLEET_QUEUE": "postgresql://env/x"}).url == "postgresql://env/x"
    assert choose_queue(home, {"FLEET_QUEUE": "sqlite"}).kind == SQLITE
    assert choose_queue(home, {"FLEET_QUEUE": URL}, said="beads").kind == BEADS


def test_queue_of_a_supervisor_is_recorded_privately_until_settings_name_it(home: Home) -> None:
    record_queue(home, {"FLEET_QUEUE": URL})
    kept = Path(home.kept_queue)
    assert kept.read_text() == URL and stat.S_IMODE(kept.stat().st_mode) == 0o600
    record_queue(home, {})
    assert kept.exists()
    say(home, 'queue = "sqlite"\n')
    record_queue(home, {})
    assert not kept.exists()
    record_queue(home, {})


def test_connection_string_is_the_first_line_of_a_program(home: Home) -> None:
    program(home, f"print('{URL}  '); print('more')")
    assert choose_queue(home, {}).url == URL
    assert choose_queue(home, {"FLEET_QUEUE": "postgresql://env/x"}).url == "postgresql://env/x"


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("import sys; print('hunter22'); sys.exit('hunter22')", "exit code 1"),
        ("print()", "printed nothing"),
        ("print('hunter22')", "not the name of a queue"),
        ("import time; time.sleep(60)", "longer than"),
    ],
)
def test_failing_program_is_reported_without_its_output(
    home: Home, code: str, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fleet.settings.queue.COMMAND_SECONDS", 0.5 if "sleep" in code else 30)
    program(home, code)
    with pytest.raises(FleetError, match=fault) as refused:
        choose_queue(home, {})
    assert "hunter22" not in f"{refused.value}{refused.value.hint}"


def test_missing_program_is_reported(home: Home) -> None:
    say(home, 'queue_command = ["/nowhere/at/all"]\n')
    with pytest.raises(FleetError, match="cannot start"):
        choose_queue(home, {})


def program(home: Home, code: str) -> None:
    say(home, f'queue_command = ["{sys.executable}", "-c", "{code}"]\n')


def test_settings_show_a_queue_without_its_connection_string(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for env, text in (({}, f'queue = "{URL}"\n'), ({"FLEET_QUEUE": URL}, "")):
        say(home, text)
        settings = load(home, env=env)
        assert settings.queue == URL
        assert row(settings, ("queue",)).value == "postgresql://…"
    assert "hunter22" not in caplog.text
    say(home, 'queue = "beads"\n')
    assert row(load(home, env={}), ("queue",)).value == "beads"


def test_unreadable_record_is_reported(home: Home) -> None:
    os.mkdir(home.kept_queue)  # noqa: PTH102
    with pytest.raises(FleetError, match="cannot read"):
        choose_queue(home, {})
