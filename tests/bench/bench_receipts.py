"""The time of the receipt of a long run: `python tests/bench/bench_receipts.py [rounds]`. The bar: under a second.

The run has 10,000 events, 500 changed files and a result.json that claims them. Its worktree is of a repository of
2,000 files. The time covers everything between the end of the agent and its receipt, except for the verify command.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter

from fleet import coders
from fleet.agents.base import LaunchSpec
from fleet.core import clock
from fleet.core.event import Event, Kind
from fleet.core.finding import judge_evidence
from fleet.core.outcome import Exit
from fleet.core.receipt import draft_receipt
from fleet.core.run import Ending, Outcome, Run
from fleet.core.task import Task
from fleet.core.workspace import Workspace
from fleet.git.repository import find_repository
from fleet.git.save.leftovers import commit_leftovers
from fleet.git.worktree import add
from fleet.home import Home
from fleet.proof.baseline import marked, spawned
from fleet.proof.evidence import RunEvidence, compared, look
from fleet.proof.tree import of_worktree
from fleet.settings import load
from fleet.supervisor.run.work import Work
from fleet.supervisor.task_folder import TaskFolder

ROUNDS, FILES, CHANGED, EVENTS = 5, 2_000, 500, 10_000
BAR_SECONDS = 1.0
TASK = "fleet-bench"


class Ended:
    """An ended run, as the code that concludes it needs it."""

    def __init__(self, home: Home, run: Run) -> None:
        self.run, self.folder = run, TaskFolder(home, TASK)
        self.coder, self.settings = coders.load("claude"), load(home)
        self.env: dict[str, str] = {}
        self.interactive = False
        self.began_here = run.started_at


def main() -> None:
    """Measure and print."""
    rounds = max(1, int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
    took = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            took.append(measured(Path(folder)))
    print(
        f"receipt of a run with {EVENTS:,} events and {CHANGED} changed files, s: {median(took):.2f} "
        f"(min {min(took):.2f}, max {max(took):.2f}, n={rounds}); the bar is {BAR_SECONDS:g}"
    )
    sys.exit(median(took) > BAR_SECONDS)


def measured(folder: Path) -> float:
    """Return the seconds from the end of an agent to its receipt."""
    home, work, live = prepared(folder)
    task = Task(id=TASK, title="a long one", created_at=clock.now(), updated_at=clock.now())
    outcome = Outcome(ending=Ending.FINISHED, tool_calls=live.run.tool_calls, handed_in=True)
    began = perf_counter()
    found: RunEvidence = look(live)  # type: ignore[arg-type]
    commit_leftovers(home, work.view, work.place, work.index, "what was left")
    tree = of_worktree(work, live.run, committed=True)
    found = compared(found, live, task, tree)  # type: ignore[arg-type]
    judgement = judge_evidence(found.evidence(outcome, task))
    body = draft_receipt(
        judgement.finding, judgement.shown, live.folder.cleaned(found.pieces(live.run, Exit(status=0)))
    )
    took = perf_counter() - began
    assert judgement.finding == "unverified" and tree.changed == CHANGED and found.stream.uses == EVENTS // 3
    assert len(body) > CHANGED * 20
    return took


def prepared(folder: Path) -> tuple[Home, Work, Ended]:
    """Return a home, a worktree in which an agent changed files, and the run with its output."""
    home, repo = Home(str(folder / "home")), folder / "repo"
    for number in range(FILES):
        file = repo / f"d{number % 40}" / f"file{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"line {number}\n" * 20)
    for words in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "begin"]):
        who = ("-c", "user.name=bench", "-c", "user.email=bench@example.invalid")
        subprocess.run(["git", *who, *words], cwd=repo, check=True, capture_output=True)
    task_folder = TaskFolder(home, TASK)
    Path(home.tasks).mkdir(parents=True)
    task_folder.make(1)
    repository = find_repository(str(repo))
    base = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=repo, capture_output=True, check=True, text=True
    ).stdout.strip()
    path = str(folder / "worktree")
    added = add(home, repository, path=path, branch="work", base_commit=base, made=True)
    space = Workspace(
        task_id=TASK,
        repo=repository.top,
        common=repository.common,
        path=path,
        branch="work",
        base_commit=base,
        made_at=clock.now(),
        notes=json.dumps({"admin": added.admin}),
    )
    work = Work(home, space)
    work.take_index(added.admin, added.commit)
    run = Run(
        id=f"{TASK}/1", task_id=TASK, number=1, epoch=1, owner="bench", started_at=clock.now(), workspace=path,
        branch="work", base_commit=base, tool_calls=EVENTS // 3, events=EVENTS,
    )  # fmt: skip
    spec = LaunchSpec(argv=("sh",), env={"PATH": "/usr/bin:/bin"}, cwd=path)
    run = run.replace(
        spawn=spawned(home, run, spec, repository=repository, mark=marked(home, "", repository)[1], reach="", others=0)
    )
    names = [f"d{number % 40}/file{number}.txt" for number in range(CHANGED)]
    for name in names:
        Path(path, name).write_text("something else\n" * 20)
    task_folder.append_events(said(names), clock.now())
    claims = {"summary": "did it", "status": "completed", "files_changed": names, "tests": [], "commits": []}
    Path(task_folder.artifacts, "result.json").write_text(json.dumps(claims))
    return home, work, Ended(home, run)


def said(names: list[str]) -> list[Event]:
    """Return this many events: texts, tool calls and their results."""
    events = []
    for number in range(EVENTS // 3):
        name, key = names[number % len(names)], str(number)
        events.append(Event(kind=Kind.TEXT, text=f"Now I change {name}, since that is where it is decided. " * 4))
        data = {"command": f"sed -i s/a/b/ {name}", "description": "change it"}
        events.append(Event(kind=Kind.TOOL_USE, tool="Bash", tool_id=key, data=data))
        events.append(Event(kind=Kind.TOOL_RESULT, tool_id=key, ok=True, text="changed\n" * 20))
    return events


if __name__ == "__main__":
    main()
