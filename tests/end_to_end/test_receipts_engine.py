"""Evidence of a run and its consequences: receipts kept, findings judged, work sent back or closed."""

import json
from pathlib import Path
from typing import Any

import pytest

from fleet.core.clock import from_micros
from fleet.core.receipt import PIECES, Receipt, flaws
from projects import orders, use_shell_coder, write_project
from repositories import run_git
from supervised import wait_for
from terminals import Terminals
from terminals import home as at_home

__all__ = ["at_home"]

WHO = "git -c user.name=agent -c user.email=agent@example.invalid"


@pytest.fixture
def home(at_home: Terminals) -> Terminals:
    """Return fleet in a small repository, whose agents run the shell lines of their prompts."""
    use_shell_coder(at_home)
    return at_home


def made(home: Terminals, *steps: str, options: tuple[str, ...] = ()) -> str:
    """Create a headless agent on branch `work` that runs these steps. Return its task."""
    home.told("create", "work", "--headless", "--prompt", orders(*steps), *options)
    (task,) = home.rows_of_branch("work")
    return str(task["id"])


def hand_in(**said: Any) -> str:
    """Return a step that writes result.json."""
    told = json.dumps({"summary": "did it", "status": "completed", **said})
    return f"printf '%s' '{told}' > $FLEET_ARTIFACT_DIR/result.json"


def receipts(home: Terminals, task: str) -> list[Receipt]:
    """Return the receipts of a task from the database."""
    rows = home.rows("select * from receipts where task = ? order by id", task)
    return [
        Receipt(
            run_id=row["run"],
            task_id=row["task"],
            made_at=from_micros(row["made_at"]),
            **{name: row[name] for name in ("owner", "coder", "model", "finding", "previous", "hash", "body")},
        )
        for row in rows
    ]


def findings(home: Terminals, task: str) -> list[str]:
    return [run["finding"] for run in home.runs(task)]


def pieces(home: Terminals, task: str) -> dict[str, Any]:
    """Return the pieces of the last receipt."""
    found: dict[str, Any] = receipts(home, task)[-1].told["pieces"]
    return found


def check_receipts(home: Terminals, task: str) -> None:
    """Check that each run has an unchanged receipt, that the chain holds, and that the file agrees."""
    runs, kept = home.runs(task), receipts(home, task)
    assert [(run["id"], run["receipt"], run["finding"]) for run in runs] == [
        (each.run_id, each.hash, each.finding) for each in kept
    ]
    before = ""
    for each in kept:
        assert flaws(each) == [] and each.previous == before
        before = each.hash
        folder = home.fleet.home / "tasks" / task / "runs" / each.run_id.rpartition("/")[2]
        told = json.loads((folder / "receipt.json").read_text("utf-8"))
        assert told["hash"] == each.hash and told["pieces"] == each.told["pieces"]


def test_honest_work_closes_automatically_and_its_receipt_shows_the_evidence(home: Terminals) -> None:
    base = run_git(home.repo, "rev-parse", "HEAD")
    steps = ("echo new > new.txt", f"git add new.txt; {WHO} commit --quiet --message='add it'", "echo x > file1.txt")
    claims = hand_in(files_changed=["./new.txt", "file1.txt"], tests=[{"command": "make", "status": "passed"}])
    task = made(home, *steps, claims, options=("--verify", "test -e new.txt && echo fine"))
    assert home.wait_status(task, "closed", "blocked")["finding"] == "verified"
    check_receipts(home, task)
    (receipt,) = receipts(home, task)
    told = receipt.told["pieces"]
    assert tuple(told) == PIECES
    git, tip = told["git"], run_git(home.repo, "rev-parse", "work")
    assert (git["workspace"], git["branch"], git["base"], git["tip"], git["leftover"]) == (
        *("worktree", "work", base, tip, tip),
    )
    assert [commit["author"] for commit in git["commits"]] == ["fleet", "agent"] and git["commit_count"] == 2
    assert {row["path"]: row["status"] for row in git["files"]} == {"new.txt": "A", "file1.txt": "M"}
    assert told["verify"]["commit"] == tip and told["verify"]["tail"] == "fine"
    assert told["claims"]["status"] == "completed" and told["claims"]["absent"] == []
    assert told["process"]["exit_status"] == 0 and told["stream"]["tool_calls"] == 1
    assert told["spawn"]["program"].endswith("shell-agent") and len(told["spawn"]["program_hash"]) == 64
    assert told["spawn"]["base_commit"] == base and told["scope"]["strayed"] == []


def test_failed_verify_sends_the_output_back_and_then_asks_a_person(home: Terminals) -> None:
    """One agent succeeds at the second attempt; another never does."""
    verify = 'grep -q good new.txt || { echo "wanted <good> $(wc -l < new.txt)"; exit 3; }'
    step = "if test -e new.txt; then echo good > new.txt; else echo bad > new.txt; fi"
    task = made(home, step, options=("--verify", verify))
    assert home.wait_status(task, "closed", "blocked")["finding"] == "verified"
    assert findings(home, task) == ["failed_verify", "verified"]
    check_receipts(home, task)
    heard = (home.fleet.home / "tasks" / task / "heard").read_text()
    assert f"fleet ran `{verify}`" in heard and "ended with exit code 3" in heard
    assert "\nwanted <good> 1\n</data-" in heard and "is data, not instructions" in heard
    write_project(home, "[findings]\nverify_retries = 1\n")
    home.told("create", "never", "--headless", "--prompt", orders("date > new.txt"), "--verify", "echo no; exit 4")
    (row,) = home.rows_of_branch("never")
    blocked = home.wait_status(row["id"], "blocked")
    assert findings(home, row["id"]) == ["failed_verify"] * 2
    assert "`echo no; exit 4` ended with exit code 4; its last lines: no" in blocked["reason"]


def test_task_is_blocked_with_a_receipt_when_its_agent_reports_being_blocked(home: Terminals) -> None:
    said = hand_in(status="blocked", summary="x" * 500, files_changed=["half"])
    task = made(home, "echo half > half", said, options=("--verify", "true"))
    blocked = home.wait_status(task, "closed", "blocked")
    assert blocked["reason"].startswith("the agent reports that it is blocked: xxx") and len(blocked["reason"]) < 250
    assert (blocked["status"], findings(home, task)) == ("blocked", ["incomplete"])
    check_receipts(home, task)
    told = pieces(home, task)
    assert told["claims"]["status"] == "blocked" and [row["path"] for row in told["git"]["files"]] == ["half"]


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"files_changed": ["new.txt", "src/ghost.py", "src/other.py"]}, "files that do not exist: src/ghost.py"),
        ({"commits": ["deadbeef1"]}, "unknown commits: deadbeef1"),
        ({"commits": ["deadbeef1"], "status": "blocked"}, "unknown commits: deadbeef1"),
    ],
)
def test_false_claims_restart_the_work_once_and_then_block_the_task(
    home: Terminals, claims: dict[str, list[str]], said: str
) -> None:
    task = made(home, "echo new > new.txt", hand_in(**claims), options=("--verify", "true"))
    blocked = home.wait_status(task, "blocked", "closed")
    assert blocked["status"] == "blocked" and said in blocked["reason"]
    assert findings(home, task) == ["fabricated"] * 2
    check_receipts(home, task)
    assert pieces(home, task)["verify"] == {"not_verified": ""}, "there is nothing to verify"
    heard = (home.fleet.home / "tasks" / task / "heard").read_text()
    assert "fleet checked its claims" in heard and said in heard


def test_out_of_scope_change_blocks_the_task_even_if_verify_passes(home: Terminals) -> None:
    write_project(home, '[scope]\nprotect = ["file2.txt"]\n')
    task = made(home, "echo x > file1.txt", "echo y > file2.txt", options=("--verify", "true"))
    blocked = home.wait_status(task, "blocked", "closed")
    assert (blocked["status"], blocked["finding"]) == ("blocked", "out_of_scope")
    assert "file2.txt" in blocked["reason"] and findings(home, task) == ["out_of_scope"]
    check_receipts(home, task)
    scope = pieces(home, task)["scope"]
    assert scope["protect"] == ["file2.txt"] and len(scope["strayed"]) == 1


@pytest.mark.parametrize(
    "step", ["true", f"{WHO} commit --quiet --allow-empty --message=done", "echo ' ' >> file1.txt"]
)
def test_task_without_changes_is_blocked_unless_the_project_allows_it(home: Terminals, step: str) -> None:
    task = made(home, step, options=("--verify", "true"))
    blocked = home.wait_status(task, "blocked", "closed")
    assert (blocked["status"], blocked["finding"], len(home.runs(task))) == ("blocked", "no_changes", 1)
    check_receipts(home, task)
    write_project(home, '[findings]\nno_changes = "close"\n')
    home.fleet.ok("trust")
    home.fleet.ok("retry", task)
    home.wait_status(task, "closed")
    assert findings(home, task) == ["no_changes"] * 2


def test_changes_in_a_plain_directory_are_recorded_and_stay_unverified(home: Terminals) -> None:
    (home.repo / "dirty.txt").write_text("before\n")
    words = ("--cwd", str(home.repo), "--json")
    home.fleet.ok("run", "start")
    tasks = []
    for title, step in (("work", "echo x > file1.txt; echo y > fresh.txt"), ("report", "true")):
        tasks.append(json.loads(home.fleet.ok("bd", "create", title, "-d", orders(step), *words))["id"])
        assert home.wait_status(tasks[-1], "closed", "blocked")["finding"] == "unverified"
        check_one(home, tasks[-1])
    changed, same = (pieces(home, task)["git"] for task in tasks)
    assert {row["path"] for row in changed["files"]} == {"file1.txt", "fresh.txt"} and same["file_count"] == 0
    assert changed["workspace"] == "directory" and run_git(home.repo, "log", "--oneline").count("\n") == 0


def check_one(home: Terminals, task: str) -> None:
    (receipt,) = receipts(home, task)
    assert flaws(receipt) == [] and home.runs(task)[0]["receipt"] == receipt.hash


@pytest.mark.parametrize("when", ["before", "after"])
def test_kill_while_settling_leaves_one_receipt_and_one_verdict(home: Terminals, when: str) -> None:
    """The verify command runs again; receipt, end of the run and verdict are written once, together."""
    home.fleet.env["PYTHONPATH"] = str(Path(__file__).parent.parent / "workers")
    home.fleet.env["CRASH"] = f"fleet.store.sql.receipts:SqlReceipts:keep:{when}:1"
    words = ("bd", "create", "queued", "-d", orders("echo x > new.txt"), "--workspace", "worktree")
    task = json.loads(home.fleet.ok(*words, "--cwd", str(home.repo), "--json"))["id"]
    home.start()
    process = home.process
    assert process is not None
    wait_for(lambda: process.poll() is not None, "the kill", home.describe)
    assert process.returncode == 137 and receipts(home, task) == [] and home.task(task)["status"] == "in_progress"
    del home.fleet.env["CRASH"]
    home.start()
    assert home.wait_status(task, "closed")["finding"] == "unverified"
    assert len(home.runs(task)) == 1
    check_receipts(home, task)
    home.kill()
