"""A player that runs cases through the real program: one home, one supervisor, many agents.

It imports nothing of fleet.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from corpus.case import DIRECTORY, FOLDER, WORKTREE, Case
from corpus.projects import PROJECTS, make_project
from program import Program
from supervised import Supervised

AT_ONCE = 20
#: The accounts of cases that meet limits, one for each case, because a limit parks its account.
USUAL = "usual"
ACCOUNTS = ("a1", "a2", "a3", "a4", "a5", "a6", "a7")


class Played(NamedTuple):
    """The result of a case."""

    case: Case
    task: str
    status: str
    findings: tuple[str, ...]  # of each run that ended
    endings: tuple[str, ...]
    shown: str  # the reason, from the last receipt or the task
    top: Path  # its repository or directory

    @property
    def finding(self) -> str:
        """Return the last finding."""
        return self.findings[-1] if self.findings else ""


class Stage(Supervised):
    """A home for the corpus, its projects, and the agent's program under claude's name."""

    def __init__(self, base: Path) -> None:
        self.fleet = Program(base)
        self.process, self.seed = None, 0
        self.projects, self.temporary = base / "projects", base / "tmp"
        self.temporary.mkdir()
        programs = base / "programs" / "bin"  # with no other file, because a judge may read the folders of programs
        programs.mkdir(parents=True)
        agent = (Path(__file__).parent / "agent.py").read_text("utf-8")
        (programs / "claude").write_text(f"#!{os.path.realpath(sys.executable)} -IS\n{agent}", "utf-8")
        (programs / "claude").chmod(0o755)
        self.fleet.env["PATH"] = f"{programs}:{self.fleet.env['PATH']}"
        self.fleet.env["ANTHROPIC_API_KEY"] = "corpus"
        self.fleet.ok("init", "--home", "--permissions", "user")
        self.set(
            *("coder=claude", f"max_concurrent={AT_ONCE}", "supervisor.start_interval_seconds=0"),
            *("supervisor.min_free_disk_mb=1", "supervisor.min_free_memory_mb=1"),
            f'agent.env={{TMPDIR = "{self.temporary}"}}',
            *("findings.verify_retries=0", "findings.fabricated_retries=0"),
            *("limits.retry_limit=1", "limits.continue_limit=0", "limits.lost_limit=0", "limits.limit_waits=0"),
        )
        settings = self.fleet.home / "runtime.toml"
        told = "".join(
            f'[[accounts]]\nname = "{name}"\ncoder = "claude"\nstart_interval_seconds = 0\n'
            for name in (USUAL, *ACCOUNTS)
        )
        settings.write_text(f"{settings.read_text('utf-8')}\n{told}", "utf-8")
        for name in PROJECTS:
            make_project(self.projects / name, name)
        for name in ("patient",):
            self.fleet.ok("trust", cwd=self.projects / name)

    def place(self, case: Case) -> Path:
        """Return the folder of a case. It is created if the case has its own."""
        if case.workspace == FOLDER:
            top = self.projects / "folders" / case.branch
            top.mkdir(parents=True)
            return top
        if case.workspace == WORKTREE and not case.own:
            return self.projects / case.project
        top = self.projects / "own" / case.branch
        shutil.copytree(self.projects / case.project, top)
        return top

    def play(self, cases: list[Case], patience: float = 240.0) -> list[Played]:
        """Play all cases. Return the result of each."""
        places = [self.place(case) for case in cases]
        plan = self.fleet.user / "plan.jsonl"
        rows = [_row(case, place) for case, place in zip(cases, places, strict=True)]
        plan.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        self.fleet.ok("bd", "import", str(plan))
        ids = {row["title"]: str(row["id"]) for row in self.rows("select id, title from tasks")}
        tasks = [ids[case.name] for case in cases]
        self.start()
        self._wait(dict(zip(tasks, cases, strict=True)), patience)
        return [self._played(case, task, place) for case, task, place in zip(cases, tasks, places, strict=True)]

    def _wait(self, cases: dict[str, Case], patience: float) -> None:
        end = time.monotonic() + patience
        sql = "select id from tasks where status in ('closed', 'blocked')"
        while time.monotonic() < end:
            over = {row["id"] for row in self.rows(sql)}
            if over >= set(cases):
                return
            time.sleep(0.2)
        left = sorted(case.name for task, case in cases.items() if task not in over)
        raise TimeoutError(f"after {patience:g} s these are not over: {left}\n{self.describe()}")

    def _played(self, case: Case, task: str, place: Path) -> Played:
        runs = [run for run in self.runs(task) if run["finding"]]
        receipts = self.rows("select body from receipts where task = ? order by id", task)
        row = self.task(task)
        shown = " | ".join(json.loads(receipts[-1]["body"])["shown"]) if receipts else str(row["reason"])
        return Played(
            case=case,
            task=task,
            status=row["status"],
            findings=tuple(run["finding"] for run in runs),
            endings=tuple(run["ending"] for run in runs),
            shown=shown,
            top=place,
        )


def _row(case: Case, place: Path) -> dict[str, Any]:
    isolated = case.workspace == WORKTREE
    metadata = {"fleet.cwd": str(place), "fleet.workspace": WORKTREE if isolated else DIRECTORY}
    metadata |= {"fleet.repo": str(place), "fleet.branch": case.branch} if isolated else {}
    metadata |= {"fleet.verify": case.verify} if case.verify else {}
    metadata |= {"fleet.rules": json.dumps(case.rules)} if case.rules else {}
    metadata["fleet.account"] = case.account or USUAL
    return {"title": case.name, "description": f"play: {json.dumps(case.script)}", "metadata": metadata}
