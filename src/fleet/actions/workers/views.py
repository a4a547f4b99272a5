"""Workers as tools show them: codefleet's fields, and some that only fleet has."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from fleet.actions.control import home_files
from fleet.actions.workers.create import KEY
from fleet.actions.workers.warnings import why_waiting
from fleet.actions.worktrees.views import event_lines
from fleet.assembly import open_launcher
from fleet.core.errors import FleetError
from fleet.core.jsontext import decode
from fleet.core.task import Status
from fleet.git.repository import find_repository
from fleet.settings import load
from fleet.supervisor.agent_files import read_result
from fleet.supervisor.run.workplace import worktree_path
from fleet.supervisor.task_folder import PROMPT, TaskFolder, home_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from typing import Any

    from fleet.actions.workers.workers import Worker
    from fleet.assembly import Fleet
    from fleet.core.run import Run
    from fleet.git.repository import Repository
    from fleet.home import Home
    from fleet.settings import Settings

LABELS = {
    "pending": "PENDING",
    "running": "RUNNING",
    "succeeded": "OK",
    "failed": "FAILED",
    "cancelled": "CANCELLED",
    "timed_out": "TIMED OUT",
}
#: Includes tasks just being started: without a program, the supervisor gives the task back.
STARTING = (Status.OPEN, Status.IN_PROGRESS)
MOST_LINES = 2000
LONGEST_TAIL = 64 * 1024  # characters


class Places:
    """The paths of worktrees, predicted by the current settings. Each repository is examined once."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._known: dict[str, tuple[Repository, Settings] | None] = {}

    def of(self, worker: Worker) -> str | None:
        """Return the path of a worker's worktree, existing or future. Return None if it ended and had none."""
        if worker.workspace is not None or worker.is_over:
            return worker.workspace.path if worker.workspace else None
        found = self._look(worker.task.repo)
        return worktree_path(self._home, *found, worker.task.branch) if found and worker.task.branch else None

    def _look(self, repo: str) -> tuple[Repository, Settings] | None:
        if repo not in self._known:
            try:
                settings = load(self._home, repo, env={}, lenient=True)
                self._known[repo] = (find_repository(repo), settings) if repo else None
            except (FleetError, OSError):
                self._known[repo] = None
        return self._known[repo]


def views(fleet: Fleet, workers: Sequence[Worker]) -> list[dict[str, Any]]:
    """Return workers as plain data. Times are seconds since 1970, as in codefleet."""
    places, now = Places(fleet.home), fleet.store.now().timestamp()
    found, waits = [], reasons(fleet, workers)
    for each in workers:
        told = {
            **_facts(fleet.home, each, places, waits.get(each.task.id, "")),
            **_paths(home_of(fleet.home, each.run), each.task.id),
        }
        found.append(told | _shown(told, now))
    return found


def reasons(fleet: Fleet, workers: Sequence[Worker]) -> dict[str, str]:
    """Return why startable workers wait for their coder or a resume, by their ids."""
    waiting = [each.task for each in workers if each.status == "pending" and each.task.status in STARTING]
    found = why_waiting(fleet, {task.coder for task in waiting})
    return {task.id: found[task.coder] for task in waiting if task.coder in found}


def view(fleet: Fleet, worker: Worker) -> dict[str, Any]:
    return views(fleet, [worker])[0]


def _facts(home: Home, worker: Worker, places: Places, waits: str) -> dict[str, Any]:
    """Return the recorded facts about a worker, without derived fields."""
    task, run = worker.task, worker.run
    kept = task.metadata.get(KEY) or {}
    return {
        "worker_id": task.id,
        "task_name": task.title,
        "status": worker.status,
        "repo_path": task.repo,
        "branch_name": task.branch,
        "worktree_path": places.of(worker),
        "worker_dir": home_of(home, run).task(task.id),
        "model": (run.model if run else "") or task.model,
        "executor": (run.coder if run else "") or task.coder,
        "profile": kept.get("profile"),
        "created_at": _stamp(task.created_at),
        "started_at": _stamp(task.started_at),
        "ended_at": _stamp(_ended(worker)),
        "last_heartbeat_at": _stamp(_heard(worker)),
        "last_activity_at": _stamp((run.last_event_at or run.started_at) if run else None),
        "timeout_seconds": _timeout(task.limits),
        "pid": _pid(home_of(home, run), run) if run else None,
        "exit_code": run.exit_status if run else None,
        "retry_count": max(0, run.number - 1) if run else 0,
        "tags": kept.get("tags", []),
        "metadata": kept.get("metadata", {}),
        "parent_worker_id": kept.get("parent_worker_id"),
        "error_message": (task.reason or task.close_reason)
        if worker.is_over and worker.status != "succeeded"
        else None,
        "heartbeat_message": _heartbeat(worker, waits),
        "finding": task.finding or None,
        "reason": task.reason or task.close_reason or waits or None,
        "question": {"id": worker.question.id, "text": worker.question.text} if worker.question else None,
        "tokens": run.tokens if run else 0,
        "cost_usd": run.cost_usd if run else None,
    }


def _pid(home: Home, run: Run) -> int | None:
    """Return the process id of the agent's shim. Return None if unknown, such as for an agent on another host."""
    return open_launcher().pid(TaskFolder(home, run.task_id).run_folder(run.number)) if run.is_live else None


def summary(views: Sequence[dict[str, Any]], what: str = "workers") -> str:
    """Return a summary line: 5 workers: 2 running, 3 ok."""
    counts = [(sum(each["status"] == status for each in views), label.lower()) for status, label in LABELS.items()]
    told = ", ".join(f"{count} {label}" for count, label in counts if count)
    return f"{len(views)} {what}" + (f": {told}" if told else "")


def collected(fleet: Fleet, worker: Worker, lines: int) -> dict[str, Any]:
    """Return a worker with its result and the last lines of its logs."""
    return view(fleet, worker) | result(fleet, worker) | (tails(fleet, worker, lines) if lines else {})


def result(fleet: Fleet, worker: Worker) -> dict[str, Any]:
    """Return the stored result of a worker, else its agent's file. `result_error` explains a missing result."""
    kept = fleet.store.results.find([worker.task.id]).get(worker.task.id)
    if kept is not None:
        return {"result": kept.told, "result_made_by": kept.made_by}
    place = home_files.part(home_of(fleet.home, worker.run), worker.task.id, "result")
    try:
        told = read_result("".join(home_files.text_of(place)).encode())
    except (FleetError, OSError):
        return {"result": None, "result_error": f"no result: the worker is {worker.status}"}
    except ValueError as error:
        return {"result": None, "result_error": f"invalid result.json: {error}"}
    lists = {name: list(value) if isinstance(value, tuple) else value for name, value in told.as_dict().items()}
    return {"result": lists, "result_made_by": "agent"}


def tails(fleet: Fleet, worker: Worker, lines: int) -> dict[str, str]:
    """Return the last lines of a worker's recorded events and stderr: redacted, and limited in size."""
    home = home_of(fleet.home, worker.run)
    count = max(1, min(lines, MOST_LINES))
    return {
        "stdout_tail": _said(home, worker.task.id, count)[-LONGEST_TAIL:],
        "stderr_tail": _complained(home, worker.task.id, count)[-LONGEST_TAIL:],
    }


def _said(home: Home, task_id: str, lines: int) -> str:
    path = str(home_files.part(home, task_id, "events"))
    try:
        is_plain = stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        is_plain = False
    return "\n".join(event_lines(path, lines)) if is_plain else ""


def _complained(home: Home, task_id: str, lines: int) -> str:
    try:
        return "".join(home_files.text_of(home_files.part(home, task_id, "stderr"), lines=lines)).rstrip("\n")
    except FleetError:
        return ""


def _paths(home: Home, task_id: str) -> dict[str, str]:
    folder = home.task(task_id)
    return {
        "prompt_path": f"{folder}/{PROMPT}",
        "result_json_path": f"{folder}/{home_files.PARTS['result']}",
        "stdout_path": f"{folder}/{home_files.PARTS['events']}",
        "stderr_path": f"{folder}/{home_files.PARTS['stderr']}",
        "meta_path": f"{folder}/task.json",
    }


def _shown(told: dict[str, Any], now: float) -> dict[str, str]:
    started, label = told["started_at"], f"[{LABELS[told['status']]}]"
    elapsed = span((told["ended_at"] or now) - started if started else None)
    heard, active = told["last_heartbeat_at"], told["last_activity_at"]
    return {
        "elapsed": elapsed,
        "heartbeat_age": span(now - heard if heard else None),
        "last_output_age": span(now - active if active else None),
        "status_label": label,
        "summary_line": f"{label} {told['task_name']} ({told['executor']}/{told['model']}) — {elapsed}",
    }


def span(seconds: float | None) -> str:
    """Return a time span as text: 4s, 2m 05s, 1h 02m."""
    if seconds is None or seconds < 0:
        return "-"
    minutes, rest = divmod(int(seconds), 60)
    if not minutes:
        return f"{rest}s"
    hours, left = divmod(minutes, 60)
    return f"{hours}h {left:02d}m" if hours else f"{minutes}m {rest:02d}s"


def _ended(worker: Worker) -> datetime | None:
    if not worker.is_over:
        return None
    run, task = worker.run, worker.task
    return (run.ended_at if run else None) or task.closed_at or task.updated_at


def _heard(worker: Worker) -> datetime | None:
    run = worker.run
    return (run.sampled_at or run.last_event_at or run.started_at) if run else None


def _heartbeat(worker: Worker, waits: str) -> str | None:
    task, run = worker.task, worker.run
    if worker.question is not None:
        return "waits for a person's answer"
    if worker.is_over:
        return None
    if task.cancel_requested_at is not None:
        return "is being stopped"
    if run is None or not run.is_live:
        return task.reason or waits or "waiting to start"
    return f"{run.events} events, {run.tool_calls} tool calls"


def _timeout(limits: str) -> float | None:
    try:
        told = decode(limits) if limits else {}
    except ValueError:
        return None
    return told.get("wall_seconds") if isinstance(told, dict) else None


def _stamp(moment: datetime | None) -> float | None:
    return moment.timestamp() if moment else None
