"""Remove worktrees for all callers: save what only they hold, then remove them.

Call these functions on the host that has the worktree. A removal has three steps. `begin` records that it began,
`carry_out` works on the disk, and `end` or `stop` records the result. A process killed between two steps leaves the
removal recorded as begun. `fleet list --repair` or the next removal then repeats all of it. Saving twice does no harm,
and nothing is removed before it was saved.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.errors import FleetError
from fleet.core.jsontext import encode
from fleet.git import worktree
from fleet.git.save.worktree import SavedWork
from fleet.supervisor.run.environment import setup_environment
from fleet.supervisor.run.work import Work, save_all
from fleet.supervisor.strays import left_after_a_while
from fleet.supervisor.trust import settings_in

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.core.workspace import Workspace
    from fleet.home import Home
    from fleet.settings.project_sections import SaveSettings
    from fleet.store.base import Store

log = logging.getLogger(__name__)


class RemovalPlan(NamedTuple):
    """A removal that has begun: everything that the work on the disk needs, so that it does not call the store."""

    space: Workspace
    run_number: int
    saving: SaveSettings
    with_ignored: bool = True
    teardown: tuple[str, ...] = ()
    env: dict[str, str] = {}  # noqa: RUF012
    seconds: float = 0.0
    note: str = ""


def begin(
    home: Home, store: Store, task_id: str, saving: SaveSettings, *, with_ignored: bool = True, project: str = ""
) -> RemovalPlan:
    """Record that the removal of a task's worktree begins, so that no run begins in it. Return the plan.

    `project` is the folder with the project's settings, if that is not the repository. Raises WorkspaceNotFound, and
    IllegalMove while the worktree is in use.
    """
    space = store.workspaces.begin_removal(task_id)
    plan = RemovalPlan(space, len(store.runs.of_task(task_id)), saving, with_ignored)
    try:
        settings = settings_in(home, store, project or space.repo, {}, lenient=True)
        task = store.tasks.get(task_id)
    except FleetError as error:
        log.warning("teardown of %s failed: %s", space.branch, error)
        return plan
    if not space.ready_at:  # no agent worked in it: nothing to tear down
        return plan
    if any(line.startswith("setup.teardown:") for line in settings.untrusted):
        return plan._replace(note="its teardown commands did not run: they are not trusted")
    env = setup_environment(home, task, space, settings.agent.pass_env) if settings.setup.teardown else {}
    return plan._replace(teardown=settings.setup.teardown, env=env, seconds=settings.setup.seconds)


def carry_out(
    home: Home, plan: RemovalPlan, tear_down: Callable[[RemovalPlan], None], *, sweep: bool = True
) -> SavedWork:
    """Run the project's teardown commands with `tear_down`, save what only a worktree holds, and remove it.

    Return what was saved. Without `sweep` the content stays beside the worktree's path for `worktree.sweep_away`.
    Raises FleetError or OSError, and the worktree stays.
    """
    space = plan.space
    if alive := left_after_a_while(home.task(space.task_id)):
        raise FleetError(f"the agent of {space.task_id}/{alive[-1]} still runs in it")
    if plan.teardown and os.path.isdir(space.path):  # noqa: PTH112
        tear_down(plan)
    return save_and_remove(home, space, plan.run_number, plan.saving, with_ignored=plan.with_ignored, sweep=sweep)


def save_and_remove(
    home: Home, space: Workspace, run_number: int, saving: SaveSettings, *, with_ignored: bool, sweep: bool = True
) -> SavedWork:
    """Save what only a worktree holds, then remove the worktree. Its branch stays. Return what was saved.

    For a worktree whose removal is not recorded. Raises FleetError or OSError, and the worktree stays.
    """
    saved = save_all(home, space, run_number, saving, with_ignored=with_ignored)
    work = Work(home, space)
    take = worktree.remove if sweep else worktree.take_away
    take(home, work.repository, space.path, work.admin)
    return saved


def discard(home: Home, space: Workspace) -> SavedWork:
    """Remove a worktree that was never ready. Its branch stays. Nothing is saved, because no agent worked in it."""
    worktree.remove(home, Work(home, space).repository, space.path)
    return SavedWork()


def end(store: Store, plan: RemovalPlan, saved: SavedWork) -> None:
    """Record that a worktree was removed, and the refs that keep its content."""
    store.workspaces.end_removal(plan.space.task_id, encode(list(saved.refs)))


def stop(store: Store, plan: RemovalPlan) -> None:
    """Record that a worktree could not be removed and stays."""
    store.workspaces.stop_removal(plan.space.task_id)


def take_back(home: Home, store: Store, task_id: str) -> None:
    """Remove a worktree that was never ready, and the branch created for it. No agent worked in it."""
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
