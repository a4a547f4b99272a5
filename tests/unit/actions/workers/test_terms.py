"""codefleet's variables: defaults, effects and refused values. Also names of branches and the status of workers."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from builders import a_task
from fleet.actions.tasks.bounds import allows
from fleet.actions.workers.create import branch_of, new_id
from fleet.actions.workers.terms import WorkerTerms
from fleet.actions.workers.views import span
from fleet.actions.workers.workers import CANCELLED_HERE, Worker
from fleet.core.branch import check_branch
from fleet.core.errors import BadInput
from fleet.core.run import Ending, Question, Run
from fleet.core.task import Status
from fleet.settings.load import merge

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = merge([])


def test_worker_terms_default_to_those_of_codefleet() -> None:
    terms = WorkerTerms.of({})
    assert terms == WorkerTerms()
    assert terms.limits(None) == {"wall_seconds": 600.0, "silence_seconds": 120.0}
    rules = terms.rules()
    assert (rules.at_once, rules.depth, rules.retries, rules.stale_restarts) == (50, 2, 0, 2)
    assert (rules.rate_limit_retries, rules.rate_limit_base_seconds, rules.rate_limit_max_seconds) == (3, 4.0, 60.0)


def test_each_variable_is_applied() -> None:
    terms = WorkerTerms.of(
        {
            "FLEET_DEFAULT_EXECUTOR": "gemini",
            "FLEET_DEFAULT_MODEL": "m1",
            "FLEET_GEMINI_DEFAULT_MODEL": "m2",
            "FLEET_CLAUDE_DEFAULT_MODEL": "m3",
            "FLEET_REASONING_EFFORT": "low",
            "FLEET_DEFAULT_TIMEOUT": "10",
            "FLEET_STALE_TIMEOUT": "2.5",
            "FLEET_STALE_MAX_RESTARTS": "0",
            "FLEET_MAX_CONCURRENT": "7",
            "FLEET_MAX_SPAWN_DEPTH": "0",
            "FLEET_ALLOWED_REPOS": " /a , /b/../c ,",
            "FLEET_RATE_LIMIT_MAX_RETRIES": "9",
            "FLEET_RATE_LIMIT_BASE_DELAY": "0.5",
            "FLEET_RATE_LIMIT_MAX_DELAY": "8",
            "PATH": "/bin",
        }
    )
    assert [terms.model(coder) for coder in ("codex", "gemini", "claude", "opencode")] == ["m1", "m2", "m3", ""]
    assert terms.coder("", SETTINGS) == "gemini"
    assert terms.repos == ("/a", "/c")
    assert terms.limits(None) == {"wall_seconds": 10.0, "silence_seconds": 2.5}
    assert terms.limits(20)["wall_seconds"] == 20.0
    told = terms.rules()
    assert (told.at_once, told.depth, told.stale_restarts, told.reasoning_effort) == (7, 0, 0, "low")
    assert (told.rate_limit_retries, told.rate_limit_base_seconds, told.rate_limit_max_seconds) == (9, 0.5, 8.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FLEET_DEFAULT_TIMEOUT", "soon"),
        ("FLEET_DEFAULT_TIMEOUT", "0"),
        ("FLEET_STALE_TIMEOUT", "nan"),
        ("FLEET_STALE_TIMEOUT", "inf"),
        ("FLEET_MAX_CONCURRENT", "0"),
        ("FLEET_MAX_CONCURRENT", "many"),
        ("FLEET_MAX_SPAWN_DEPTH", "-1"),
        ("FLEET_STALE_MAX_RESTARTS", "1.5"),
        ("FLEET_RATE_LIMIT_BASE_DELAY", "-4"),
        ("FLEET_RATE_LIMIT_MAX_RETRIES", "9" * 30),
        ("FLEET_RATE_LIMIT_MAX_RETRIES", "501"),
        ("FLEET_STALE_MAX_RESTARTS", "1500"),
    ],
)
def test_invalid_variable_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(BadInput, match=f"^{name}="):
        WorkerTerms.of({name: value})


def test_default_worker_is_codex_when_it_is_installed(tmp_path: Path) -> None:
    nowhere = WorkerTerms(path=str(tmp_path))
    assert nowhere.coder("", SETTINGS) == SETTINGS.coder == "claude"
    (tmp_path / "codex").write_text("#!/bin/sh\n")
    (tmp_path / "codex").chmod(0o755)
    assert nowhere.coder("", SETTINGS) == "codex"
    assert nowhere.coder("opencode", SETTINGS) == "opencode"
    with pytest.raises(BadInput, match="unknown coder 'cladue'"):
        nowhere.coder("cladue", SETTINGS)


def test_allowed_repository_includes_its_subfolders() -> None:
    assert allows((), "/x")
    assert allows(("/a", "/b/"), "/b/c")
    assert allows(("/a",), "/a")
    assert not allows(("/a",), "/ab")
    assert not allows(("/a",), "")


@pytest.mark.parametrize(
    ("coder", "name", "branch"),
    [
        ("codex", "Fix the login!", "codex/Fix-the-login/"),
        ("pkg.mod:Class", "ünïcode ÷ only", "pkg.mod-Class/n-code-only/"),
        ("claude", "../../etc/passwd", "claude/etc-passwd/"),
        ("claude", "..", "claude/task/"),
        ("claude", "x.lock", "claude/x/"),
        ("c" * 99, "y" * 200, "c" * 30 + "/" + "y" * 50 + "/"),
    ],
)
def test_branch_of_a_worker_is_always_valid(coder: str, name: str, branch: str) -> None:
    key = new_id()
    made = branch_of(coder, name, key)
    check_branch(made)
    assert made == branch + key


def a_run(ending: str = "") -> Run:
    ended = NOW if ending else None
    return Run(id="w/1", task_id="w", number=1, epoch=1, owner="o", started_at=NOW, ended_at=ended, ending=ending)


ASKED = Question(id="q", task_id="w", asked_at=NOW, text="?")
STOPPED = {"status": Status.BLOCKED, "reason": CANCELLED_HERE}


@pytest.mark.parametrize(
    ("fields", "run", "asked", "status"),
    [
        ({}, None, None, "pending"),
        ({"status": Status.IN_PROGRESS}, None, None, "pending"),
        ({"status": Status.IN_PROGRESS}, a_run(), None, "running"),
        ({"status": Status.IN_PROGRESS}, a_run(), ASKED, "running"),
        ({"status": Status.BLOCKED}, a_run(), None, "running"),
        ({"status": Status.CLOSED}, a_run(), None, "running"),
        ({"status": Status.OPEN}, a_run(Ending.RATE_LIMITED), None, "pending"),
        ({"status": Status.CLOSED}, a_run(Ending.FINISHED), None, "succeeded"),
        ({"status": Status.BLOCKED}, a_run(Ending.FAILED), None, "failed"),
        ({"status": Status.BLOCKED}, a_run(Ending.TIMED_OUT), None, "timed_out"),
        ({"status": Status.BLOCKED}, a_run(Ending.STALLED), None, "failed"),
        ({"status": Status.BLOCKED}, a_run(Ending.CANCELLED), None, "cancelled"),
        ({"status": Status.BLOCKED}, a_run(Ending.BLOCKED), ASKED, "pending"),
        (STOPPED, None, None, "cancelled"),
        (STOPPED, a_run(Ending.BLOCKED), ASKED, "cancelled"),
        (STOPPED, a_run(Ending.FAILED), None, "cancelled"),
    ],
)
def test_worker_status_follows_from_its_task_and_run(
    fields: dict[str, str], run: Run | None, asked: Question | None, status: str
) -> None:
    assert Worker(a_task(id="w", **fields), run, None, asked).status == status


def test_durations_are_formatted_as_by_codefleet() -> None:
    assert [span(each) for each in (None, -1, 0, 59.9, 61, 3723)] == ["-", "-", "0s", "59s", "1m 01s", "1h 02m"]
