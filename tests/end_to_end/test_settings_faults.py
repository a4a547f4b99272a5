"""A runtime.toml that is foreign, broken, a pipe or huge: commands continue and warn."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from live_runs import Records, records
from program import Result
from supervised import Supervised, home

__all__ = ["home", "records"]

#: The settings that sermakarevich/fleet writes, at first and in later versions.
OLD = """\
max_concurrent = 4
model = "opus"
coder = "claude"
context_pressure_threshold_pct = 80
telegram_chat_id = ""
telegram_allowed_ids = "1,2"
telegram_default_cwd = ""
"""
LATER = 'stall_action = "kill"\nmax_concurrent_overrides = "claude:2"\nserve_cors_origins = []\nserve_port = 7890\n'
READING = (
    *(["config"], ["config", "get", "model"], ["init"], ["list"], ["tasks"], ["ready"], ["runs", "{task}"]),
    *(["show", "{task}"], ["questions"], ["accounts"], ["hosts"], ["stats"]),
    *(["bd", "list"], ["bd", "show", "{task}"]),
)


def settings(records: Records) -> Path:
    return Path(records.home.settings)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(100 << 20)


def broken(path: Path) -> None:
    path.write_text("max_concurrent = 7\nmodel = \n")


def wrong(path: Path) -> None:
    path.write_text("max_concurrent = 'many'\n")


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def dangling(path: Path) -> None:
    """Replace the file by a link to a disk that is not mounted."""
    path.unlink()
    path.symlink_to("/nonexistent/runtime.toml")


FAULTS = [pipe, huge, broken, wrong, folder, dangling]


def warnings(result: Result) -> list[str]:
    return [line for line in result.err.splitlines() if line.startswith("warning: ")]


@pytest.mark.parametrize(
    "text",
    [
        *(OLD, OLD + LATER, OLD + "what_no_fleet_has = 1\n[web]\nport = 3\n"),
        OLD + "[supervisor]\nwarm_commands = false\n",
    ],
)
def test_command_ignores_foreign_keys_with_one_warning_when_the_home_is_an_old_one(records: Records, text: str) -> None:
    task = records.create("a task")
    settings(records).write_text(text)
    for words in READING:
        result = records.fleet(*(word.format(task=task) for word in words))
        assert result.code == 0 and "error" not in result.err, (words, result)
        assert len(warnings(result)) <= 1
    (warning,) = warnings(records.fleet("config", "get", "model"))
    assert "runtime.toml: ignored keys" in warning and "telegram_chat_id" in warning
    assert records.fleet.ok("config", "get", "model") == "opus\n"
    assert "telegram_chat_id = " in settings(records).read_text()


def test_validate_accepts_foreign_keys_when_the_home_is_an_old_one(records: Records) -> None:
    settings(records).write_text(OLD + LATER)
    assert "note: " in records.fleet.ok("config", "validate")
    records.fleet.ok("config", "set", "max_concurrent=5")
    assert 'telegram_allowed_ids = "1,2"' in settings(records).read_text()


@pytest.mark.parametrize("fault", FAULTS)
def test_command_uses_the_last_good_settings_when_the_file_is_broken(
    records: Records, fault: Callable[[Path], None]
) -> None:
    task = records.create("a task")
    records.fleet.ok("config", "set", "model=opus", "max_concurrent=9")
    fault(settings(records))
    for words in READING:
        result = records.fleet(*(word.format(task=task) for word in words))
        assert result.code == 0 and "error" not in result.err, (words, result)
        assert len(warnings(result)) <= 1
    told = records.fleet("config", "get", "max_concurrent")
    (warning,) = warnings(told)
    assert told.out == "9\n" and "runtime.toml" in warning and "using the last valid settings" in warning
    checks = json.loads(records.fleet("doctor", "--json").out)
    assert [check for check in checks if check["name"] == "settings" and check["state"] == "wrong"]
    assert records.fleet("config", "validate").code == 1


@pytest.mark.parametrize("fault", FAULTS)
def test_command_uses_the_defaults_when_no_settings_were_ever_good(
    records: Records, fault: Callable[[Path], None]
) -> None:
    records.fleet.ok("config", "set", "max_concurrent=9")
    Path(records.home.good_settings).unlink(missing_ok=True)
    fault(settings(records))
    told = records.fleet("config", "get", "max_concurrent")
    assert told.out == "3\n" and "using the defaults" in told.err


@pytest.mark.parametrize("fault", [pipe, huge, broken, folder])
def test_config_set_refuses_when_the_file_cannot_be_read(records: Records, fault: Callable[[Path], None]) -> None:
    fault(settings(records))
    result = records.fleet("config", "set", "model=opus")
    assert result.code == 1 and "runtime.toml" in result.err and "bug" not in result.err


def test_kill_succeeds_when_the_settings_are_broken(records: Records) -> None:
    task = records.create("a task")
    broken(settings(records))
    done = records.fleet("kill", task)
    assert done.code == 0 and done.out == f"{task}: blocked (stopped by hand)\n"


@pytest.mark.parametrize("fault", FAULTS)
def test_kill_ends_a_running_agent_when_the_settings_are_broken(
    home: Supervised, fault: Callable[[Path], None]
) -> None:
    home.start()
    task = home.create("ok seconds=600")
    home.wait_started(1)
    fault(home.fleet.home / "runtime.toml")
    done = home.fleet("kill", task)
    assert done.code == 0, done
    home.wait_status(task, "blocked")
    assert "settings not reloaded" in json.dumps(home.log_lines())


@pytest.mark.parametrize("fault", FAULTS)
def test_supervisor_starts_with_the_last_good_settings_when_the_file_is_broken(
    home: Supervised, fault: Callable[[Path], None]
) -> None:
    home.set("max_concurrent=2")
    task = home.create("ok")
    fault(home.fleet.home / "runtime.toml")
    home.start()
    home.wait_status(task, "closed")
    assert "using the last valid settings" in json.dumps(home.log_lines())
