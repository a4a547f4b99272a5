"""Bounds of workflow stages: rounds until a reviewer is content, a stage's timeout, and its account."""

from typing import Any

from flowing import at_home, branch_of, handing_in, heard, home, ran, results, stage, states, task_of
from projects import orders
from repositories import run_git
from terminals import Terminals

__all__ = ["at_home", "home"]


def reviewing(lines: int, **more: Any) -> dict[str, Any]:
    """Return a reviewer stage that is content with so many lines, and otherwise asks for one more."""
    content = handing_in(summary="fine", status="completed_no_changes")
    asks = handing_in(summary="too short", status="completed_no_changes", next_steps=["one more line"])
    review = f"if [ $(wc -l < log) -ge {lines} ]; then {content}; else {asks}; fi"
    more = {"worktree_strategy": "inherit", "no_changes": True, "depends_on": ["write"]} | more
    return stage("review", review, repeat={"at_most": 3, "until": "content", "from": "write"}, **more)


def writing() -> dict[str, Any]:
    """Return a writer stage that receives the requests of the previous round."""
    return {"name": "write", "prompt_template": orders("echo line >> log") + "\nAsked for: {stages.review.next_steps}"}


def test_writing_and_reviewing_repeat_until_the_reviewer_is_content(home: Terminals) -> None:
    end = stage("end", "cp log copy", worktree_strategy="inherit", depends_on=["write", "review"])
    flow = ran(home, writing(), reviewing(2), end)
    assert flow["status"] == "succeeded"
    found = states(flow)
    assert [found[name] for name in ("write", "review", "write#2", "review#2", "end")] == ["done"] * 5
    assert (found["write#3"], found["review#3"]) == ("skipped", "skipped")
    assert "one more line" in heard(home, flow, "write#2") and "one more line" not in heard(home, flow, "write")
    handed = results(home, flow)
    assert [handed[name]["result"]["summary"] for name in ("review", "review#2")] == ["too short", "fine"]
    assert run_git(home.repo, "show", f"{branch_of(flow, 'end')}:copy") == "line\nline"


def test_reviewer_that_is_never_content_is_asked_only_as_often_as_allowed(home: Terminals) -> None:
    flow = ran(home, writing(), reviewing(9))
    assert set(states(flow).values()) == {"done"} and len(flow["stages"]) == 6
    last = results(home, flow)["review#3"]["result"]
    assert last["next_steps"] == ["one more line"], "whoever reads the results sees that it is not"


def test_stage_past_its_timeout_is_stopped_and_its_work_is_kept(home: Terminals) -> None:
    """The timeout is the stage's own, or else the workflow's."""
    endless = ("echo half > half", "while :; do echo on; sleep 0.1; done")
    stages = [stage("usual", *endless), stage("longer", *endless, timeout="3s")]
    quick, after = stage("quick", "echo 1 > a", timeout_seconds=60), stage("after", "touch b", depends_on=["usual"])
    flow = ran(home, *stages, quick, after, code=1, timeout_seconds=2)
    assert flow["status"] == "failed"
    assert states(flow) == {"usual": "failed", "longer": "failed", "quick": "done", "after": "failed"}
    for name, seconds in (("usual", 2), ("longer", 3)):
        (run,) = home.runs(task_of(flow, name))
        assert run["ending"] == "timed_out" and run["ended_at"] - run["started_at"] >= seconds * 1e6
        assert run_git(home.repo, "show", f"{branch_of(flow, name)}:half") == "half"


def test_stage_uses_the_account_that_it_names(home: Terminals) -> None:
    with (home.fleet.home / "runtime.toml").open("a") as settings:
        for name in ("first", "second"):
            settings.write(f'\n[[accounts]]\nname = "{name}"\ncoder = "shell"\nenv = {{ WHOSE = "{name}" }}\n')
    names = ("second", "first")
    flow = ran(home, *(stage(f"by-{name}", "echo $WHOSE > whose", account=name) for name in names))
    for name in names:
        assert run_git(home.repo, "show", f"{branch_of(flow, f'by-{name}')}:whose") == name
        assert [run["account"] for run in home.runs(task_of(flow, f"by-{name}"))] == [name]
