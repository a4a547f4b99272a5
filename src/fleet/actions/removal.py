"""Removing worktrees: what only they hold is saved first, and whoever removes says how to get it back."""

from __future__ import annotations

import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.elsewhere import ask_to_go, is_elsewhere, name_of
from fleet.assembly import open_launcher
from fleet.config import load
from fleet.core.clock import growing_pauses
from fleet.core.errors import FleetError
from fleet.core.filter import Filter
from fleet.core.jsontext import encode
from fleet.core.workspace import BRANCH_KEPT
from fleet.engine.environment import setup_environment
from fleet.engine.relocating import relocate
from fleet.engine.strays import left_after_a_while
from fleet.engine.trusting import settings_in
from fleet.engine.work import Work, save_all
from fleet.home import quoted
from fleet.workspaces.saving import Saved
from fleet.workspaces.worktree import delete_branch, sweep_away, take_away

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from fleet.assembly import Fleet
    from fleet.config.workspace_sections import Saving
    from fleet.core.workspace import Workspace
    from fleet.home import Home

log = logging.getLogger(__name__)

AT_ONCE = 4


class Removal(NamedTuple):
    """What became of one worktree."""

    workspace: Workspace
    saved: Saved
    removed: bool
    why_not: str = ""
    branch_kept: str = ""  # the ref that keeps the tip of a branch that was deleted
    note: str = ""  # what was not done besides
    later: str = ""  # who removes it, and when, where that is for another host

    @property
    def commands(self) -> tuple[str, ...]:
        """Lines for a shell, each of which brings a part of it back, a deleted branch included."""
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
    """Wait until no agent of these tasks lives and nobody holds them; the ids of those that do after so long."""
    began, pauses = time.monotonic(), growing_pauses(0.01, 0.2, 1.1)
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
    """Save and remove the worktrees of tasks whose agents have ended. One that cannot be saved stays, and says why.

    Raises IllegalMove for a task that is at work. `sweep` afterwards deletes what they held from the disk.
    """
    relocate(fleet.home, fleet.store)
    settings = load(fleet.home, env={}, lenient=True).saving
    wished = {"with_branch": with_branch, "without_ignored": without_ignored}
    with fleet.store.atomic():  # one write for all of them
        left = [each for key in ids if (each := _left_elsewhere(fleet, key, wished))]
        plans = [_plan(fleet, key) for key in ids if key not in {each.workspace.task_id for each in left}]

    def work(plan: _Plan) -> Removal:
        return _removed(fleet.home, plan, settings, without_ignored)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        done = list(pool.map(work, plans))
    with fleet.store.atomic():
        for each in done:
            _record(fleet, each)
    return left + [_without_branch(fleet, each) if with_branch and each.removed else each for each in done]


def _left_elsewhere(fleet: Fleet, task_id: str, wished: dict[str, bool]) -> Removal | None:
    """A worktree on another host is for that host to remove, which is asked to."""
    space = fleet.store.workspaces.get(task_id)
    if space is None or not is_elsewhere(fleet, space.host):
        return None
    name = name_of(fleet, space.host)
    if space.is_gone:
        kept = ", ".join(space.saved_refs)
        note = f"host {name} has removed it" + (f"; what was not committed is kept there: {kept}" if kept else "")
        return Removal(space, Saved(), True, branch_kept=str(space.made.get(BRANCH_KEPT) or ""), note=note)
    later, refused = ask_to_go(fleet, space, **wished)
    return Removal(space, Saved(), False, why_not=refused, later="" if refused else later)


def sweep(removals: Sequence[Removal], fleet: Fleet) -> None:
    """Delete from the disk what was taken away."""
    removed = [each.workspace for each in removals if each.removed and not is_elsewhere(fleet, each.workspace.host)]
    for path, space in {space.path: space for space in removed}.items():
        sweep_away(Work(fleet.home, space).repository, path)


def _removed(home: Home, plan: _Plan, settings: Saving, without_ignored: bool) -> Removal:
    space, work = plan.space, Work(home, plan.space)
    if alive := left_after_a_while(home.task(space.task_id)):
        return Removal(space, Saved(), False, f"the agent of {space.task_id}/{alive[-1]} lives in it")
    try:
        if plan.teardown and os.path.isdir(space.path):  # noqa: PTH112
            _tear_down(home, plan)
        saved = save_all(home, space, plan.run_number, settings, with_ignored=not without_ignored)
        take_away(home, work.repository, space.path, work.admin)
    except (FleetError, OSError) as error:
        return Removal(space, Saved(), False, str(error))
    return Removal(space, saved, True, note=plan.note)


class _Plan(NamedTuple):
    """All that is needed to remove one worktree, read before others work beside us."""

    space: Workspace
    run_number: int
    teardown: tuple[str, ...] = ()
    env: dict[str, str] = {}  # noqa: RUF012
    seconds: float = 0.0
    note: str = ""


def _plan(fleet: Fleet, task_id: str) -> _Plan:
    space = fleet.store.workspaces.begin_removal(task_id)
    number = len(fleet.store.runs.of_task(task_id))
    try:
        settings = settings_in(fleet.home, fleet.store, space.repo, {}, lenient=True)
        task = fleet.store.tasks.get(task_id)
    except FleetError as error:
        log.warning("no teardown of %s: %s", space.branch, error)
        return _Plan(space, number)
    commands = settings.setup.teardown if space.ready_at else ()
    if space.ready_at and any(line.startswith("setup.teardown:") for line in settings.untrusted):
        return _Plan(space, number, note="its teardown commands were not run: they are not trusted")
    if not commands:
        return _Plan(space, number)
    env = setup_environment(fleet.home, task, space, settings.agent.pass_env)
    return _Plan(space, number, commands, env, settings.setup.seconds)


def _tear_down(home: Home, plan: _Plan) -> None:
    """Run the project's teardown commands; one that fails is in their log, and keeps nothing from being removed."""
    import asyncio  # costs more than the rest, and few projects have such commands

    from fleet.engine.commands import run_command

    launcher = open_launcher()
    for number, command in enumerate(plan.teardown, 1):
        place = home.teardown(plan.space.task_id, number)
        cwd = plan.space.path
        done = asyncio.run(run_command(launcher, place, command, cwd=cwd, env=plan.env, seconds=plan.seconds))
        if not done.ok:
            log.warning("teardown of %s: %s", plan.space.branch, done.in_words)


def _record(fleet: Fleet, done: Removal) -> None:
    if done.removed:
        fleet.store.workspaces.end_removal(done.workspace.task_id, encode(list(done.saved.refs)))
    else:
        fleet.store.workspaces.stop_removal(done.workspace.task_id)


def _without_branch(fleet: Fleet, done: Removal) -> Removal:
    try:
        kept = delete_branch(Work(fleet.home, done.workspace).view, done.workspace.branch)
    except FleetError as error:
        return done._replace(why_not=f"its branch stays: {error}")
    return done._replace(branch_kept=kept)
