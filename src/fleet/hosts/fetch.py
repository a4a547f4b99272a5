"""Fetch a task that another host worked on: its repository, its branch, and the artifacts of its last run.

If the remote is unreachable, the task goes back to the queue uncounted and waits longer each time.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.git import mirror
from fleet.git.remote import RemoteAway, shown
from fleet.git.view import View
from fleet.home import PROJECT_FILES
from fleet.hosts.backoff import Backoff
from fleet.hosts.parcel import fetch_parcel, unpack
from fleet.settings.trusted import record_trusted
from fleet.supervisor.host import is_seen
from fleet.supervisor.removal import save_and_remove
from fleet.supervisor.run.workplace import NotReady, RetryLater, branch_of, is_there
from fleet.supervisor.trust import keep_digests, of_remote, trusted_digests

if TYPE_CHECKING:
    from fleet.core.task import Task
    from fleet.core.workspace import Workspace
    from fleet.git.repository import Repository
    from fleet.home import Home
    from fleet.store.base import Store
    from fleet.supervisor.context import Context
    from fleet.supervisor.task_folder import TaskFolder

log = logging.getLogger(__name__)

#: A host is considered gone if its row was not updated for this many times the length of a claim.
PATIENCE = 2


#: How long to wait for each remote. One instance for the process, because the supervisor has every task.
BACKOFF = Backoff()


async def fetch_task(context: Context, task: Task, folder: TaskFolder) -> None:
    """Fetch everything that a task's worktree is made from, and what its last agent left.

    Raises RetryLater, NotReady, FleetError.
    """
    store = context.store
    known = await store.call(store.workspaces.get, task.id)
    if known is not None and not known.is_gone:
        if known.host in ("", context.owner) and known.is_ready and is_there(known.path):
            return
        if known.host not in ("", context.owner):
            await _take_over(context, known)
    earlier = await store.call(store.runs.of_task, task.id)
    left = await store.call(_left_behind, store.ports, task.id) if earlier else []
    elsewhere = any(run.owner != context.owner for run in earlier)
    try:
        repository = await asyncio.to_thread(_fetched, context.home, task, elsewhere=elsewhere)
    except RemoteAway as error:
        raise RetryLater(str(error), seconds=BACKOFF.next_seconds(task.remote), hint=error.hint) from error
    BACKOFF.reset(task.remote)
    for space in left:
        saving = context.settings.saving
        await asyncio.to_thread(save_and_remove, context.home, space, len(earlier), saving, with_ignored=False)
    said = await asyncio.to_thread(_caught_up, context.home, task, repository, elsewhere=elsewhere)
    if said:
        log.info("%s: %s", task.id, said)
    if earlier and earlier[-1].owner != context.owner:
        await asyncio.to_thread(_unpack, context.home, task, repository, folder)
    await store.call(_trust, context, task, repository)


def branch_tip(home: Home, task: Task, branch: str, commit: str) -> str:
    """Return the tip of a branch that another task left at `commit`, perhaps on another host.

    Raises FleetError, and RetryLater while the remote is unreachable or does not have the branch yet.
    """
    here = mirror.repository_at(home, task.repo, task.remote, commit)
    if os.path.isdir(here.common):  # noqa: PTH112
        tip, kept = View(home, here).resolve(f"refs/heads/{branch}", commit or "HEAD")
        if tip is not None and (not commit or kept is not None):
            return tip
    try:
        made = mirror.fetch_mirror(home, task.remote, commit)
    except RemoteAway as error:
        raise RetryLater(str(error), seconds=BACKOFF.next_seconds(task.remote), hint=error.hint) from error
    BACKOFF.reset(task.remote)
    tip, kept = View(home, made).resolve(f"{mirror.SEEN}/{branch}", commit or "HEAD")
    if tip or (commit and kept):
        return tip or kept or ""
    raise RetryLater(
        f"branch {branch!r} is not on {shown(task.remote)} yet", seconds=BACKOFF.next_seconds(f"{task.id} {branch}")
    )


def _left_behind(store: Store, task_id: str) -> list[Workspace]:
    """Return worktrees of a task on this disk that another host continued without.

    Worktrees whose path belongs to another worktree by now are left out.
    """
    gone = [space for space in store.workspaces.of_task(task_id) if space.is_gone and space.host]
    here = [space for space in gone if is_there(space.path)]
    standing = {space.path for space in store.workspaces.find()} if here else set()
    return [space for space in here if space.path not in standing]


async def _take_over(context: Context, known: Workspace) -> None:
    """Take over a task from a host that is gone. Raises RetryLater while the host may still push its work."""
    store = context.store
    rows = await store.call(store.hosts.all)
    host = next((row for row in rows if row.id == known.host), None)
    lease, name = context.settings.supervisor.claim_seconds, f"{known.task_id} {known.host}"
    if host is not None and is_seen(host, context.now(), lease * PATIENCE):
        raise RetryLater(
            f"its worktree is on host {host.name}, which has not pushed its branch yet",
            seconds=min(BACKOFF.next_seconds(name), lease),  # by then the host may have pushed, or is known to be gone
        )
    BACKOFF.reset(name)
    await store.call(store.workspaces.leave, known.task_id)
    log.warning("%s continues here: its host %s is gone, and so is its unpushed work", known.task_id, known.host)


def _fetched(home: Home, task: Task, *, elsewhere: bool) -> Repository:
    """Return the repository to work in, with the base commit in it. Raises RemoteAway, NotReady."""
    found = mirror.repository_at(home, task.repo, task.remote, task.base)
    if found != mirror.mirror_of(home, task.remote):
        if elsewhere:
            mirror.bring(home, found, task.remote, branch_of(task))
        return found
    made = mirror.fetch_mirror(home, task.remote, task.base)
    if View(home, made).resolve(task.base) == [None]:
        raise NotReady(
            f"its base commit {task.base[:12]} is not on {shown(task.remote)}",
            hint="push the commit there, then run `fleet retry`",
        )
    mirror.keep_project(home, task.remote, task.base, PROJECT_FILES)
    return made


def _caught_up(home: Home, task: Task, repository: Repository, *, elsewhere: bool) -> str:
    is_mirror, branch = repository == mirror.mirror_of(home, task.remote), branch_of(task)
    if not elsewhere and not is_mirror:
        return ""
    seen = f"{mirror.SEEN if is_mirror else mirror.ARRIVED}/{branch}"
    return mirror.catch_up(home, repository, branch, View(home, repository).commit_of(seen), task.base)


def _unpack(home: Home, task: Task, repository: Repository, folder: TaskFolder) -> None:
    """Unpack the artifacts of the last run for the next agent. Errors are logged, not raised."""
    remote = mirror.remote_for(repository, task.remote)
    try:
        unpack(folder, fetch_parcel(home, View(home, repository), remote, task.id))
    except (FleetError, OSError) as error:
        log.warning("%s continues without the uncommitted work of its last agent: %s", task.id, error)


def _trust(context: Context, task: Task, repository: Repository) -> None:
    """Trust in the mirror the project commands that were trusted for the remote.

    Commands are known by their digests.
    """
    store = context.store
    if repository == mirror.mirror_of(context.home, task.remote):
        known = trusted_digests(store.ports, of_remote(task.remote))
        keep_digests(store.ports, repository, known, by="its maker")
        record_trusted(context.home, mirror.project_folder(context.home, task.remote, task.base), known)
