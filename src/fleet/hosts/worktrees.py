"""Worktrees of this host: what other hosts can read about them, and their removal while the supervisor runs."""

from __future__ import annotations

import asyncio
import logging
import os
from functools import partial
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError, TaskNotFound, WorkspaceNotFound
from fleet.core.jsontext import encode
from fleet.engine import removal
from fleet.engine.teardown import tear_down
from fleet.workspaces.mirror import project_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.core.workspace import Workspace
    from fleet.engine.context import Context
    from fleet.engine.store_calls import StoreCalls
    from fleet.workspaces.saving import Saved

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


async def remove_worktree(context: Context, space: Workspace, *, with_ignored: bool, is_used: bool = True) -> Saved:
    """Save what only a worktree holds, then remove the worktree. Return what was saved, for `end_removal`.

    Without `is_used` nothing is saved. Raises WorkspaceNotFound, IllegalMove, FleetError or OSError, and the worktree
    stays.
    """
    plan = await context.store.call(_begin, context, space, with_ignored)
    if plan.note:
        log.warning("%s: %s", space.branch, plan.note)
    loop = asyncio.get_running_loop()

    def run_teardown(plan: removal.Plan) -> None:
        asyncio.run_coroutine_threadsafe(tear_down(context.launchers.headless, context.home, plan), loop).result()

    work = partial(removal.carry_out, context.home, plan, run_teardown)
    if not is_used:
        work = partial(removal.discard, context.home, plan.space)
    try:
        return await asyncio.to_thread(work)
    except (FleetError, OSError):
        await context.store.call(context.store.workspaces.stop_removal, space.task_id)
        raise


async def end_removal(store: StoreCalls, space: Workspace, saved: Saved) -> None:
    """Record that a worktree was removed, and the refs that keep its content."""
    await store.call(store.workspaces.end_removal, space.task_id, encode(list(saved.refs)))


def _begin(context: Context, space: Workspace, with_ignored: bool) -> removal.Plan:
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
