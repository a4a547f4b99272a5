"""`bd config`, `statuses`, `types`, `where`, `info`, `version` and `init`."""

import json
import re
from typing import Any

import pytest

from program import Program


@pytest.fixture
def made(fleet: Program) -> Program:
    fleet.ok("bd", "init")
    return fleet


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Return a home for tests that change nothing."""
    fleet = Program(tmp_path_factory.mktemp("untouched"))
    fleet.ok("bd", "init")
    return fleet


def answer(fleet: Program, *args: str) -> Any:
    return json.loads(fleet.ok("bd", *args, "--json"))


def test_config_sets_shows_lists_and_unsets_a_value(made: Program) -> None:
    assert made.ok("bd", "config", "get", "status.custom") == "status.custom (not set)\n"
    assert made.ok("bd", "config", "set", "status.custom", "review:wip,qa:active") == (
        "Set status.custom = review:wip,qa:active\n"
    )
    assert made.ok("bd", "config", "get", "status.custom") == "review:wip,qa:active\n"
    assert answer(made, "config", "get", "status.custom") == {
        "key": "status.custom",
        "schema_version": 1,
        "value": "review:wip,qa:active",
    }
    assert answer(made, "config", "list") == {
        "issue_prefix": "fleet",
        "schema_version": 1,
        "status.custom": "review:wip,qa:active",
    }
    assert "  issue_prefix = fleet\n" in made.ok("bd", "config", "list")
    assert made.ok("bd", "config", "unset", "status.custom") == "Unset status.custom\n"
    assert answer(made, "config", "unset", "status.custom") == {"key": "status.custom", "schema_version": 1}
    assert answer(made, "config", "get", "status.custom")["value"] == ""


def test_custom_statuses_and_types_work_at_once(made: Program) -> None:
    made.ok("bd", "config", "set", "status.custom", "review:wip,qa:active")
    made.ok("bd", "config", "set", "types.custom", "widget,agent")
    assert made.ok("bd", "statuses").endswith(
        "Custom statuses:\n  ○ qa             [active]\n  ◐ review         [wip   ]\n"
    )
    assert made.ok("bd", "types").endswith("Configured custom types:\n  widget\n  agent\n")
    key = made.ok("bd", "q", "A widget", "-t", "widget").strip()
    made.ok("bd", "update", key, "--status", "review")
    assert answer(made, "count", "-s", "review", "-t", "widget")["count"] == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("status.custom", "Bad Name"),
        ("status.custom", "open:wip"),
        ("status.custom", "mine:sometimes"),
        ("types.custom", "two words"),
        ("issue_prefix", "no good"),
        ("issue_prefix", ""),
        ("issue_prefix", "1st"),
        ("issue_prefix", "a/b"),
        ("two words", "x"),
    ],
)
def test_config_set_refuses_an_invalid_value(untouched: Program, key: str, value: str) -> None:
    before = untouched.ok("bd", "config", "list")
    result = untouched("bd", "config", "set", key, value)
    assert result.code == 1 and result.err.startswith("Error: ")
    assert untouched.ok("bd", "config", "list") == before


def test_config_set_keeps_an_unknown_key_with_a_warning(made: Program) -> None:
    result = made("bd", "config", "set", "nonsense.key", "value")
    assert (result.code, result.out) == (0, "Set nonsense.key = value\n")
    assert result.err.startswith('Warning: "nonsense.key" is not a recognized config key.')
    assert made("bd", "config", "set", "custom.mine", "value").err == ""


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["get"], "accepts 1 arg(s), received 0"),
        (["set", "only-one"], "accepts 2 arg(s), received 1"),
        (["unset", "a", "b"], "accepts 1 arg(s), received 2"),
        ([], "bd config needs one of: get, set, unset, list"),
    ],
)
def test_config_is_refused_when_the_number_of_arguments_is_wrong(
    untouched: Program, args: list[str], message: str
) -> None:
    result = untouched("bd", "config", *args)
    assert result.code == 1 and result.err.startswith(f"Error: {message}")


def test_statuses_and_types_equal_bds(untouched: Program) -> None:
    found = answer(untouched, "statuses")
    assert [each["name"] for each in found["built_in_statuses"]] == [
        *("open", "in_progress", "blocked", "deferred", "closed", "pinned", "hooked")
    ]
    assert found["built_in_statuses"][0] == {
        "category": "active",
        "description": "Available to work (default)",
        "icon": "○",
        "name": "open",
    }
    types = answer(untouched, "types")["core_types"]
    assert [each["name"] for each in types] == [
        *("task", "bug", "feature", "chore", "epic", "decision", "spike", "story", "milestone")
    ]


def test_where_and_info_show_the_home(made: Program) -> None:
    database = str(made.home / "fleet.db")
    assert made.ok("bd", "where") == f"{made.home}\n  prefix: fleet\n  database: {database}\n"
    assert answer(made, "where")["database_path"] == database
    made.ok("bd", "q", "One")
    found = answer(made, "info")
    assert (found["issue_count"], found["database_path"], found["mode"]) == (1, database, "direct")
    assert found["config"] == {"issue_prefix": "fleet"}
    assert "Issue Count: 1\n" in made.ok("bd", "info")


@pytest.mark.parametrize("args", [["version"], ["--version"]])
def test_version_satisfies_clients_of_bd(fleet: Program, args: list[str]) -> None:
    out = fleet.ok("bd", *args)
    found = re.search(r"(\d+)\.(\d+)\.(\d+)", out.splitlines()[0])
    assert found and tuple(map(int, found.groups())) >= (0, 9, 0)
    assert out.startswith("bd version 1.3.0 (fleet ")
    assert set(answer(fleet, "version")) == {"branch", "build", "schema_version", "version"}
    assert not fleet.home.exists(), "asking for the version makes nothing"


def test_init_creates_the_home_and_sets_the_prefix(fleet: Program) -> None:
    out = fleet.ok("bd", "init", "--prefix", "shop-")
    assert "Issue prefix: shop\n" in out and str(fleet.home / "fleet.db") in out
    assert (fleet.home / "runtime.toml").exists() and (fleet.home / "bin" / "bd").exists()
    assert fleet.ok("bd", "q", "One").startswith("shop-")
    again = fleet.ok("bd", "init")
    assert "nothing to change" in again and "shop" in again
    fleet.ok("bd", "init", "-p", "shop")
    assert answer(fleet, "init") == {
        "created": False,
        "database_path": str(fleet.home / "fleet.db"),
        "path": str(fleet.home),
        "prefix": "shop",
        "schema_version": 1,
    }


def test_prefix_cannot_change_when_the_queue_has_tasks(fleet: Program) -> None:
    fleet.ok("bd", "init", "--prefix", "old", "--quiet")
    fleet.ok("bd", "init", "--prefix", "new", "--skip-hooks", "--non-interactive", "--role", "maintainer")
    fleet.ok("bd", "q", "One")
    for args in (["init", "--prefix", "other"], ["config", "set", "issue_prefix", "other"]):
        result = fleet("bd", *args)
        assert result.code == 1 and "the prefix stays 'new'" in result.err
    assert fleet("bd", "config", "unset", "issue_prefix").code == 1
    assert fleet.ok("bd", "config", "get", "issue_prefix") == "new\n"


@pytest.mark.parametrize(
    "args", [["--server"], ["--remote", "x"], ["--reinit-local"], ["--from-jsonl"], ["--prefix", "a b"], ["word"]]
)
def test_init_refuses_unsupported_flags_by_name_and_creates_nothing(fleet: Program, args: list[str]) -> None:
    result = fleet("bd", "init", *args)
    assert result.code == 1 and (args[0] in result.err or args[-1] in result.err)
    assert not fleet.home.exists()


def test_reading_verbs_create_no_home(fleet: Program) -> None:
    for verb in (["config", "list"], ["where"], ["info"], ["statuses"], ["export"], ["count"]):
        result = fleet("bd", *verb)
        assert result.code == 1 and "no fleet home" in result.err
    assert not fleet.home.exists()
