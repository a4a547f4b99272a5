"""Workflows with failing stages: what they pass on, and what happens to other stages."""

from flowing import at_home, branch_of, handing_in, home, ran, results, stage, states, task_of, written
from repositories import run_git
from terminals import Terminals

__all__ = ["at_home", "home"]


def test_stage_that_times_out_or_fails_passes_on_its_work(home: Terminals) -> None:
    flow = ran(
        home,
        stage("slow", "echo 1 > a", "git add a", "git commit -qm one", "echo said so", "sleep 300", timeout=4),
        stage("bad", "echo 2 > b", "exit 3"),
        stage("after", "echo 3 > c", depends_on=["slow"]),
        code=1,
    )
    assert states(flow) == {"slow": "failed", "bad": "failed", "after": "failed"}
    handed = results(home, flow)
    assert [handed[name]["made_by"] for name in ("slow", "bad", "after")] == ["fleet", "fleet", None]
    slow, bad = handed["slow"]["result"], handed["bad"]["result"]
    assert (slow["status"], slow["files_changed"], slow["branch"]) == ("failed", ["a"], branch_of(flow, "slow"))
    assert slow["commits"] == [run_git(home.repo, "rev-parse", branch_of(flow, "slow"))] and slow["summary"]
    assert (bad["status"], bad["files_changed"], len(bad["commits"])) == ("failed", ["b"], 1)
    told = home.fleet.ok("workflow", "results", flow["id"])
    assert "slow: failed; it left no result: derived from its messages and changes\n" in told
    assert not home.rows("select * from runs where task = ?", task_of(flow, "after")), "those behind it do not run"


def test_failure_cancels_running_stages_and_keeps_their_work_when_configured(home: Terminals) -> None:
    mark, began = home.fleet.user / "mended", home.fleet.user / "began"
    file = written(
        home,
        stage("bad", f"while ! test -e {began}; do sleep 0.02; done", f"test -e {mark} || exit 3", "echo 2 > b"),
        stage(
            "slow",
            *("echo 1 > a", "git add a", "git commit -qm a", "echo 2 > kept"),
            f"touch {began}",
            f"while ! test -e {mark}; do sleep 0.02; done",
        ),
        stage("after", "echo 3 > c", depends_on=["slow"]),
        on_failure="cancel",
    )
    flow = home.told("workflow", "run", file)
    home.wait_all([task_of(flow, "slow"), task_of(flow, "after")], "blocked")
    flow = home.told("workflow", "status", flow["id"])
    assert states(flow) == {"bad": "failed", "slow": "stopped", "after": "stopped"} and flow["status"] == "failed"
    assert home.task(task_of(flow, "slow"))["reason"].startswith("cancelled, since stage bad failed: ")
    assert run_git(home.repo, "show", f"{branch_of(flow, 'slow')}:kept") == "2", "fleet committed what was left"
    assert results(home, flow)["slow"]["result"]["files_changed"] == ["a", "kept"]
    mark.touch()
    home.fleet.ok("retry", task_of(flow, "bad"))
    home.wait_all([task_of(flow, name) for name in ("bad", "slow", "after")], "closed")
    assert home.told("workflow", "status", flow["id"])["status"] == "succeeded"


def test_stage_that_reports_being_blocked_needs_a_person_and_keeps_its_work(home: Terminals) -> None:
    said = {"summary": "no credentials for the database\\nasked twice", "status": "blocked"}
    blocked = handing_in(**said, files_changed=["half"], next_steps=["give me credentials"])
    mark = home.fleet.user / "mended"
    flow = ran(
        home,
        stage("impl", "echo half > half", f"test -e {mark} || {blocked}", retries=3),
        stage("look", f"test -e {mark} || {handing_in(**said)}", no_changes=True),
        stage("deploy", "touch deployed", depends_on=["impl"]),
        code=1,
    )
    assert states(flow) == {"impl": "failed", "look": "failed", "deploy": "failed"} and flow["status"] == "failed"
    for name in ("impl", "look"):
        task = home.task(task_of(flow, name))
        assert task["reason"] == "the agent reports that it is blocked: no credentials for the database"
        assert (task["status"], task["finding"]) == ("blocked", "incomplete")
        assert len(home.runs(task_of(flow, name))) == 1, "another try would meet the same"
    handed = results(home, flow)["impl"]["result"]
    assert (handed["status"], handed["files_changed"], handed["next_steps"]) == (
        *("blocked", ["half"]),
        ["give me credentials"],
    )
    assert run_git(home.repo, "show", f"{branch_of(flow, 'impl')}:half") == "half", "fleet committed what was left"
    assert not home.rows("select * from runs where task = ?", task_of(flow, "deploy"))
    mark.touch()
    home.fleet.ok("retry", task_of(flow, "impl"), task_of(flow, "look"))
    home.wait_all([task_of(flow, name) for name in ("impl", "look", "deploy")], "closed")


def test_round_that_reports_being_blocked_ends_the_loop(home: Terminals) -> None:
    blocked = handing_in(summary="", status="blocked")
    flow = ran(home, stage("work", "echo x >> log", blocked, verify="test -e no", repeat=3), code=1)
    assert home.task(task_of(flow, "work"))["reason"] == "the agent reports that it is blocked"
    assert [len(home.runs(each["task"])) for each in flow["stages"]] == [1, 0, 0]
