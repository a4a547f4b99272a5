"""Remove worktrees of this host that were killed from another host, as `fleet kill` would remove them here."""

from __future__ import annotations

import asyncio
import logging
import os
from functools import partial
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError, IllegalMove, StoreAway, TaskNotFound, WorkspaceNotFound
from fleet.core.jsontext import encode
from fleet.core.task import Status
from fleet.core.workspace import BRANCH_KEPT, STAYS, TO_GO, RemovalRequest
from fleet.git.branches import delete_branch
from fleet.git.mirror import project_folder
from fleet.supervisor import removal
from fleet.supervisor.run.commands import tear_down
from fleet.supervisor.run.work import Work

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.core.task import Task
    from fleet.core.workspace import Workspace
    from fleet.git.save.worktree import SavedWork
    from fleet.home import Home
    from fleet.supervisor.context import Context
    from fleet.supervisor.store_calls import StoreCalls


log = logging.getLogger(__name__)


async def note_on_worktree(store: StoreCalls, space: Workspace, words: Mapping[str, object]) -> None:
    """Add to the notes about a worktree of this host, unless the worktree is gone."""

    def write() -> None:
        with store.atomic():
            kept = store.workspaces.get(space.task_id)
            if kept is not None and kept.made_at == space.made_at and not kept.is_gone:
                store.workspaces.save(kept.replace(notes=encode({**kept.made, **words})))

    try:
        await store.call(write)
    except WorkspaceNotFound:
        log.info("the worktree of %s is gone", space.task_id)


async def remove_worktree(context: Context, space: Workspace, *, with_ignored: bool, is_used: bool = True) -> SavedWork:
    """Save what only a worktree holds, then remove the worktree. Return what was saved, for `end_removal`.

    Without `is_used` nothing is saved. Raises WorkspaceNotFound, IllegalMove, FleetError or OSError, and the worktree
    stays.
    """
    plan = await context.store.call(_begin, context, space, with_ignored)
    if plan.note:
        log.warning("%s: %s", space.branch, plan.note)
    loop = asyncio.get_running_loop()

    def run_teardown(plan: removal.RemovalPlan) -> None:
        asyncio.run_coroutine_threadsafe(tear_down(context.launchers.headless, context.home, plan), loop).result()

    work = partial(removal.carry_out, context.home, plan, run_teardown)
    if not is_used:
        work = partial(removal.discard, context.home, plan.space)
    try:
        return await asyncio.to_thread(work)
    except (FleetError, OSError):
        await context.store.call(context.store.workspaces.stop_removal, space.task_id)
        raise


async def end_removal(store: StoreCalls, space: Workspace, saved: SavedWork) -> None:
    """Record that a worktree was removed, and the refs that keep its content."""
    await store.call(store.workspaces.end_removal, space.task_id, encode(list(saved.refs)))


def _begin(context: Context, space: Workspace, with_ignored: bool) -> removal.RemovalPlan:
    saving, project = context.settings.saving, _project_of(context, space)
    return removal.begin(
        context.home, context.store.ports, space.task_id, saving, with_ignored=with_ignored, project=project
    )


def _project_of(context: Context, space: Workspace) -> str:
    """Return the folder of the project's settings if the worktree was made from a mirror. Return "" otherwise."""
    try:
        task = context.store.tasks.get(space.task_id)
    except TaskNotFound:
        return ""
    folder = project_folder(context.home, task.remote, task.base) if task.remote else ""
    return folder if os.path.isdir(folder) else ""  # noqa: PTH112


def wish_of(space: Workspace) -> RemovalRequest | None:
    """Return how to remove a worktree. Return None if no host wants it removed."""
    said = space.made.get(TO_GO)
    return RemovalRequest(**said) if said else None


def holds(wish: RemovalRequest, task: Task | None) -> bool:
    """Return True if a wish still counts because its task was not reopened. Pure."""
    return task is None or (task.epoch == wish.epoch and task.status in (Status.BLOCKED, Status.CLOSED))


class WishedRemovals:
    """Worktrees of this host that another host wants removed.

    If a removal fails, fleet retries only when asked again.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    async def carry_out(self) -> None:
        for space, wish in await self._context.store.call(self._wanted):
            await self._remove(space, wish)

    def _wanted(self) -> list[tuple[Workspace, RemovalRequest]]:
        context, found = self._context, []
        for space in context.store.workspaces.find():
            wish = wish_of(space) if space.host == context.owner else None
            if wish is not None and holds(wish, self._task(space)):
                found.append((space, wish))
        return found

    def _task(self, space: Workspace) -> Task | None:
        try:
            return self._context.store.tasks.get(space.task_id)
        except TaskNotFound:
            return None

    async def _remove(self, space: Workspace, wish: RemovalRequest) -> None:
        context, store = self._context, self._context.store
        try:
            saved = await remove_worktree(context, space, with_ignored=not wish.without_ignored)
        except StoreAway:
            raise
        except (IllegalMove, WorkspaceNotFound):  # another process uses the worktree or has removed it
            return
        except (FleetError, OSError) as error:
            log.warning("cannot remove the worktree of %s for another host: %s", space.task_id, error)
            refused = {"wish": wish.as_dict(), "why": str(error)[:300]}
            await note_on_worktree(store, space, {TO_GO: None, STAYS: refused})
            return
        tip = await asyncio.to_thread(_delete_branch, context.home, space) if wish.with_branch else ""
        await note_on_worktree(store, space, {BRANCH_KEPT: tip})
        await end_removal(store, space, saved)
        log.info("removed the worktree of %s for another host", space.task_id)


def _delete_branch(home: Home, space: Workspace) -> str:
    """Delete the branch of a removed worktree. Return the ref that keeps its tip, or "" if the branch stays."""
    try:
        return delete_branch(Work(home, space).view, space.branch)
    except FleetError as error:
        log.warning("branch %s kept: %s", space.branch, error)
        return ""
