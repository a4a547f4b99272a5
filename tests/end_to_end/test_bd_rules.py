"""`bd create` and `bd update` with the rules that restrict a task's work."""

import json
from typing import Any

import pytest

from program import Program


@pytest.fixture(autouse=True)
def home(fleet: Program) -> None:
    fleet.furnish(("init", "--permissions", "user"))


def rules_of(fleet: Program, key: str) -> dict[str, Any]:
    metadata = json.loads(fleet.ok("bd", "show", key, "--json"))[0]["metadata"]
    found: dict[str, Any] = json.loads(metadata.get("fleet.rules", "{}"))
    return found


def made(fleet: Program, *words: str) -> str:
    return str(json.loads(fleet.ok("bd", "create", "x", *words, "--json"))["id"])


def test_rules_are_stored_with_the_task_and_shown(fleet: Program) -> None:
    words = ("--allow", "src/", "--allow", "*.md", "--protect", "tests/", "--fail-to-pass", "--allow-no-changes")
    key = made(fleet, *words)
    expected = {"allow": ["src/", "*.md"], "protect": ["tests/"], "fail_to_pass": True, "no_changes": True}
    assert rules_of(fleet, key) == expected
    assert 'fleet.rules: {"allow"' in fleet.ok("bd", "show", key)
    assert rules_of(fleet, made(fleet)) == {}


def test_update_changes_the_named_rules_and_keeps_the_rest(fleet: Program) -> None:
    key = made(fleet, "--allow", "src/", "--fail-to-pass")
    fleet.ok("bd", "update", key, "--allow", "docs/")
    assert rules_of(fleet, key) == {"allow": ["docs/"], "fail_to_pass": True}
    fleet.ok("bd", "update", key, "--fail-to-pass=false", "--protect", "*.lock")
    assert rules_of(fleet, key) == {"allow": ["docs/"], "protect": ["*.lock"], "fail_to_pass": False}
    fleet.ok("bd", "update", key, "--unset-metadata", "fleet.rules")
    assert rules_of(fleet, key) == {}


@pytest.mark.parametrize("words", [("--allow", "../x"), ("--protect", ""), ("--metadata", '{"fleet.rules": "[]"}')])
def test_invalid_rule_is_refused_and_nothing_is_created(fleet: Program, words: tuple[str, ...]) -> None:
    result = fleet("bd", "create", "x", *words)
    assert result.code == 1 and "rror" in result.err
    assert json.loads(fleet.ok("bd", "list", "--json")) == []
    key = made(fleet, "--allow", "src/")
    assert fleet("bd", "update", key, *words).code == 1
    assert rules_of(fleet, key) == {"allow": ["src/"]}
