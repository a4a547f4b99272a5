"""Workflows as tools show them: codefleet's fields, and some that only fleet has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.actions.workers import views, workers, workflows
from fleet.actions.workers.views import span
from fleet.actions.workers.workflows import StageState
from fleet.core.task import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from fleet.actions.workers.workflows import Flow, StageView
    from fleet.actions.worktrees.removal import Removal
    from fleet.assembly import Fleet

#: The status of a stage in codefleet's words for workers. codefleet has no skipped stages.
WORDS = {
    StageState.WAITING: "pending",
    StageState.READY: "pending",
    StageState.NEEDS_YOU: "pending",
    StageState.RUNNING: "running",
    StageState.DONE: "succeeded",
    StageState.SKIPPED: "skipped",
    StageState.FAILED: "failed",
    StageState.STOPPED: "cancelled",
}
#: The number of last lines of each log.
TAIL_LINES = 80
LABELS = views.LABELS | {"skipped": "SKIPPED"}


def view(fleet: Fleet, flow: Flow) -> dict[str, Any]:
    """Return a workflow as plain data. Times are seconds since 1970, as in codefleet."""
    made, now = flow.workflow, fleet.store.now().timestamp()
    ended = _ended(flow)
    stages = [_stage(fleet, index, seen, now) for index, seen in enumerate(flow.stages)]
    elapsed = span((ended or now) - made.made_at.timestamp())
    progress = _progress([stage["status"] for stage in stages])
    return {
        "workflow_id": made.id,
        "name": made.name,
        "status": flow.status,
        "repo_path": made.repo,
        "stage_summary": stages,
        "created_at": made.made_at.timestamp(),
        "completed_at": ended,
        "error_message": flow.trouble or None,
        "elapsed": elapsed,
        "progress": progress,
        "summary_line": f"[{LABELS[flow.status]}] {made.name} — {progress} ({elapsed})",
    }


def listed(fleet: Fleet, statuses: Iterable[str] | None, limit: int) -> dict[str, Any]:
    """Return the newest workflows, or only those in one of these statuses. Raises BadInput."""
    shown = [view(fleet, flow) for flow in workflows.flows(fleet, statuses, limit=limit)]
    return {"workflows": shown, "count": len(shown), "summary": views.summary(shown, "workflows")}


def collected(fleet: Fleet, flow: Flow, *, all_stages: bool, logs: bool) -> dict[str, Any]:
    """Return a workflow with the results of its last stage or of all: in short, and with the whole worker."""
    last = flow.last
    wanted = [(at, seen) for at, seen in enumerate(flow.stages) if all_stages or seen is last]
    told = view(fleet, flow)
    words = [told["stage_summary"][index]["status"] for index, _ in wanted]
    told["stages"] = [_handed_on(seen, word) for (_, seen), word in zip(wanted, words, strict=True)]
    found = [
        {"index": index, "name": seen.stage.name, "status": word, "result": _collected(fleet, seen, logs)}
        for (index, seen), word in zip(wanted, words, strict=True)
    ]
    return told | ({"stage_results": found} if all_stages else {"final_result": found[0]["result"]})


def cleaned(workflow_id: str, done: Sequence[Removal]) -> dict[str, Any]:
    """Return the result of removing a workflow's worktrees."""
    return {
        "workflow_id": workflow_id,
        "stages_cleaned": sum(each.removed for each in done),
        "cleaned": [each.workspace.task_id for each in done if each.removed],
        "errors": [f"{each.workspace.branch}: {each.why_not}" for each in done if each.why_not],
        "saved_refs": [ref for each in done for ref in each.saved.refs],
        "restore_commands": [command for each in done for command in each.saved.commands],
        "branches_kept_at": [each.branch_kept for each in done if each.branch_kept],
    }


def _word(fleet: Fleet, seen: StageView) -> str:
    """Return the status of a stage. If the stage itself failed, return the status of its worker."""
    task = seen.task
    if seen.state == StageState.FAILED and task is not None and task.status == Status.BLOCKED:
        return workers.worker(fleet, task.id).status
    return WORDS[seen.state]


def _stage(fleet: Fleet, index: int, seen: StageView, now: float) -> dict[str, Any]:
    task, status = seen.task, _word(fleet, seen)
    began = task.started_at.timestamp() if task and task.started_at else None
    ended = (task.closed_at or task.updated_at).timestamp() if task and seen.state in workflows.OVER else now
    return {
        "index": index,
        "name": seen.stage.name,
        "executor": task.coder if task else seen.stage.coder,
        "status": status,
        "worker_id": seen.task_id,
        "status_label": f"[{LABELS[status]}]",
        "elapsed": span(ended - began if began is not None else None),
        "model": (task.model if task else seen.stage.model) or None,
        "branch_name": task.branch if task else None,
        "reason": seen.reason or None,
    }


def _handed_on(seen: StageView, word: str) -> dict[str, Any]:
    told = {
        "name": seen.stage.name,
        "status": word,
        "worker_id": seen.task_id,
        "branch_name": seen.task.branch if seen.task else None,
        "result": seen.result.told if seen.result else None,
        "result_made_by": seen.result.made_by if seen.result else None,
    }
    if seen.result is None:
        told["result_error"] = seen.reason or f"there is no result: the stage is {seen.state}"
    return told


def _collected(fleet: Fleet, seen: StageView, logs: bool) -> dict[str, Any] | None:
    if seen.task is None:
        return None
    told = views.collected(fleet, workers.worker(fleet, seen.task_id), TAIL_LINES if logs else 0)
    if seen.state != StageState.SKIPPED:
        return told
    status, label = WORDS[seen.state], f"[{LABELS[WORDS[seen.state]]}]"
    line = label + told["summary_line"].removeprefix(told["status_label"])
    return told | {"status": status, "status_label": label, "summary_line": line}


def _progress(statuses: Sequence[str]) -> str:
    """Return codefleet's progress text: 2/4 stages complete (2 done, 1 running, 1 pending)."""
    counts = {"done": 0, "skipped": 0, "running": 0, "pending": 0, "failed": 0, "cancelled": 0}
    for status in statuses:
        word = "done" if status == "succeeded" else status if status in counts else "failed"
        counts[word] += 1
    told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"{counts['done'] + counts['skipped']}/{len(statuses)} stages complete ({told})"


def _ended(flow: Flow) -> float | None:
    if not flow.is_over:
        return None
    ends = [seen.task.closed_at or seen.task.updated_at for seen in flow.stages if seen.task is not None]
    return max((end.timestamp() for end in ends), default=None)
