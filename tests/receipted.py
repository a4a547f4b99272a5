"""Homes with ended runs and recorded receipts, for tests of commands that read them."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from builders import MINUTE, a_task
from fleet.assembly import Fleet, open_fleet
from fleet.core.filter import Lane
from fleet.core.finding import Finding
from fleet.core.receipt import Receipt, draft_receipt
from fleet.core.run import Ending, Run
from fleet.core.task import Status, Task, Verdict
from fleet.core.verification import Verification
from fleet.core.workspace import Workspace
from fleet.git import worktree
from fleet.git.repository import find_repository
from fleet.home import Home
from fleet.home import write_programs as write_bin
from repositories import commit, run_git

OWNER = "host-1"


def an_open_fleet(root: Path) -> Fleet:
    """Return a new home with its queue open; close the queue when everything is added."""
    home = Home(str(root))
    found = open_fleet(home, make=True)
    write_bin(home)
    return found


def pieces(**changes: dict[str, Any]) -> dict[str, Any]:
    """Return the pieces of an honest run in a worktree, with the given changes."""
    verification = Verification(
        command="make test",
        commit="c" * 40,
        status=0,
        seconds=2.5,
        passed=12,
        tail="12 passed\n",
        containment="no network",
    )
    usual: dict[str, dict[str, Any]] = {
        "spawn": {"program": "/opt/claude", "program_hash": "ab" * 32, "version": "2.1", "base_commit": "b" * 40},
        "stream": {"events": 40, "tool_calls": 7, "result_ok": True, "said": "done"},
        "process": {"exit_status": 0, "containment": "pid namespace", "cpu_seconds": 1.0},
        "git": {
            "branch": "work",
            "tip": "c" * 40,
            "commit_count": 1,
            "commits": [{"id": "c" * 40, "subject": "fix it", "author": "agent", "at": "2026-03-01T12:00:00Z"}],
            "file_count": 2,
            "files": [{"path": "a.py", "status": "M"}, {"path": "b.py", "status": "A"}],
            "added": 10,
            "removed": 3,
        },
        "claims": {"status": "completed", "summary": "all of it", "files_changed": 2},
        "verify": json.loads(verification.text()),
        "scope": {"strayed": [], "flags": [], "allow": ["src/"], "protect": []},
    }
    return {name: usual.get(name, {}) | changes.get(name, {}) for name in usual | changes}


def ended(
    fleet: Fleet,
    *,
    task: Task | None = None,
    finding: str = Finding.VERIFIED,
    told: dict[str, Any] | None = None,  # the pieces
    status: str = Status.CLOSED,
    owner: str = OWNER,
    **run: Any,
) -> Run:
    """Claim, run and settle a task with a receipt, in the order of a supervisor. Return its run.

    `took` is the duration of the run.
    """
    store = fleet.store
    if task is None:
        task = a_task(created_at=store.now(), status=Status.OPEN)
        store.tasks.add(task)
    [claim] = store.claims.acquire(owner, [Lane(room=1)], room=1, ttl=MINUTE * 60)
    assert claim.task.id == task.id, "one task at a time is ready in these tests"
    took = run.pop("took", MINUTE)
    given = {"coder": "claude", "model": "opus", "started_at": store.now(), **run}
    begun = store.runs.begin(claim, Run(id="", task_id=task.id, number=0, epoch=0, owner=owner, **given))
    ends: datetime = begun.started_at + took
    over = begun.replace(ending=Ending.FINISHED, ended_at=ends, finding=finding)
    with store.atomic():
        body = draft_receipt(finding, ("`make test` exited with 0 at the tip of its branch",), told or pieces())
        names = {"run_id": begun.id, "task_id": task.id, "owner": owner, "coder": over.coder, "model": over.model}
        kept = store.receipts.keep(Receipt(**names, finding=finding, made_at=ends, body=body))
        over = over.replace(receipt=kept.hash)
        store.runs.end(over)
        store.claims.settle(claim, Verdict(status=status, reason="done", finding=finding))
    return over


def write_file(fleet: Fleet, run: Run, **changes: Any) -> Path:
    """Write the receipt file beside the run, with the given changes. Return its path."""
    receipt = fleet.store.receipts.get(run.id)
    assert receipt is not None
    names = {name: getattr(receipt, name) for name in ("run_id", "task_id", "owner", "previous", "hash")}
    folder = Path(fleet.home.task(run.task_id), "runs", str(run.number))
    folder.mkdir(parents=True, exist_ok=True)
    told = receipt.told | names | {"made_at": receipt.made_at.isoformat()} | changes
    (folder / "receipt.json").write_text(json.dumps(told))
    return folder / "receipt.json"


class Made:
    """A home beside a repository, with tasks whose agents have finished, each with a branch and a worktree."""

    def __init__(self, root: Path, repo: Path) -> None:
        self.root, self.repo = root, repo
        self.base = run_git(repo, "rev-parse", "HEAD")
        an_open_fleet(root).store.close()

    def work(self, branch: str, files: dict[str, str], **changes: Any) -> str:
        """Create a task that wrote these files on its branch. Return its id. `run` holds changes of its run."""
        run = changes.pop("run", {})
        with open_fleet(Home(str(self.root))) as fleet:
            repository = find_repository(str(self.repo))
            names = {"repo": repository.top, "branch": branch, "workspace": "worktree", "base": self.base}
            task = a_task(**{"created_at": fleet.store.now(), **names, "description": "Say 42.", **changes})
            fleet.store.tasks.add(task)
            path = str(self.root / "worktrees" / branch.replace("/", "-"))
            added = worktree.add(fleet.home, repository, path=path, branch=branch, base_commit=self.base, made=True)
            places: dict[str, Any] = {
                "repo": repository.top,
                "common": repository.common,
                "path": path,
                "branch": branch,
            }
            space = Workspace(task_id=task.id, **places, base_commit=self.base, made_at=task.created_at)
            fleet.store.workspaces.lease(space.replace(made_branch=True, notes=json.dumps({"admin": added.admin})))
            for name, text in files.items():
                commit(Path(path), name, text)
            ended(fleet, task=task, branch=branch, workspace=path, **run)
        return task.id

    def refs(self, prefix: str) -> dict[str, str]:
        """Return the refs of the repository below a prefix, with their commits."""
        told = run_git(self.repo, "for-each-ref", "--format=%(refname) %(objectname)", prefix)
        return dict(line.split(" ") for line in told.splitlines())

    def tip(self, branch: str) -> str:
        return run_git(self.repo, "rev-parse", f"refs/heads/{branch}")
