"""Warnings in the answer to a new task: a missing program, or permissions that were never chosen."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_client import Tools, serving, stop
from program import Program
from repositories import make_repository

WHY = "no program 'codex' is on the PATH"
NOT_THERE = f"codex cannot be used: {WHY}"
STAGE = {"name": "one", "prompt_template": "x"}


class Fresh(NamedTuple):
    """A home that the server created: an installed claude that does nothing, and no codex."""

    fleet: Program
    repo: Path
    tools: Tools

    def worker(self, executor: str) -> dict[str, Any]:
        order = {"repo_path": str(self.repo), "task_name": "part", "prompt": "x", "executor": executor}
        return self.tools.ok("create_worker", **order)

    def workflow(self, executor: str) -> dict[str, Any]:
        order = {
            "name": "f",
            "repo_path": str(self.repo),
            "task_prompt": "x",
            "stages": [STAGE | {"executor": executor}],
        }
        return self.tools.ok("create_workflow", **order)


def prepared(base: Path) -> tuple[Program, Path]:
    fleet = Program(base)
    (programs := base / "programs").mkdir()
    (programs / "claude").write_text("#!/bin/sh\nexit 1\n")
    (programs / "claude").chmod(0o755)
    fleet.env |= {"PATH": f"{programs}:{fleet.env['PATH']}", "USER": "ada"}
    return fleet, make_repository(base / "repo")


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Fresh]:
    fleet, repo = prepared(tmp_path)
    with serving(fleet) as tools:
        yield Fresh(fleet, repo, tools)
    stop(fleet)


def test_warning_names_the_remedy_when_permissions_were_never_chosen(fresh: Fresh) -> None:
    said = [
        *fresh.tools.ok("healthcheck")["warnings"],
        fresh.worker("claude")["warning"],
        fresh.workflow("claude")["warning"],
    ]
    assert len(said) == 3
    for each in said:
        assert each.startswith("permissions were never chosen, so claude may use only the tools"), each
        assert "`fleet init --permissions skip`" in each
    assert "warning" not in fresh.worker("demo"), "which asks for nothing"
    fresh.fleet.ok("init", "--permissions", "user")
    assert "warning" not in fresh.worker("claude") and "warning" not in fresh.workflow("claude")
    assert fresh.tools.ok("healthcheck")["warnings"] == []


def test_missing_coder_is_reported_at_creation_and_while_its_worker_waits(fresh: Fresh) -> None:
    fresh.fleet.ok("init", "--permissions", "user")
    worker, flow = fresh.worker("codex"), fresh.workflow("codex")
    for each in (worker, flow):
        assert (each["status"], each["warning"]) == ("pending", f"{NOT_THERE}; what is made for it waits")
    assert (worker["reason"], worker["heartbeat_message"]) == (NOT_THERE, NOT_THERE)
    told = fresh.tools.ok("get_worker_status", worker_id=worker["worker_id"])["reason"]
    assert "no program 'codex' is on the" in told
    ids = [worker["worker_id"], flow["workflow_id"]]
    waited = fresh.tools.ok("wait", ids=ids, timeout_seconds=0)
    assert all("no program 'codex' is on the" in each["reason"] for each in (*waited["tasks"], *waited["workflows"]))
    fresh.tools.ok("cancel_worker", worker_id=worker["worker_id"])
    gone = fresh.tools.ok("get_worker_status", worker_id=worker["worker_id"])
    assert "cancelled" in gone["reason"]


def test_health_is_ok_only_if_the_default_coder_can_work(tmp_path: Path) -> None:
    fleet, _ = prepared(tmp_path)
    try:
        for default, ok in (("claude", True), ("codex", False), ("demo", True), ("nobody", False)):
            with serving(fleet, FLEET_DEFAULT_EXECUTOR=default) as tools:
                health = tools.ok("healthcheck")
            assert health["ok"] is ok, (default, json.dumps(health, indent=1))
            names = [each["name"] for each in health["coders"]]
            assert ("demo" in names) == (default == "demo"), "it does no work"
            assert ok or health["warnings"]
    finally:
        stop(fleet)
