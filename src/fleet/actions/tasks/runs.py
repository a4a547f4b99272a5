"""The runs of a task, and two of them side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.actions.tasks.names import ANYWHERE, find_task
from fleet.core.errors import FleetError
from fleet.core.jsontext import decode
from fleet.core.run import total_cost
from fleet.core.verification import verification_in
from fleet.supervisor.task_folder import home_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from fleet.actions.tasks.names import NameScope
    from fleet.assembly import Fleet
    from fleet.core.run import Run
    from fleet.home import Home

#: The compared fields, in order.
COMPARED = (
    *("run", "ending", "reason", "finding", "coder", "model", "account", "containment", "started_at", "seconds"),
    *("events", "tool_calls", "tokens", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"),
    *("cost_usd", "cost_basis", "prices", "context_percent", "exit_status", "exit_signal", "workspace"),
    *("branch", "changed", "verified"),
)


def runs(fleet: Fleet, name: str, scope: NameScope = ANYWHERE) -> tuple[str, list[dict[str, Any]]]:
    """Return a task's id and its runs as plain data, oldest first."""
    key = find_task(fleet, name, scope=scope)
    return key, [view(fleet, run) for run in fleet.store.runs.of_task(key)]


def task_home(fleet: Fleet, task_id: str) -> Home:
    """Return the home with a task's folder. Supervisors of several homes may share one queue."""
    found = fleet.store.runs.of_task(task_id)
    return home_of(fleet.home, found[-1] if found else None)


def two_runs(fleet: Fleet, name: str, numbers: tuple[int, int], scope: NameScope = ANYWHERE) -> list[dict[str, Any]]:
    """Return two runs of one task. Raises FleetError if it has no run with one of the numbers."""
    key, found = runs(fleet, name, scope)
    by_number = {run["number"]: run for run in found}
    for number in numbers:
        if number not in by_number:
            raise FleetError(f"{key} has no run {number}", hint=f"run `fleet runs {key}` to list its runs")
    return [by_number[number] for number in numbers]


def last_runs(fleet: Fleet, names: Sequence[str], scope: NameScope = ANYWHERE) -> list[dict[str, Any]]:
    """Return the last run of each task, with the number of its runs and their total cost.

    Raises FleetError if a task has not run.
    """
    rows = []
    for name in names:
        key, found = runs(fleet, name, scope)
        if not found:
            raise FleetError(f"{key} has no run yet", hint="run `fleet tasks` to see why nothing starts")
        usd, basis = total_cost(fleet.store.runs.of_task(key))
        together = {"tokens": sum(run["tokens"] for run in found), "cost_usd": usd, "cost_basis": basis or None}
        rows.append({**found[-1], "runs": len(found), **{f"all_{what}": value for what, value in together.items()}})
    return rows


def view(fleet: Fleet, run: Run) -> dict[str, Any]:
    """Return a run as plain data, for all user interfaces."""
    until = run.ended_at or fleet.store.now()
    return {
        "run": run.id,
        "task": run.task_id,
        "number": run.number,
        "live": run.is_live,
        "ending": run.ending or None,
        "reason": run.reason,
        "finding": run.finding or None,
        "receipt": run.receipt or None,
        "coder": run.coder,
        "model": run.model,
        "account": run.account,
        "containment": run.containment,
        "started_at": run.started_at.isoformat(timespec="seconds"),
        "ended_at": run.ended_at.isoformat(timespec="seconds") if run.ended_at else None,
        "seconds": round(max(0.0, (until - run.started_at).total_seconds()), 1),
        "events": run.events,
        "tool_calls": run.tool_calls,
        "tokens": run.tokens,
        **{f"{name}_tokens": getattr(run, f"{name}_tokens") for name in ("input", "output", "cache_read")},
        "cache_write_tokens": run.cache_write_tokens,
        "cost_usd": run.cost_usd,
        "cost_basis": run.cost_basis.partition(":")[0] or None,
        "prices": run.prices or None,
        "context_percent": _percent(run.context_peak, run.context_window),
        "context_estimated": run.context_is_estimated,
        "cut_lines": run.notes.get("cut", 0),
        "exit_status": run.exit_status,
        "exit_signal": run.exit_signal,
        "workspace": run.workspace,
        "branch": run.branch,
        "base_commit": run.base_commit or None,
        "leftover": run.leftover or None,
        "diff": {"files": run.diff_files, "added": run.diff_added, "removed": run.diff_removed},
        "changed": _changed(run),
        "verify": decode(run.verify) if run.verify else None,
        "verified": _verified(run),
        "flags": run.flagged,
        "session": run.session_name or None,
        "folder": home_of(fleet.home, run).run(run.task_id, run.number),
    }


def _changed(run: Run) -> str | None:
    if run.diff_files is None:
        return None
    return f"+{run.diff_added or 0} -{run.diff_removed or 0} in {run.diff_files}"


def _verified(run: Run) -> str | None:
    told = verification_in(run.verify)
    if told is None:
        return None
    if not told.ok:
        return f"failed: {told.why or told.status}"
    return "passed" if told.proves else f"passed, in doubt: {told.doubts[0] if told.doubts else 'it changed tests'}"


def _percent(peak: int | None, window: int | None) -> float | None:
    return round(100 * peak / window, 1) if peak is not None and window else None
