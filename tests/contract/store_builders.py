"""Builders of claims, runs, questions and workspaces for the tests of stores."""

from datetime import datetime
from itertools import count
from typing import Any

from builders import HOUR, NOON, a_task
from fleet.core.filter import Lane
from fleet.core.receipt import Receipt, draft_receipt
from fleet.core.run import Question, Run
from fleet.core.task import Claim
from fleet.core.workflow import Result
from fleet.core.workspace import Workspace
from fleet.store.base import Store

_numbers = count(1)


def a_claim(store: Store, *, owner: str = "host", **changes: Any) -> Claim:
    """Add a task and return a claim on it."""
    store.tasks.add(a_task(**changes))
    return next_claim(store, owner)


def next_claim(store: Store, owner: str = "host") -> Claim:
    """Return a claim on the first ready task."""
    [claim] = store.claims.acquire(owner, [Lane(room=1)], room=1, ttl=HOUR)
    return claim


def a_run(**changes: Any) -> Run:
    """Return a run before it begins, without its number."""
    return Run(**{"id": "", "task_id": "", "number": 0, "epoch": 0, "owner": "", "started_at": NOON, **changes})


def a_question(task_id: str, text: str = "red or blue?", *, asked_at: datetime = NOON, **changes: Any) -> Question:
    """Return a question of an agent."""
    given = {"id": f"q-{next(_numbers):06}", **changes}
    return Question(task_id=task_id, text=text, asked_at=asked_at, **given)


def a_workspace(task_id: str, **changes: Any) -> Workspace:
    """Return a worktree whose branch and path are named after its task."""
    places = {"repo": "/r", "common": "/r/.git", "path": f"/w/{task_id}", "branch": f"b/{task_id}"}
    return Workspace(**{"task_id": task_id, **places, "made_at": NOON, **changes})


def a_receipt(run_id: str, *, owner: str = "host", finding: str = "verified", **changes: Any) -> Receipt:
    body = draft_receipt(finding, ("seen",), {"process": {"exit_status": 0}, "git": {"files": [run_id]}})
    given = {"task_id": run_id.partition("/")[0], "owner": owner, "made_at": NOON, "body": body, **changes}
    return Receipt(run_id=run_id, finding=finding, **given)


def a_result(task: str = "t-1", **said: Any) -> Result:
    """Return the result that a task handed on."""
    return Result(**{"task_id": task, "run_id": f"{task}/1", "made_at": NOON, "body": '{"summary": "x"}', **said})


def removed(store: Store, task_id: str, saved: str = "[]") -> Workspace:
    """Remove the workspace of a task and return its record."""
    store.workspaces.begin_removal(task_id)
    return store.workspaces.end_removal(task_id, saved)
