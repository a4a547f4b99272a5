"""`fleet status`: names exactly what needs a person, fits its screen, and remembers when it was last shown."""

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from contract.store_builders import a_workspace
from fleet.core.task import Status
from live_runs import Records, records
from program import Program
from repositories import commit, make_repository, run_git
from situations import SAID, SITUATIONS, Scene, blocked, closed

__all__ = ["records"]

SCREENS = Path(__file__).parent.parent / "recordings" / "screens_of_fleet"


@pytest.fixture
def scene(records: Records) -> Iterator[Scene]:
    with ExitStack() as stack:
        yield Scene(records, stack)


def told(records: Records) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(records.fleet.ok("status", "--json"))
    return found


@pytest.mark.parametrize("name", SITUATIONS)
def test_status_names_exactly_what_needs_a_person(name: str, records: Records, scene: Scene) -> None:
    make, expected = SITUATIONS[name]
    make(scene)
    found = told(records)["needs_you"]
    assert [(each["kind"], each["name"]) for each in found] == expected, found
    assert all(each["what"] and each["commands"] for each in found)


def a_morning(scene: Scene) -> None:
    """Create tasks for every section, with long names and words."""
    scene.serve()
    key = scene.end("fix-cache", blocked("the agent asked a question"), {"title": "Cache what the gateway reads"})
    scene.ask(key, "Which storage backend should the cache use?\nredis, or a file on disk")
    asked_at = scene.now - timedelta(minutes=3, seconds=30)
    waits = {"mode": "interactive", "title": "Document payments"}
    scene.begin("docs-payment", waits, screen="question", last_event_at=asked_at)
    scene.end("price-rounding", blocked(SAID["failed_verify"], "failed_verify"), cost_usd=1.5, cost_basis="reported")
    scene.end("experiment-with-a-name-that-is-long-1", blocked("failed twice; last: " + "no disk " * 20))
    for name in ("docs-auth", "a-branch-with-a-rather-long-name", "another-branch-with-a-long-name"):
        scene.verified(name)
    scene.begin("split-lexer", {"title": "Split the lexer from the parser " * 4}, folded='{"text": "Edit lexer.py"}')
    scene.begin("rate-limit", tool_calls=12, cost_usd=0.03, cost_basis="computed:2026-01-01")
    scene.begin("asks-nothing", {"mode": "interactive"}, result_at=scene.now)
    scene.end("tidy-imports", closed("no_changes"))
    scene.end("cleanup", closed("unverified"), diff_files=3, diff_added=12, diff_removed=90)
    scene.end("experiment-2", blocked("stopped by hand"))
    scene.task("next")
    scene.store.config.set("fleet.paused", scene.now.isoformat())


@pytest.mark.parametrize("width", [80, 120])
def test_screen_matches_the_recording(width: int, records: Records, scene: Scene) -> None:
    a_morning(scene)
    records.fleet.env["COLUMNS"] = str(width)
    shown = records.fleet.ok("status")
    shown = re.sub(r"\b[0-3]m$", "3m", shown, flags=re.MULTILINE)  # less than 3 minutes just after midnight
    assert max(map(len, shown.splitlines())) <= width
    kept = SCREENS / f"status-{width}.txt"
    assert shown == kept.read_text("utf-8")


def test_narrow_screen_cuts_no_name_command_or_cost(records: Records, scene: Scene) -> None:
    a_morning(scene)
    found = told(records)
    records.fleet.env["COLUMNS"] = "50"
    lines = records.fleet.ok("status").splitlines()
    for name in [each["name"] for each in found["needs_you"] if each["kind"] != "merge"]:
        assert any(re.search(rf"(^|\s){re.escape(name)}(\s|$)", line) for line in lines), name
    whole = "\n".join(lines)
    for each in found["needs_you"]:
        for command in each["commands"]:
            assert command.removeprefix("fleet merge ") in whole
    assert "$1.50" not in whole and "$0.22" in whole and "≈$0.03" in whole and "$2.20" in whole


def test_totals_count_the_runs_of_today(records: Records, scene: Scene) -> None:
    a_morning(scene)
    totals = told(records)["totals"]
    assert (totals["running"], totals["ready"], totals["blocked"]) == (4, 1, 3)
    assert totals["today"] == {
        **{"cost_usd": 2.202, "cost_basis": "computed", "tokens": 270_000, "verified": 3, "judged": 6}
    }
    assert any("paused" in reason for reason in totals["nothing_starts"])


def test_texts_of_agents_cannot_control_the_terminal(records: Records, scene: Scene) -> None:
    evil = "a\x1b]0;owned\x07b\u202ec\n\x9b31m"
    scene.serve()
    scene.ask(scene.end("asks", blocked("the agent asked a question"), {"title": evil}), evil)
    scene.end("failed", blocked(evil), {"title": evil})
    scene.begin("works", {"title": evil}, folded=json.dumps({"text": evil}))
    scene.end("done", closed("unverified"), {"title": evil})
    shown = records.fleet.ok("status")
    assert all(char == "\n" or char.isprintable() for char in shown)
    assert "\\x1b]0;owned" in shown


def test_results_are_shown_until_a_while_after_they_were_seen(records: Records, scene: Scene) -> None:
    scene.serve()
    scene.end("before", closed("unverified"))
    place = Path(records.home.last_look)
    records.fleet.ok("status", "--json")
    assert not place.exists(), "a script is no look"
    assert "Done in the last 24 hours" in records.fleet.ok("status")
    assert "before" in records.fleet.ok("status"), "seen just now"
    look = json.loads(place.read_text())
    seen_at = scene.now - timedelta(minutes=11)
    place.write_text(json.dumps(look | {"at": seen_at.isoformat()}))
    (title,) = (line for line in records.fleet.ok("status").splitlines() if line.startswith("Done since "))
    assert title.endswith(f" {seen_at.astimezone():%H:%M}"), "after midnight the date is before the time"
    later = json.loads(place.read_text())
    assert later["since"] == seen_at.isoformat() and later["at"] > later["since"]
    place.write_text(json.dumps({"at": scene.now.isoformat(), "since": scene.now.isoformat()}))
    assert "before" not in records.fleet.ok("status")
    for broken in ("{", "[]", '{"at": 3}', '{"at": "2026-01-01T00:00:00", "since": "x"}'):
        place.write_text(broken)
        assert "before" in records.fleet.ok("status")


def test_agent_does_not_update_the_last_look(records: Records) -> None:
    records.fleet.ok("status", FLEET_RUN_ID="fleet-x/1")
    assert not Path(records.home.last_look).exists()


def test_bare_fleet_is_status_in_a_home_and_help_without_one(records: Records, tmp_path: Path) -> None:
    assert records.fleet.ok() == records.fleet.ok("status")
    (tmp_path / "other").mkdir()
    elsewhere = Program(tmp_path / "other")
    assert elsewhere.ok() == elsewhere.ok("--help")
    result = elsewhere("status")
    assert result.code == 1 and "no fleet home" in result.err
    assert not elsewhere.home.exists()


def test_question_is_answered_by_the_command_shown(records: Records, scene: Scene) -> None:
    scene.serve()
    key = scene.end("asks", blocked("the agent asked a question"))
    scene.ask(key, "red or blue?")
    (item,) = told(records)["needs_you"]
    (command,) = item["commands"]
    assert command == f'fleet answer {key} "…"'
    records.fleet.ok(*command.split()[1:3], "red")
    assert told(records)["needs_you"] == [] and scene.store.tasks.get(key).status == Status.OPEN


def test_list_of_all_projects_names_the_project_of_each_agent(records: Records, scene: Scene) -> None:
    scene.serve()
    scene.begin("a", {"repo": "/src/parser"})
    heads, row = records.fleet.ok("list", "--all-projects").splitlines()
    assert heads.split()[2] == "Project" and row.split()[2] == "parser"
    assert "Project" not in records.fleet.ok("list", cwd=records.fleet.user)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_narrow_list_omits_columns_and_cuts_no_name_or_result(width: int, records: Records, scene: Scene) -> None:
    a_morning(scene)
    rows = json.loads(records.fleet.ok("list", "--all", "--all-projects", "--json"))
    words = ("list", "--all", "--all-projects")
    lines = records.fleet.ok(*words, COLUMNS=str(width)).splitlines()[1 : len(rows) + 1]
    for row, line in zip(rows, lines, strict=True):
        assert line.startswith(f"{row['branch']} ") and f" {row['task']} " in line and f" {row['result']} " in line
    heads = records.fleet.ok(*words, COLUMNS="140").splitlines()[0].split()
    assert "Title" in heads and "Cost" in heads
    everything = records.fleet.ok(*words, "--wide", COLUMNS=str(width)).splitlines()[0].split()
    assert {"Title", "Cost", "CPU", "Memory", "Batch"} <= {*everything}


def test_branch_merged_by_git_is_not_offered_for_merging(records: Records, scene: Scene) -> None:
    scene.serve()
    repo = make_repository(records.fleet.user / "repo")
    for branch in ("merged", "waits"):
        run_git(repo, "checkout", "--quiet", "-b", branch, "main")
        commit(repo, f"{branch}.txt", "work")
        key = scene.end(branch, closed("verified"), {"repo": str(repo)})
        place = {"repo": str(repo), "common": str(repo / ".git"), "base_commit": "a" * 40}
        scene.store.workspaces.lease(a_workspace(key, branch=branch, **place))
    run_git(repo, "checkout", "--quiet", "main")
    run_git(repo, "merge", "--quiet", "--no-edit", "merged")
    assert [each["name"] for each in told(records)["needs_you"]] == ["waits"]
