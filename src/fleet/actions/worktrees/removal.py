"""Removal of tasks' worktrees, here or by another host, with the commands that restore what was saved."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.control.other_hosts import ask_to_go, is_elsewhere, name_of
from fleet.assembly import open_launcher
from fleet.core.clock import iterate_pauses
from fleet.core.errors import FleetError
from fleet.core.filter import Filter
from fleet.core.workspace import BRANCH_KEPT
from fleet.git.save.worktree import SavedWork
from fleet.git.worktree import delete_branch, sweep_away
from fleet.home import quoted
from fleet.settings import load
from fleet.supervisor import removal
from fleet.supervisor.relocation import relocate
from fleet.supervisor.run.work import Work

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from fleet.assembly import Fleet
    from fleet.core.workspace import Workspace
    from fleet.home import Home

AT_ONCE = 4


class Removal(NamedTuple):
    """The result for one worktree."""

    workspace: Workspace
    saved: SavedWork
    removed: bool
    why_not: str = ""
    branch_kept: str = ""  # the ref that keeps the tip of a deleted branch
    note: str = ""  # what else was not done
    later: str = ""  # which other host removes the worktree, and when

    @property
    def commands(self) -> tuple[str, ...]:
        """Return shell commands, each of which restores a part, including a deleted branch."""
        if not self.branch_kept:
            return self.saved.commands
        space = self.workspace
        back = f"git -C {quoted(space.repo)} branch {quoted(space.branch)} {quoted(self.branch_kept)}"
        return (back, *self.saved.commands)

    def view(self) -> dict[str, Any]:
        return {
            "task": self.workspace.task_id,
            "branch": self.workspace.branch,
            "worktree": self.workspace.path,
            "removed": self.removed,
            "why_not": self.why_not or None,
            "note": self.note or self.later or None,
            "saved": list(self.saved.refs),
            "commands": list(self.commands),
            "left_out": [f"{each.path} ({each.why})" for each in self.saved.left_out],
            "branch_deleted": bool(self.branch_kept),
            "branch_kept": self.branch_kept or None,
        }


def wait_for_end(fleet: Fleet, ids: Sequence[str], seconds: float) -> list[str]:
    """Wait until these tasks have no live agent and no claim.

    Return the ids of those that still have one at the end.
    """
    began, pauses = time.monotonic(), iterate_pauses(0.01, 0.2, 1.1)
    while True:
        with fleet.store.snapshot():
            live = {run.task_id for run in fleet.store.runs.live()}
            held = [
                task.id
                for task in fleet.store.tasks.find(Filter(ids=tuple(ids)), sort="id")
                if task.id in live or task.is_supervised
            ]
        waited = time.monotonic() - began
        if not held or waited > seconds:
            return held
        time.sleep(next(pauses))


def remove(
    fleet: Fleet, ids: Sequence[str], *, with_branch: bool = False, without_ignored: bool = False
) -> list[Removal]:
    """Save and remove the worktrees of tasks whose agents have ended.

    A worktree that cannot be saved stays, with a reason. Other hosts remove their own worktrees. Call `sweep`
    afterwards to delete the removed ones from the disk. Raises IllegalMove if a task is being worked on.
    """
    relocate(fleet.home, fleet.store)
    saving = load(fleet.home, env={}, lenient=True).saving
    wished = {"with_branch": with_branch, "without_ignored": without_ignored}
    with fleet.store.atomic():  # one write for all tasks
        left = [each for key in ids if (each := _left_elsewhere(fleet, key, wished))]
        own = [key for key in ids if key not in {each.workspace.task_id for each in left}]
        plans = [removal.begin(fleet.home, fleet.store, key, saving, with_ignored=not without_ignored) for key in own]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = list(pool.map(partial(_removed, fleet.home), plans))
    with fleet.store.atomic():
        for plan, each in zip(plans, done, strict=True):
            if each.removed:
                removal.end(fleet.store, plan, each.saved)
            else:
                removal.stop(fleet.store, plan)
    return left + [_without_branch(fleet, each) if with_branch and each.removed else each for each in done]


def _left_elsewhere(fleet: Fleet, task_id: str, wished: dict[str, bool]) -> Removal | None:
    """Ask the host that has a worktree to remove it. Return None if this host has the worktree."""
    space = fleet.store.workspaces.get(task_id)
    if space is None or not is_elsewhere(fleet, space.host):
        return None
    name = name_of(fleet, space.host)
    if space.is_gone:
        kept = ", ".join(space.saved_refs)
        note = f"host {name} has removed it" + (f"; uncommitted changes is kept there: {kept}" if kept else "")
        return Removal(space, SavedWork(), True, branch_kept=str(space.made.get(BRANCH_KEPT) or ""), note=note)
    later, refused = ask_to_go(fleet, space, **wished)
    return Removal(space, SavedWork(), False, why_not=refused, later="" if refused else later)


def sweep(removals: Sequence[Removal], fleet: Fleet) -> None:
    """Delete removed worktrees from the disk."""
    removed = [each.workspace for each in removals if each.removed and not is_elsewhere(fleet, each.workspace.host)]
    for path, space in {space.path: space for space in removed}.items():
        sweep_away(Work(fleet.home, space).repository, path)


def _removed(home: Home, plan: removal.RemovalPlan) -> Removal:
    try:
        saved = removal.carry_out(home, plan, lambda plan: _tear_down(home, plan), sweep=False)
    except (FleetError, OSError) as error:
        return Removal(plan.space, SavedWork(), False, str(error))
    return Removal(plan.space, saved, True, note=plan.note)


def _tear_down(home: Home, plan: removal.RemovalPlan) -> None:
    import asyncio  # slow to import, and few projects have teardown commands

    from fleet.supervisor.run.commands import tear_down

    asyncio.run(tear_down(open_launcher(), home, plan))


def _without_branch(fleet: Fleet, done: Removal) -> Removal:
    try:
        kept = delete_branch(Work(fleet.home, done.workspace).view, done.workspace.branch)
    except FleetError as error:
        return done._replace(why_not=f"its branch is kept: {error}")
    return done._replace(branch_kept=kept)
