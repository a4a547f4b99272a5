"""Tasks that agents create and read through tools, in the same queue and within the bounds of workers."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleet import coders
from fleet.actions.tasks import branch_base, messages, placement, runs, tasks
from fleet.actions.tasks.bounds import real
from fleet.actions.tasks.names import find_task
from fleet.actions.tasks.rights import as_seen_by
from fleet.actions.tasks.tasks import Draft
from fleet.actions.workers.create import ORIGIN, rules_for
from fleet.actions.workers.workers import own
from fleet.actions.worktrees import agents
from fleet.core import branch as names
from fleet.core import checks
from fleet.core import host as host_words
from fleet.core.dependency import BLOCKS
from fleet.core.errors import BadInput
from fleet.core.filter import Filter
from fleet.core.record import Record
from fleet.core.task import DIRECTORY, HEADLESS, WORKTREE, Status
from fleet.git.repository import find_repository
from fleet.settings import load
from fleet.supervisor.trust import settings_in
from fleet.wake import wake

if TYPE_CHECKING:
    from typing import Any

    from fleet.actions.workers.create import WorkerCreator
    from fleet.actions.workers.terms import WorkerTerms
    from fleet.assembly import Fleet
    from fleet.core.task import Caller, Task

MOST_LISTED = 1000
LONGEST_TEXT = 1024 * 1024


class TaskOrder(Record):
    """A new task, as a caller of `create_task` describes it."""

    title: str
    prompt: str = ""
    cwd: str = ""
    branch: str = ""  # a task with a branch gets its own worktree
    base: str = ""
    coder: str = ""
    model: str = ""
    verify: str = ""
    priority: int = 2
    labels: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    host: str = ""


def create(fleet: Fleet, order: TaskOrder, terms: WorkerTerms, maker: WorkerCreator) -> tuple[Task, list[str]]:
    """Add a task to the queue. Return it with notes, such as dependencies that were not added.

    Raises BadInput, IllegalMove.
    """
    cwd = _directory(order.cwd)
    rules = rules_for(fleet, cwd, terms, maker.caller)
    settings = settings_in(fleet.home, fleet.store, cwd) if cwd else load(fleet.home)
    if order.branch:
        names.check_branch(order.branch)
        names.check_pattern(order.branch, settings.project.branch_pattern)
        if not cwd:
            raise BadInput("a branch needs a repository", hint="pass the repository in cwd")
    if not 0 <= order.priority <= 4:
        raise BadInput(f"priority {order.priority} is out of range", hint="pass 0 (most urgent) to 4 (least urgent)")
    if len(order.prompt) > LONGEST_TEXT or "\0" in order.prompt + order.verify:
        raise BadInput(
            "the prompt is too long or contains a NUL character",
            hint=f"pass at most {LONGEST_TEXT} characters without NUL",
        )
    fields = {
        "title": checks.title(order.title),
        "description": order.prompt,
        "cwd": cwd,
        "repo": cwd if order.branch else "",
        "workspace": WORKTREE if order.branch else DIRECTORY if cwd else "",
        "branch": order.branch,
        "base": _base(fleet, order, cwd),
        "mode": HEADLESS,
        "coder": coders.known(order.coder, described=settings.coders) if order.coder else "",
        "model": checks.model(order.model),
        "verify": order.verify,
        "priority": order.priority,
        "labels": tuple(checks.line("label", label) for label in order.labels),
        "requires": host_words.make_requirements(order.requires, order.host),
        "origin": ORIGIN,
        "path": terms.path,
        "rules": terms.task_rules(rules).text(),
    }
    elsewhere, notes = placement.placed(fleet, fields)
    draft = Draft(fields=fields | elsewhere, needs=tuple((BLOCKS, key, "{}") for key in order.needs))
    made, untied = tasks.create(as_seen_by(fleet, maker.caller), draft, actor=maker.by)
    wake(fleet.home)
    return made, [*untied, *(f"{made.id} {note}" for note in notes)]


def listed(fleet: Fleet, *, statuses: tuple[str, ...] | None, text: str, limit: int) -> list[dict[str, Any]]:
    if not 1 <= limit <= MOST_LISTED:
        raise BadInput(f"limit {limit} is out of range", hint=f"pass 1 to {MOST_LISTED}")
    where = Filter(statuses=statuses, text=text or None, unfinished=True if statuses is None else None)
    return [view(task) for task in fleet.store.tasks.find(where, sort="created", limit=limit)]


def shown(fleet: Fleet, name: str) -> dict[str, Any]:
    """Return everything known about a task as plain data. Raises TaskNotFound, UsageError."""
    key = find_task(fleet, name)
    with fleet.store.snapshot():
        task = fleet.store.tasks.get(key)
        asked = fleet.store.questions.find(task_id=key, unanswered=True)
        kept = fleet.store.results.find([key]).get(key)
        needs = [edge.needs for edge in fleet.store.edges.find([key])]
        return {
            **view(task),
            "prompt": task.description,
            "coder": agents.CoderChoice(fleet).of(task)[0],
            "verify": task.verify or None,
            "needs": needs,
            "questions": [{"id": each.id, "text": each.text} for each in asked],
            "result": kept.told if kept else None,
            "runs": [runs.view(fleet, run) for run in fleet.store.runs.of_task(key)],
        }


def view(task: Task) -> dict[str, Any]:
    return {
        "id": task.id,
        "title": task.title,
        "status": Status.IN_PROGRESS if task.is_supervised else task.status,
        "marked": task.status,  # an agent may block its task and continue
        "priority": task.priority,
        "labels": list(task.labels),
        "branch": task.branch or None,
        "cwd": task.cwd or None,
        "finding": task.finding or None,
        "reason": task.reason or task.close_reason or None,
        "blocked_by_others": task.is_blocked,
        "created_at": task.created_at.isoformat(timespec="seconds"),
        "closed_at": task.closed_at.isoformat(timespec="seconds") if task.closed_at else None,
    }


def tell_agent(fleet: Fleet, name: str, text: str, *, by: str, caller: Caller | None) -> dict[str, Any]:
    """Send a message to a task's agent. A run may do so for tasks that it made. Raises IllegalMove, BadInput."""
    key = find_task(fleet, name)
    own(fleet.store.tasks.get(key), caller, "tell anything to the agent of")
    return messages.prompt(fleet, key, text, by=by).view()


def _base(fleet: Fleet, order: TaskOrder, cwd: str) -> str:
    """Return the commit at which the task's branch starts. Return "" without a branch."""
    return branch_base.commit(fleet.home, find_repository(cwd), order.base, cwd=cwd) if order.branch else ""


def _directory(given: str) -> str:
    if not given:
        return ""
    place = real(given) if "\0" not in given else ""
    if not place or not os.path.isdir(place):  # noqa: PTH112
        raise BadInput(f"cwd {given[:200]!r} is not a directory", hint="pass a directory that exists")
    return checks.line("cwd", place, longest=4096)
