"""Remove worktrees of this host that were killed from another host, as `fleet kill` would remove them here."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError, IllegalMove, StoreAway, TaskNotFound, WorkspaceNotFound
from fleet.core.task import Status
from fleet.core.workspace import BRANCH_KEPT, STAYS, TO_GO, Wish
from fleet.engine.work import Work
from fleet.hosts.worktrees import end_removal, note_on_worktree, remove_worktree
from fleet.workspaces.branches import delete_branch

if TYPE_CHECKING:
    from fleet.core.task import Task
    from fleet.core.workspace import Workspace
    from fleet.engine.context import Context
    from fleet.home import Home

log = logging.getLogger(__name__)


def wish_of(space: Workspace) -> Wish | None:
    """Return how to remove a worktree. Return None if no host wants it removed."""
    said = space.made.get(TO_GO)
    return Wish(**said) if said else None


def holds(wish: Wish, task: Task | None) -> bool:
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

    def _wanted(self) -> list[tuple[Workspace, Wish]]:
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

    async def _remove(self, space: Workspace, wish: Wish) -> None:
        context, store = self._context, self._context.store
        try:
            saved = await remove_worktree(context, space, with_ignored=not wish.without_ignored)
        except StoreAway:
            raise
        except (IllegalMove, WorkspaceNotFound):  # another process uses the worktree or has removed it
            return
        except (FleetError, OSError) as error:
            log.warning("the worktree of %s stays, which another host wants gone: %s", space.task_id, error)
            refused = {"wish": wish.as_dict(), "why": str(error)[:300]}
            await note_on_worktree(store, space, {TO_GO: None, STAYS: refused})
            return
        tip = await asyncio.to_thread(_delete_branch, context.home, space) if wish.with_branch else ""
        await note_on_worktree(store, space, {BRANCH_KEPT: tip})
        await end_removal(store, space, saved)
        log.info("removed the worktree of %s, which another host wanted gone", space.task_id)


def _delete_branch(home: Home, space: Workspace) -> str:
    """Delete the branch of a removed worktree. Return the ref that keeps its tip, or "" if the branch stays."""
    try:
        return delete_branch(Work(home, space).view, space.branch)
    except FleetError as error:
        log.warning("the branch %s stays: %s", space.branch, error)
        return ""
