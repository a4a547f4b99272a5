"""Messages of `fleet workflow` after mistakes, while waiting, and about the next step."""

import json

from flowing import at_home, branch_of, home, ran, stage, states, task_of, written
from program import Program
from projects import orders
from repositories import make_repository, run_git
from supervised import wait_for
from terminals import Terminals

__all__ = ["at_home", "home"]

ACCOUNTS = """
[[accounts]]
name = "work"
coder = "demo"
"""


def test_unknown_account_is_a_fault_with_its_place(fleet: Program) -> None:
    file = fleet.cwd / "flow.toml"
    text = '[[stages]]\nname = "a"\nexecutor = "demo"\nprompt = "x"\naccount = "nobody"\n'
    file.write_text(text)
    told = fleet("workflow", "validate", "flow.toml")
    fault = (
        "error: flow.toml: stages[0].account: demo has no account 'nobody'\nhint:  run `fleet accounts` to list them\n"
    )
    assert (told.code, told.err) == (1, fault)
    fleet.furnish(("init", "--permissions", "user"))
    with (fleet.home / "runtime.toml").open("a") as settings:
        settings.write(ACCOUNTS)
    assert fleet("workflow", "run", "flow.toml").err == fault
    file.write_text(text.replace("nobody", "work"))
    assert fleet.ok("workflow", "validate", "flow.toml") == "flow.toml: ok, 1 stage\n"
    file.write_text(text.replace("nobody", "work").replace("demo", "codex"))
    assert "codex has no account 'work'" in fleet("workflow", "validate", "flow.toml").err


def test_missing_coder_is_reported_at_once_with_the_reason_for_waiting(home: Terminals) -> None:
    with (home.fleet.home / "runtime.toml").open("a") as settings:
        settings.write('\n[coders.away]\nargv = ["fleet-no-such-program"]\n')
    file = written(home, stage("work", "true", executor="away"), stage("more", "true", executor="away"))
    told = home.fleet("workflow", "run", file)
    why = "no program 'fleet-no-such-program' is on the"
    warning = f"warning: away cannot be used: {why} PATH; what is made for it waits\n"
    assert told.code == 0 and warning in told.err
    key = told.out.split(":")[0]
    assert f"`fleet workflow status {key}`" in told.err and f"`fleet workflow results {key}`" in told.err
    wait_for(lambda: any(why in str(each["reason"]) for each in home.told("workflow", "status", key)["stages"]), "why")
    wait_for(lambda: set(states(home.told("workflow", "status", key)).values()) == {"ready"}, "the end of the pause")


def test_workflow_without_a_prompt_is_refused_when_a_stage_needs_it(home: Terminals) -> None:
    file = written(home, {"name": "a", "prompt_template": "{task_prompt}\n" + orders("echo 1 > a")})
    told = home.fleet("workflow", "run", file)
    assert told.code == 1 and "stage 'a' uses {task_prompt}" in told.err and '-p "…"' in told.err
    assert home.told("workflow", "list") == []


def test_wait_that_ends_with_a_question_says_how_to_answer(home: Terminals) -> None:
    asks = "printf '## Q: Which colour?\\n' >> \"$FLEET_ARTIFACT_DIR/Q&A.md\""
    file = written(home, stage("asks", asks, 'bd update "$FLEET_TASK_ID" --status blocked'))
    told = home.fleet("workflow", "run", file, "--wait")
    assert told.code == 1 and "asks asks: Which colour?\n" in told.err, told
    (question,) = home.told("questions")
    assert f"`fleet answer {question['id']} TEXT`" in told.err and "`fleet questions`" in told.err


def test_only_done_stages_count_and_deleted_branches_report_their_tips(home: Terminals) -> None:
    flow = ran(
        home,
        stage("good", "echo 1 > a"),
        stage("bad", "exit 3"),
        stage("behind", "echo 1 > c", depends_on=["bad"]),
        code=1,
    )
    assert home.fleet.ok("workflow", "list").split()[1:3] == ["failed", "1/3"]
    assert home.fleet.ok("workflow", "status", flow["id"][:8]).split()[0] == flow["id"]
    tip = run_git(home.repo, "rev-parse", branch_of(flow, "good"))
    told = home.fleet.ok("workflow", "results", flow["id"])
    assert f"  commits: {tip}\n" in told
    waited = home.fleet("wait", flow["id"])
    assert waited.code == 1 and f"{task_of(flow, 'bad')} blocked" in waited.err
    gone = home.fleet.ok("workflow", "cleanup", flow["id"], "--branches", "--yes")
    (line,) = [line for line in gone.splitlines() if line.startswith(f"{branch_of(flow, 'good')}: ")]
    kept = line.rpartition("its tip is ")[2].rstrip(")")
    assert kept.startswith("refs/fleet/deleted/") and run_git(home.repo, "rev-parse", kept) == tip


def test_loop_is_shown_as_written(home: Terminals) -> None:
    body = json.dumps({"summary": "fine", "status": "completed"})
    file = written(
        home,
        stage("a", "echo 1 > a", f"echo '{body}' > \"$FLEET_ARTIFACT_DIR/result.json\"", repeat=2),
    )
    assert "a#2: the default coder; after a; inherits; unless content in the round before\n" in home.fleet.ok(
        "workflow", "show", file
    )
    told = home.told("workflow", "run", file, "--wait")
    assert told["stages"][1]["reason"] == "the loop ended with a: content"


def test_missing_home_or_repository_is_reported_with_the_remedy(fleet: Program) -> None:
    for command in (["list"], ["status", "wf_000000000000"]):
        told = fleet("workflow", *command)
        assert told.code == 1 and "`fleet workflow run FILE`" in told.err
    told = fleet("workflow")
    assert told.code == 0 and told.out.startswith("Usage: ") and told.err == ""
    (fleet.cwd / "flow.json").write_text(json.dumps({"stages": [{"name": "a", "prompt": "x"}]}))
    told = fleet("workflow", "run", "flow.json")
    assert told.code == 1 and "is not in a git repository" in told.err and "--repo" in told.err
    make_repository(fleet.cwd / "repo")
    for command in (["merge"], ["receipt"], ["show"]):
        told = fleet(*command, "wf_000000000000", cwd=fleet.cwd / "repo")
        assert told.code != 0 and "`fleet workflow status wf_000000000000`" in told.err, (command, told)
