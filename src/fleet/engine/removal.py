"""Remove worktrees, for everybody who asks: save what only they hold, then remove them.

Call it on the host that has the worktree. A removal has three steps: `begin` writes that it began, `carry_out` works on
the disk, and `end` or `stop` writes how it went. A process that is killed between two steps leaves the removal on
record as begun. `fleet list --repair`, or whoever asks again, then repeats all of it: saving twice does no harm, and
nothing is removed before it was saved.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.errors import FleetError
from fleet.core.jsontext import encode
from fleet.engine.environment import setup_environment
from fleet.engine.strays import left_after_a_while
from fleet.engine.trusting import settings_in
from fleet.engine.work import Work, save_all
from fleet.workspaces import worktree
from fleet.workspaces.saving import Saved

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.config.workspace_sections import Saving
    from fleet.core.workspace import Workspace
    from fleet.home import Home
    from fleet.store.base import Store

log = logging.getLogger(__name__)


class Plan(NamedTuple):
    """A removal that has begun: all that its work on the disk needs, so that it does not ask the store."""

    space: Workspace
    run_number: int
    saving: Saving
    with_ignored: bool = True
    teardown: tuple[str, ...] = ()
    env: dict[str, str] = {}  # noqa: RUF012
    seconds: float = 0.0
    note: str = ""


def begin(
    home: Home, store: Store, task_id: str, saving: Saving, *, with_ignored: bool = True, project: str = ""
) -> Plan:
    """Write that the removal of a task's worktree begins, so that no run begins in it.

    `project` is the directory with the project's settings, if that is not the repository. Raises WorkspaceNotFound, and
    IllegalMove while somebody works on the task.
    """
    space = store.workspaces.begin_removal(task_id)
    plan = Plan(space, len(store.runs.of_task(task_id)), saving, with_ignored)
    try:
        settings = settings_in(home, store, project or space.repo, {}, lenient=True)
        task = store.tasks.get(task_id)
    except FleetError as error:
        log.warning("no teardown of %s: %s", space.branch, error)
        return plan
    if not space.ready_at:  # no agent was in it: there is nothing to tear down
        return plan
    if any(line.startswith("setup.teardown:") for line in settings.untrusted):
        return plan._replace(note="its teardown commands were not run: they are not trusted")
    env = setup_environment(home, task, space, settings.agent.pass_env) if settings.setup.teardown else {}
    return plan._replace(teardown=settings.setup.teardown, env=env, seconds=settings.setup.seconds)


def carry_out(home: Home, plan: Plan, tear_down: Callable[[Plan], None], *, sweep: bool = True) -> Saved:
    """Run the project's teardown commands with `tear_down`, save what only a worktree holds, and remove it.

    Return what was saved. Without `sweep`, what the worktree held waits beside its place for `worktree.sweep_away`.
    Raises FleetError, OSError: then the worktree stays.
    """
    space = plan.space
    if alive := left_after_a_while(home.task(space.task_id)):
        raise FleetError(f"the agent of {space.task_id}/{alive[-1]} lives in it")
    if plan.teardown and os.path.isdir(space.path):  # noqa: PTH112
        tear_down(plan)
    return save_and_remove(home, space, plan.run_number, plan.saving, with_ignored=plan.with_ignored, sweep=sweep)


def save_and_remove(
    home: Home, space: Workspace, run_number: int, saving: Saving, *, with_ignored: bool, sweep: bool = True
) -> Saved:
    """Save what only a worktree holds, then remove it; its branch stays. Return what was saved.

    For a worktree whose removal is not on record. Raises FleetError, OSError: then the worktree stays.
    """
    saved = save_all(home, space, run_number, saving, with_ignored=with_ignored)
    work = Work(home, space)
    take = worktree.remove if sweep else worktree.take_away
    take(home, work.repository, space.path, work.admin)
    return saved


def discard(home: Home, space: Workspace) -> Saved:
    """Remove a worktree that was never made ready; its branch stays. No agent was in it, so nothing is saved."""
    worktree.remove(home, Work(home, space).repository, space.path)
    return Saved()


def end(store: Store, plan: Plan, saved: Saved) -> None:
    """Write that a worktree was removed, and the refs that keep what was in it."""
    store.workspaces.end_removal(plan.space.task_id, encode(list(saved.refs)))


def stop(store: Store, plan: Plan) -> None:
    """Write that a worktree could not be removed, and stays."""
    store.workspaces.stop_removal(plan.space.task_id)


def take_back(home: Home, store: Store, task_id: str) -> None:
    """Remove a worktree that was never made ready, and the branch that was made for it. No agent was in it."""
    space = store.workspaces.begin_removal(task_id)
    worktree.undo(
        home,
        Work(home, space).repository,
        path=space.path,
        branch=space.branch,
        base_commit=space.base_commit,
        made=space.made_branch,
    )
    store.workspaces.end_removal(task_id, "[]")
