"""Worktrees of this host that somebody on another one wants gone: saved and removed, as `fleet kill` does it here."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError, IllegalMove, StoreAway, TaskNotFound, WorkspaceNotFound
from fleet.core.jsontext import encode
from fleet.core.task import Status
from fleet.core.workspace import BRANCH_KEPT, STAYS, TO_GO, Wish
from fleet.engine.work import Work, save_all
from fleet.engine.workplace import is_there
from fleet.hosts.push import note, tear_down
from fleet.workspaces.worktree import delete_branch, remove

if TYPE_CHECKING:
    from fleet.config.workspace_sections import Saving
    from fleet.core.task import Task
    from fleet.core.workspace import Workspace
    from fleet.engine.context import Context
    from fleet.home import Home
    from fleet.workspaces.saving import Saved

log = logging.getLogger(__name__)


def wish_of(space: Workspace) -> Wish | None:
    """What was wished of a worktree; none: nothing."""
    said = space.made.get(TO_GO)
    return Wish(**said) if said else None


def holds(wish: Wish, task: Task | None) -> bool:
    """Whether a wish is still one: its task was not opened again. Pure."""
    return task is None or (task.epoch == wish.epoch and task.status in (Status.BLOCKED, Status.CLOSED))


class WishedRemovals:
    """Worktrees of this host that another host wants removed. One that cannot be removed stays until asked again."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def carry_out(self) -> None:
        """Remove them."""
        for space, wish, number in await self._context.store.call(self._wanted):
            await self._depart(space, wish, number)

    def _wanted(self) -> list[tuple[Workspace, Wish, int]]:
        context, found = self._context, []
        store = context.store
        for space in store.workspaces.find():
            wish = wish_of(space) if space.host == context.owner else None
            if wish is not None and holds(wish, self._task(space)):
                found.append((space, wish, len(store.runs.of_task(space.task_id))))
        return found

    def _task(self, space: Workspace) -> Task | None:
        try:
            return self._context.store.tasks.get(space.task_id)
        except TaskNotFound:
            return None

    async def _depart(self, space: Workspace, wish: Wish, number: int) -> None:
        context, store = self._context, self._context.store
        try:
            await store.call(store.workspaces.begin_removal, space.task_id)
        except (IllegalMove, WorkspaceNotFound):  # somebody works on it after all, or removed it
            return
        try:
            if is_there(space.path) and space.ready_at is not None:
                await tear_down(context, space)
            saved, tip = await asyncio.to_thread(_removed, context.home, space, wish, number, context.settings.saving)
        except StoreAway:
            raise
        except (FleetError, OSError) as error:
            log.warning("the worktree of %s stays, which another host wants gone: %s", space.task_id, error)
            await store.call(store.workspaces.stop_removal, space.task_id)
            await note(store, space, {TO_GO: None, STAYS: {"wish": wish.as_dict(), "why": str(error)[:300]}})
            return
        await note(store, space, {BRANCH_KEPT: tip})
        await store.call(store.workspaces.end_removal, space.task_id, encode(list(saved.refs)))
        log.info("removed the worktree of %s, which another host wanted gone", space.task_id)


def _removed(home: Home, space: Workspace, wish: Wish, number: int, settings: Saving) -> tuple[Saved, str]:
    """What was saved, and the ref that keeps the tip of its branch if that went too. Raises FleetError."""
    work = Work(home, space)
    saved = save_all(home, space, number, settings, with_ignored=not wish.without_ignored)
    remove(home, work.repository, space.path, work.admin)
    if not wish.with_branch:
        return saved, ""
    try:
        return saved, delete_branch(work.view, space.branch)
    except FleetError as error:
        log.warning("the branch %s stays: %s", space.branch, error)
        return saved, ""
