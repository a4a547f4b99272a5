"""`fleet pick`: several branches ranked by fleet's verification. A judge breaks ties; the winner can be merged."""

import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import a_task
from fleet.assembly import open_fleet
from fleet.core.filter import Lane
from fleet.core.run import Run
from fleet.core.task import Caller
from fleet.home import Home
from program import Program
from projects import at_work_on
from receipted import Made
from repositories import commit, make_repository, run_git
from supervised import wait_for

CHECK = 'test "$(head -n1 answer.txt)" = 42'

#: A judge that chooses the work that contains a certain word, or fails as its name says.
JUDGE = f"""#!{sys.executable} -IS
import json, os, re, sys
how, told = sys.argv[1], sys.stdin.read()
with open(os.environ["FLEET_TASK_DIR"] + "/heard", "w") as file:
    file.write(told)
print(json.dumps({{"type": "tool", "name": "read"}}), flush=True)
if how == "dies":
    sys.exit(3)
parts = re.findall(r"^--- ([0-9a-f]{{12}}) ([A-Z]) ---$(.*?)^--- \\1 end ---$", told, re.S | re.M)
best = next(letter for _, letter, text in parts if "wise" in text)
words = f"BEST: {{best}}\\nIt says so." if how == "wise" else "They are all fine."
result = {{"summary": words, "status": "completed_no_changes", "files_changed": [], "tests": [], "commits": []}}
with open(os.environ["FLEET_ARTIFACT_DIR"] + "/result.json", "w") as file:
    json.dump(result, file)
print(json.dumps({{"type": "end", "ok": True}}), flush=True)
"""


@pytest.fixture
def made(fleet: Program) -> Made:
    """Return a home and a repository in which the program runs."""
    found = Made(fleet.home, make_repository(fleet.cwd / "repo"))
    fleet.cwd = found.repo
    return found


@pytest.fixture
def three(made: Made) -> Made:
    """Return a batch of three: one good and long, one good and short, one wrong although its run counts as verified."""
    made.work("w-A1", {"answer.txt": "42\n\nand\nmore\n"}, id="fleet-a1", batch="b1", verify=CHECK)
    made.work("w-A2", {"answer.txt": "42\nwise\n"}, id="fleet-a2", batch="b1", verify=CHECK)
    made.work("w-A3", {"answer.txt": "41\n"}, id="fleet-a3", batch="b1", verify=CHECK)
    return made


@pytest.fixture
def judged(fleet: Program, three: Made) -> Iterator[Program]:
    """Yield the same batch with coders that can be judges, and stop their supervisor at the end."""
    program = fleet.user / "judge"
    program.write_text(JUDGE)
    program.chmod(0o755)
    described = "".join(
        f"[coders.{how}]\nargv = {json.dumps([str(program), how])}\n"
        f'[coders.{how}.output]\nformat = "jsonl"\ntool = {{ path = "name", when = {{ type = "tool" }} }}\n'
        'success = { type = "end", ok = true }\nfailure = { type = "end", ok = false }\n'
        for how in ("wise", "vague", "dies")
    )
    head = "[supervisor]\nmin_free_disk_mb = 1\nmin_free_memory_mb = 1\n[limits]\nretry_limit = 1\n"
    (fleet.home / "runtime.toml").write_text(head + described)
    yield fleet
    fleet("run", "stop", "--stop-agents")


def picked(fleet: Program, *words: str, code: int = 0) -> dict[str, Any]:
    result = fleet("pick", *words, "--json")
    assert result.code == code, result
    found: dict[str, Any] = json.loads(result.out)
    return found


def order(found: dict[str, Any]) -> list[tuple[str, str]]:
    return [(each["branch"], each["finding"]) for each in found["candidates"]]


def state(repo: Path) -> tuple[str, ...]:
    """Return everything that must not change: refs, worktrees, status and stashes of the user's checkout."""
    told = (("for-each-ref",), ("worktree", "list"), ("status", "--porcelain"), ("stash", "list"))
    return tuple(run_git(repo, *words) for words in told)


def test_pick_verifies_each_branch_again_and_ranks_the_best_first(fleet: Program, three: Made) -> None:
    before = state(three.repo)
    left = fleet.home / "verify" / "pick-killed-0" / "run"
    left.mkdir(parents=True)
    os.utime(left.parent, (0, 0))
    found = picked(fleet, "b1")
    assert found["winner"] == "w-A2" and found["verify"] == CHECK
    assert order(found) == [("w-A2", "verified"), ("w-A1", "verified"), ("w-A3", "failed_verify")]
    assert [each["verify"]["status"] for each in found["candidates"]] == [0, 0, 1]
    assert found["candidates"][0]["tip"] == three.tip("w-A2") and found["merge"] is None
    assert state(three.repo) == before
    assert list((fleet.home / "verify").iterdir()) == [], "nothing is left of it, nor of one that was killed"


def test_table_shows_the_best_and_why_the_others_are_not(fleet: Program, three: Made) -> None:
    out = fleet.ok("pick", "w-A*", "--jobs", "1")
    rows = [line for line in out.splitlines() if line[2:].startswith("  w-A")]
    assert [row.split()[:2] for row in rows] == [["→1", "w-A2"], ["2", "w-A1"], ["3", "w-A3"]]
    assert "failed_verify" in rows[2] and "exit code 1" in out.splitlines()[out.splitlines().index(rows[2]) + 1]
    lines = fleet.ok("pick", "w-A*", "--jobs", "1", COLUMNS="50").splitlines()
    rows = [line for line in lines if line[2:].startswith("  w-A")]
    assert max(map(len, rows)) <= 50 and [row.split()[1] for row in rows] == ["w-A2", "w-A1", "w-A3"]
    assert "tie: w-A2, w-A1; the first is first because it changes fewer lines\n" in out
    assert out.endswith("best: w-A2; `fleet merge w-A2` verifies it on main and merges it\n")


def test_pick_compare_and_merge_agree_on_what_was_verified(fleet: Program, three: Made) -> None:
    assert "older commit" in fleet.ok("compare", "w-A1", "w-A3"), "the receipts of the runs"
    assert picked(fleet, "b1")["tied"] == ["w-A2", "w-A1"]
    one, other = json.loads(fleet.ok("compare", "w-A1", "w-A3", "--json"))["sides"]
    assert (one["finding"], one["is_current"], one["verify"]) == ("verified", True, CHECK)
    assert (other["finding"], other["is_current"]) == ("failed_verify", True)
    found = json.loads(fleet.ok("receipt", "fleet-a3", "--json"))
    assert (found["run_id"], found["pieces"]["recheck"]["run"]) == ("fleet-a3/verify-1", "fleet-a3/1")
    assert found["pieces"]["git"]["tip"] == three.tip("w-A3") and found["pieces"]["git"]["file_count"] == 1
    assert "checked: unchanged" in fleet.ok("receipt", "fleet-a3", "--check")
    left = fleet("merge", "w-A3", "--json")
    assert "its work is failed_verify" in json.loads(left.out)["left_out"][0]["why"]
    merged = json.loads(fleet.ok("merge", "w-A2", "--json"))
    assert [each["branch"] for each in merged["merged"]] == ["w-A2"], "no question and no flag"


def test_pick_says_why_the_best_cannot_be_merged(fleet: Program, three: Made) -> None:
    with open_fleet(Home(str(fleet.home))) as opened:
        task = opened.store.tasks.get("fleet-a2")
        opened.store.tasks.save(task.replace(status="blocked", closed_at=None, reason="waits for a word"))
    found = picked(fleet, "b1")
    assert (found["winner"], found["next"]) == ("w-A2", None) and "it is blocked: waits" in found["why_not"]
    commit(three.repo, "answer.txt", "40\n")
    assert "best: w-A1; it cannot be merged yet: " in fleet.ok("pick", "w-A1", "w-A3")


def test_verify_makes_a_new_receipt_for_existing_work(fleet: Program, three: Made) -> None:
    result = fleet("verify", "w-A1", "fleet-a3")
    assert result.code == 1, "one of them fails"
    lines = result.out.splitlines()
    assert lines[0].startswith("w-A1: verified – ") and lines[1].startswith("w-A3: tests failed – ")
    rows = {row["branch"]: row["result"] for row in json.loads(fleet.ok("list", "--all", "--json"))}
    assert (rows["w-A1"], rows["w-A3"]) == ("verified", "tests failed")
    assert "fleet-a1/verify-1: verified" in fleet.ok("receipt", "fleet-a1")
    assert "verified again later" in fleet.ok("receipt", "fleet-a1")
    tree = fleet.home / "worktrees" / "w-A3"
    commit(tree, "answer.txt", "42\n")
    told = json.loads(fleet.ok("verify", "w-A3", "--json"))
    assert [(each["branch"], each["finding"]) for each in told["verified"]] == [("w-A3", "verified")]
    assert "fleet-a3/verify-2" in fleet.ok("receipt", "fleet-a3")


def test_verify_closes_a_task_that_only_lacked_proof(fleet: Program, three: Made) -> None:
    with open_fleet(Home(str(fleet.home))) as opened:
        for key, reason in (("fleet-a1", "its work fails verification: x"), ("fleet-a2", "stopped by hand")):
            task = opened.store.tasks.get(key)
            opened.store.tasks.save(
                task.replace(status="blocked", closed_at=None, finding="failed_verify", reason=reason)
            )
    fleet.ok("verify", "w-A1", "w-A2")
    with open_fleet(Home(str(fleet.home))) as opened:
        found = [opened.store.tasks.get(key) for key in ("fleet-a1", "fleet-a2")]
    assert [(task.status, task.finding) for task in found] == [("closed", "verified"), ("blocked", "verified")]


def test_verify_refuses_agents_and_work_without_a_command(fleet: Program, made: Made) -> None:
    made.work("one", {"a.txt": "1\n"}, id="fleet-one")
    refused = fleet("verify", "one")
    assert (refused.code, refused.out) == (1, "") and "one: there is no verify command" in refused.err
    assert "--verify CMD" in refused.err
    assert "one: verified" in fleet.ok("verify", "one", "--verify", "test -e a.txt")


def test_branches_are_verified_in_parallel_and_ctrl_c_leaves_nothing(fleet: Program, three: Made) -> None:
    mark = three.root / "mark"
    words = [*fleet.argv, "pick", "b1", "--jobs", "3", "--verify", f"sleep 61; : {mark}"]
    running = subprocess.Popen(words, cwd=fleet.cwd, env=fleet.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(lambda: len(at_work_on(mark)) == 4, "three commands at once besides the program itself")
    running.send_signal(signal.SIGINT)
    out, _ = running.communicate(timeout=60)
    assert (running.returncode, out) == (130, b"")
    assert at_work_on(mark) == [] and list((fleet.home / "verify").iterdir()) == []


def test_pick_reports_when_no_branch_is_good(fleet: Program, three: Made) -> None:
    found = picked(fleet, "w-A3", "w-A1", "--verify", "false", code=1)
    assert found["winner"] is None and {finding for _, finding in order(found)} == {"failed_verify"}


def test_pick_needs_a_command_when_verify_commands_differ(fleet: Program, three: Made) -> None:
    three.work("w-A4", {"answer.txt": "42\n"}, batch="b1", verify="true")
    result = fleet("pick", "b1")
    assert (result.code, result.out) == (2, "") and "--verify CMD" in result.err
    assert order(picked(fleet, "b1", "--verify", CHECK))[0] == ("w-A4", "verified")


def test_passing_verify_does_not_clear_a_fabricated_receipt(fleet: Program, three: Made) -> None:
    lie = {"finding": "fabricated"}
    three.work("liar", {"answer.txt": "42\n"}, verify=CHECK, run=lie)
    found = picked(fleet, "liar", "w-A1")
    assert order(found) == [("w-A1", "verified"), ("liar", "fabricated")]


def test_plain_branches_are_compared_with_their_merge_base(fleet: Program, made: Made) -> None:
    for branch, text in (("mine", "42\n"), ("yours", "41\n")):
        run_git(made.repo, "switch", "--quiet", "--create", branch, "main")
        commit(made.repo, "answer.txt", text)
    run_git(made.repo, "switch", "--quiet", "main")
    found = picked(fleet, "yours", "mine", "--verify", CHECK)
    assert order(found) == [("mine", "verified"), ("yours", "failed_verify")]
    assert found["candidates"][0]["diff"] == {"files": 1, "added": 1, "removed": 0}
    refused = picked(fleet, "mine", "yours", "--verify", CHECK, "--merge", code=1)
    assert "does not belong to a task" in refused["merge"]["refused"]


def test_pick_proves_and_merges_nothing_without_a_verify_command(fleet: Program, made: Made) -> None:
    made.work("one", {"a.txt": "1\n"})
    made.work("two", {"a.txt": "1\n2\n"})
    before = state(made.repo)
    result = fleet("pick", "one", "two", "--merge")
    assert result.code == 1 and "nothing was run: there is no verify command" in result.err
    assert "nothing was merged: one is unverified" in result.err
    assert state(made.repo) == before


def test_verify_command_of_a_project_runs_only_once_it_is_trusted(fleet: Program, made: Made) -> None:
    made.work("one", {"a.txt": "1\n"})
    (made.repo / ".fleet").mkdir()
    (made.repo / ".fleet" / "config.toml").write_text('[verify]\ncommand = "test -e a.txt"\n')
    found = picked(fleet, "one")
    assert found["verify"] is None and "not trusted" in found["not_verified"]
    fleet.ok("trust")
    assert order(picked(fleet, "one")) == [("one", "verified")]


def test_branches_of_live_agents_are_left_out(fleet: Program, three: Made) -> None:
    with open_fleet(Home(str(fleet.home))) as opened:
        task = a_task(id="fleet-live", created_at=opened.store.now(), batch="b1", workspace="worktree", branch="live")
        opened.store.tasks.add(task.replace(repo=str(three.repo)))
        [claim] = opened.store.claims.acquire("host", [Lane(room=1)], room=1, ttl=task.created_at - task.created_at)
        names: dict[str, Any] = {"id": "", "task_id": task.id, "number": 0, "epoch": 0, "owner": "host"}
        run = opened.store.runs.begin(claim, Run(**names, started_at=opened.store.now()))
        caller = Caller(task_id=task.id, run_id=run.id, epoch=claim.epoch)
        token = opened.store.tokens.issue(claim, caller)
    assert picked(fleet, "b1")["left_out"] == [{"name": "live", "why": "its agent is still working"}]
    result = fleet("pick", "b1", FLEET_RUN_TOKEN=token)
    assert (result.code, result.out) == (1, "") and "an agent may not pick" in result.err


def test_winner_is_merged_and_the_other_branches_are_kept(fleet: Program, three: Made) -> None:
    tips = {branch: three.tip(branch) for branch in ("w-A1", "w-A2", "w-A3")}
    found = picked(fleet, "b1", "--merge")
    assert [each["branch"] for each in found["merge"]["merged"]] == ["w-A2"]
    assert (three.repo / "answer.txt").read_text() == "42\nwise\n"
    kept = {"refs/fleet/kept/fleet-a1": tips["w-A1"], "refs/fleet/kept/fleet-a3": tips["w-A3"]}
    assert three.refs("refs/fleet/kept") == kept
    assert found["merge"]["kept"] == {"w-A1": "refs/fleet/kept/fleet-a1", "w-A3": "refs/fleet/kept/fleet-a3"}
    assert all(three.tip(branch) == tip for branch, tip in tips.items()), "branches stay too"


def test_judge_breaks_a_tie_without_knowing_names(judged: Program, three: Made) -> None:
    three.work("w-A5", {"answer.txt": "42\n"}, id="fleet-a5", batch="b1", verify=CHECK)
    assert picked(judged, "b1")["winner"] == "w-A5", "the shortest, unless somebody judges"
    found = picked(judged, "b1", "--judge", "wise", "--seed", "7")
    assert order(found) == [("w-A2", "verified"), ("w-A5", "verified"), ("w-A1", "verified"), ("w-A3", "failed_verify")]
    said = found["judge"]
    assert (said["chosen"], said["reason"], said["seed"]) == ("w-A2", "It says so.", 7)
    seen = ["w-A5", "w-A2", "w-A1"]  # as ranked; the judge does not read failed branches
    random.Random(7).shuffle(seen)
    assert list(said["letters"].values()) == seen != ["w-A5", "w-A2", "w-A1"]
    heard = (judged.home / "tasks" / said["task"] / "heard").read_text()
    assert "Say 42." in heard and "w-A" not in heard
    assert not re.findall(r"fleet-a\d\b", heard)  # the judge's own task may be called fleet-a5x
    (judge,) = json.loads(judged.ok("bd", "show", said["task"], "--json"))
    assert judge["status"] == "closed" and judge["metadata"]["fleet.origin"] == "pick"


@pytest.mark.parametrize(
    ("how", "why"), [("vague", "it did not answer with one letter and a reason"), ("dies", "did not finish")]
)
def test_order_stays_when_the_judge_fails(judged: Program, how: str, why: str) -> None:
    before = order(picked(judged, "b1"))
    result = judged("pick", "b1", "--judge", how)
    assert result.code == 0 and why in result.err and "the order is unchanged (seed " in result.err
    assert [line.split()[1] for line in result.out.splitlines() if "w-A" in line][:3] == [name for name, _ in before]
    assert json.loads(judged.ok("bd", "list", "--json")) == [], "nobody need look after it"


def test_unknown_judge_is_refused(judged: Program) -> None:
    result = judged("pick", "b1", "--judge", "nobody")
    assert (result.code, result.out) == (1, "") and "nobody" in result.err


def test_unknown_names_are_refused(fleet: Program, three: Made, tmp_path: Path) -> None:
    for words, message in ((("nope",), "no task 'nope'"), (("w-B*",), "no task matches 'w-B*'")):
        result = fleet("pick", *words)
        assert (result.code, result.out) == (1, "") and message in result.err
    assert "no task 'nope'" in fleet("pick", "nope", cwd=tmp_path).err
