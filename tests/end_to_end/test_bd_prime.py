"""`bd prime`: the guide for agents."""

import json
import re
from datetime import timedelta

import pytest

from fleet.cli.bd.prime import GUIDE
from fleet.cli.bd.verbs import VERBS, find_verb
from fleet.core.filter import Lane
from fleet.core.task import Caller
from fleet.store.sqlite.store import SqliteStore
from program import Program


def test_guide_is_printed_without_a_home(fleet: Program) -> None:
    out = fleet.ok("bd", "prime")
    assert out == GUIDE
    for words in ("bd ready", "--claim", "bd dep add", "bd comment", "QUESTION:", "bd close", "hands in"):
        assert words in out
    assert not fleet.home.exists()


def test_every_command_of_the_guide_exists() -> None:
    commands = re.findall(r"`bd ([a-z]+(?: [a-z]+)?)", GUIDE)
    assert len(commands) > 10
    for text in commands:
        name, *rest = text.split()
        verb, _ = find_verb(name, rest)
        assert verb.name in VERBS


def test_every_flag_of_the_guide_exists() -> None:
    for command in re.findall(r"`(bd [^`]+)`", GUIDE):
        name, *rest = command.split()[1:]
        if not name.islower():
            continue
        verb, rest = find_verb(name, rest)
        known = {spelling for flag in verb.flags() for spelling in flag.names} | {"--json", "--help"}
        assert {word for word in rest if re.fullmatch(r"--?[a-z-]+", word)} <= known, command


@pytest.mark.parametrize("flag", ["--full", "--stealth", "--export"])
def test_other_forms_print_the_same_guide(fleet: Program, flag: str) -> None:
    assert fleet.ok("bd", "prime", flag) == GUIDE


def test_short_form_is_printed_and_memories_are_empty(fleet: Program) -> None:
    short = fleet.ok("bd", "prime", "--mcp")
    assert 0 < len(short) < len(GUIDE) / 3 and "QUESTION:" in short
    assert fleet.ok("bd", "prime", "--mcp", "--full") == GUIDE
    assert fleet.ok("bd", "prime", "--memories-only") == ""


def test_hook_form_is_one_line_of_json(fleet: Program) -> None:
    out = fleet.ok("bd", "prime", "--hook-json")
    assert out.count("\n") == 1
    found = json.loads(out)
    assert found == {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": GUIDE}}


def test_file_in_the_home_replaces_the_guide(fleet: Program) -> None:
    fleet.ok("bd", "init")
    (fleet.home / "PRIME.md").write_text("Do as we do here – always.")
    assert fleet.ok("bd", "prime") == "Do as we do here – always.\n"
    assert "always" in json.loads(fleet.ok("bd", "prime", "--hook-json"))["hookSpecificOutput"]["additionalContext"]
    assert fleet.ok("bd", "prime", "--export") == GUIDE


def test_guide_is_printed_when_the_file_in_the_home_cannot_be_read(fleet: Program) -> None:
    fleet.ok("bd", "init")
    (fleet.home / "PRIME.md").write_bytes(b"\xff\xfe")
    result = fleet("bd", "prime")
    assert (result.code, result.out) == (0, GUIDE)
    assert "cannot read" in result.err


def test_guide_names_the_task_when_a_run_asks(fleet: Program) -> None:
    key = fleet.ok("bd", "q", "Paint the fence").strip()
    store = SqliteStore(str(fleet.home / "fleet.db"))
    [claim] = store.claims.acquire("host", [Lane(room=1)], room=1, ttl=timedelta(hours=1))
    token = store.tokens.issue(claim, Caller(task_id=key, run_id="run", epoch=claim.epoch))
    store.close()
    out = fleet.ok("bd", "prime", FLEET_RUN_TOKEN=token)
    assert out.startswith(GUIDE) and out.endswith(f"fleet started you for {key}: Paint the fence\n")
    assert fleet.ok("bd", "prime", FLEET_RUN_TOKEN="nobody's") == GUIDE
    fleet.ok("bd", "batch", stdin=f"close {key} done", FLEET_RUN_TOKEN=token)
    assert json.loads(fleet.ok("bd", "show", key, "--json"))[0]["status"] == "in_progress", "it is only handed in"
