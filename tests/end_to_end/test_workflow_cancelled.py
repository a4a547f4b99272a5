"""Canceled workflows that resume: their state follows from their tasks."""

from pathlib import Path
from typing import Any

from flowing import at_home, home, ran, stage, states, task_of, written
from terminals import Terminals

__all__ = ["at_home", "home"]


def cancelled(home: Terminals, *stages: dict[str, Any], at_work: tuple[str, ...], **more: Any) -> dict[str, Any]:
    """Run a workflow and cancel it while these stages work. Return it once they have ended."""
    flow: dict[str, Any] = home.told("workflow", "run", written(home, *stages, **more))
    home.wait_all([task_of(flow, name) for name in at_work], "in_progress")
    home.fleet.ok("workflow", "cancel", flow["id"])
    home.wait_all([task_of(flow, name) for name in at_work], "blocked")
    return seen(home, flow)


def seen(home: Terminals, flow: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = home.told("workflow", "status", flow["id"])
    return found


def until(mark: Path) -> str:
    return f"while ! test -e {mark}; do sleep 0.02; done"


def test_retried_stage_reopens_the_stages_after_it(home: Terminals) -> None:
    mark = home.fleet.user / "mark"
    flow = cancelled(
        home,
        stage("slow", until(mark), "echo 1 > a"),
        stage("other", until(mark), "echo 2 > b"),
        stage("after", "echo 3 > c", depends_on=["slow"]),
        stage("last", "echo 4 > d", depends_on=["after"]),
        at_work=("slow", "other"),
    )
    assert flow["status"] == "cancelled" and set(states(flow).values()) == {"stopped"}
    assert flow["reason"] == "stopped by hand: its workflow was cancelled"
    mark.touch()
    home.fleet.ok("retry", task_of(flow, "slow"))
    home.wait_all([task_of(flow, name) for name in ("slow", "after", "last")], "closed")
    flow = seen(home, flow)
    assert states(flow) == {"slow": "done", "other": "stopped", "after": "done", "last": "done"}
    assert flow["status"] == "cancelled", "what nobody sent again is as it was left"
    home.fleet.ok("retry", task_of(flow, "other"))
    home.wait_status(task_of(flow, "other"), "closed")
    flow = seen(home, flow)
    assert (flow["status"], flow["reason"]) == ("succeeded", None)
    assert home.told("workflow", "list", "--status", "cancelled") == []
    assert "is already succeeded" in home.fleet("workflow", "cancel", flow["id"]).err


def test_workflow_about_to_resume_is_neither_canceled_nor_cleaned_up(home: Terminals) -> None:
    flow = cancelled(
        home, stage("slow", "sleep 300"), stage("after", "echo 1 > b", depends_on=["slow"]), at_work=("slow",)
    )
    home.fleet.ok("run", "stop")
    home.fleet.ok("retry", task_of(flow, "slow"), task_of(flow, "after"))
    flow = seen(home, flow)
    assert (flow["status"], flow["reason"]) == ("pending", None)
    assert states(flow) == {"slow": "ready", "after": "waiting"}
    assert "cannot be cleaned up" in home.fleet("workflow", "cleanup", flow["id"], "--yes").err
    assert home.worktrees()
    home.fleet.ok("workflow", "cancel", flow["id"])
    flow = seen(home, flow)
    assert flow["status"] == "cancelled" and set(states(flow).values()) == {"stopped"}


def test_canceled_workflow_that_fails_when_resumed_has_failed(home: Terminals) -> None:
    mark = home.fleet.user / "mark"
    flow = cancelled(
        home,
        stage("bad", until(mark), "exit 3"),
        stage("after", "echo 1 > b", depends_on=["bad"]),
        at_work=("bad",),
        on_failure="stop",
    )
    mark.touch()
    home.fleet.ok("retry", task_of(flow, "bad"))
    home.wait_all([task_of(flow, "bad"), task_of(flow, "after")], "blocked")
    flow = seen(home, flow)
    assert (flow["status"], states(flow)) == ("failed", {"bad": "failed", "after": "stopped"})
    assert flow["reason"].startswith("stage bad failed: ")


def test_stage_can_be_retried_when_the_task_of_another_is_deleted(home: Terminals) -> None:
    mark = home.fleet.user / "mended"
    flow = ran(
        home,
        stage("a", f"test -e {mark} || exit 3", "echo 1 > a"),
        stage("b", "echo 2 > b"),
        stage("c", "echo 3 > c", depends_on=["a"]),
        code=1,
    )
    home.fleet.ok("bd", "delete", task_of(flow, "b"), "--force")
    mark.touch()
    home.fleet.ok("retry", task_of(flow, "a"))
    home.wait_all([task_of(flow, "a"), task_of(flow, "c")], "closed")
    assert states(seen(home, flow)) == {"a": "done", "b": "stopped", "c": "done"}
