"""The cluster of several hosts that share a queue. Each host does its part for the others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from fleet.git.mirror import mirror_of
from fleet.hosts.fence import Fence
from fleet.hosts.fetch import branch_tip, fetch_task
from fleet.hosts.host_service import HostRow, HostService, store_tail
from fleet.hosts.push import push_branch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from fleet.core.task import Task
    from fleet.git.repository import Repository
    from fleet.hosts.cluster import Follower, Leases, LiveRun
    from fleet.supervisor.context import Context
    from fleet.supervisor.task_folder import TaskFolder


class Shared:
    """A cluster of the hosts that use one PostgreSQL queue."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._fence = Fence()
        self._row = HostRow(context)
        self._service = HostService(context)
        self.leases: Leases = self._fence
        self.shares_accounts = True

    @property
    def address(self) -> str:
        return self._service.address

    def take_host(self, tell: Callable[[int], None]) -> float:
        return self._row.take(tell)

    async def serve(self, followers: Mapping[str, Follower]) -> None:
        self._fence.begin()
        try:
            await self._service.serve(followers)
        finally:
            await asyncio.to_thread(self._fence.end)

    def note_write(self) -> None:
        self._service.note_write()

    def note_end(self) -> None:
        self._service.note_end()

    def may_be_elsewhere(self, task_id: str) -> bool:
        return True

    async def fetch_task(self, task: Task, folder: TaskFolder) -> None:
        if task.travels:
            await fetch_task(self._context, task, folder)

    def branch_tip(self, task: Task, branch: str, commit: str) -> str:
        return branch_tip(self._context.home, task, branch, commit)

    def describe_place(self, task: Task, repository: Repository) -> dict[str, Any]:
        context, remote = self._context, task.remote
        mirrored = bool(remote) and repository == mirror_of(context.home, remote)
        return {"host": context.owner, "remote": remote, "mirror": mirrored}

    async def publish(self, live: LiveRun) -> None:
        await push_branch(self._context, live)
        await store_tail(self._context.store, live)

    def own_key(self, name: str) -> str:
        return f"{name}.{self._context.owner}"
