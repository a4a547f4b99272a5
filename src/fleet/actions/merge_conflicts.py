"""Conflict tasks: an agent merges a conflicting branch with its target, on a separate branch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.actions import creating
from fleet.actions.creating import Maker, Terms, Wish
from fleet.actions.merge_texts import resolve_prompt
from fleet.core.errors import FleetError
from fleet.core.filter import Filter
from fleet.core.task import MERGE, RESOLVES, Status
from fleet.workspaces.commits import merge_base

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.actions.merge_choice import Item
    from fleet.assembly import Fleet
    from fleet.core.receipt import Receipt
    from fleet.core.task import Task
    from fleet.workspaces.view import View

#: Limits of the search for the tasks that made the other side.
MOST_FILES, MOST_COMMITS = 50, 200
MOST_NAMES = 20


def hand_over(fleet: Fleet, view: View, item: Item, files: Sequence[str], *, target: str, by: str) -> str:
    """Create a task that resolves a conflict, or find the existing one. Return a sentence about it.

    `target` is the ref to merge with.
    """
    if known := _known(fleet, item):
        how = "has resolved it: merge that" if known.status == Status.CLOSED else "is to resolve it"
        return f"{known.id} {how}"
    others = [(task, _receipt(fleet, task)) for task in _other_side(fleet, view, item, files, target)]
    prompt = resolve_prompt(item.task, target, files=files, own=item.receipt, others=others)
    wish = Wish(branch=_branch(view, item), prompt=prompt, coder=item.task.coder, model=item.task.model)
    verify = "" if item.task.made_by else item.task.verify  # an agent's own command cannot be the only check
    terms = Terms(base=item.tip or "", headless=True, verify=verify)
    try:
        made = creating.create(fleet, view.repository.top, [wish], terms, Maker(origin=MERGE, by=by)).tasks[0]
    except FleetError as error:
        return f"no agent could be asked to resolve it: {error}"
    with fleet.store.atomic():
        task = fleet.store.tasks.get(made.id)
        note = {"task": item.task.id, "tip": item.tip}
        title = f"resolve the conflict of {item.task.branch}"
        fleet.store.tasks.save(task.replace(title=title, metadata=dict(task.metadata) | {RESOLVES: note}))
    return f"{made.id} is to resolve it, on branch {made.branch}"


def _known(fleet: Fleet, item: Item) -> Task | None:
    """Return the existing task about this conflict, or None."""
    for task in fleet.store.tasks.find(Filter(metadata_key=RESOLVES, origins=(MERGE,)), sort="created"):
        told = task.metadata.get(RESOLVES)
        if isinstance(told, dict) and (told.get("task"), told.get("tip")) == (item.task.id, item.tip):
            return task
    return None


def _branch(view: View, item: Item) -> str:
    names = [f"merge/{item.task.branch}"[:90] + (f"-{number}" if number else "") for number in range(MOST_NAMES)]
    tips = view.resolve(*(f"refs/heads/{name}" for name in names))
    return next((name for name, tip in zip(names, tips, strict=True) if tip is None), names[-1])


def _other_side(fleet: Fleet, view: View, item: Item, files: Sequence[str], target: str) -> list[Task]:
    """Return the tasks whose merges changed these files in the target since the branch started."""
    onto = view.commit_of(target)
    base = merge_base(view, onto, item.tip) if onto and item.tip else None
    if not onto or not base:
        return []
    words = ("log", f"--max-count={MOST_COMMITS}", "--format=%(trailers:key=Fleet-Task,valueonly)", onto, f"^{base}")
    told = view.git(*words, "--", *files[:MOST_FILES], env={"GIT_LITERAL_PATHSPECS": "1"}).decode(errors="replace")
    ids = tuple(dict.fromkeys(line.strip() for line in told.splitlines() if line.strip()))
    return fleet.store.tasks.find(Filter(ids=ids), sort="oldest") if ids else []


def _receipt(fleet: Fleet, task: Task) -> Receipt | None:
    found = fleet.store.receipts.of_task(task.id)
    return found[-1] if found else None
