"""The cluster of a machine that does not share its queue: no other hosts exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from fleet.agents.base import Launcher
    from fleet.core.task import Task
    from fleet.git.repository import Repository
    from fleet.hosts.cluster import Follower, Leases, LiveRun
    from fleet.supervisor.context import Context
    from fleet.supervisor.task_folder import TaskFolder


class UnlimitedLeases:
    """Leases that never end: no other host can take a task."""

    def now(self) -> float:
        return 0.0

    def confirm(self, keys: Iterable[str], asked: float, seconds: float) -> None:
        pass

    def guard(self, key: str, launcher: Launcher, place: str) -> None:
        pass

    def lose(self, keys: Iterable[str]) -> None:
        pass

    def is_lost(self, key: str) -> bool:
        return False

    def forget(self, key: str) -> None:
        pass

    def left(self, key: str) -> float | None:
        return None

    def is_closed(self, key: str) -> bool:
        return False


class Alone:
    """A cluster of one host.

    A queue that was moved here from PostgreSQL can hold tasks that name a remote. They are fetched and pushed as before
    the move. Other code of this package is imported only for such tasks.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.leases: Leases = UnlimitedLeases()
        self.shares_accounts = False

    @property
    def address(self) -> str:
        return ""

    def take_host(self, tell: Callable[[int], None]) -> float:
        return 0.0

    async def serve(self, followers: Mapping[str, Follower]) -> None:
        pass

    def note_write(self) -> None:
        pass

    def note_end(self) -> None:
        pass

    def may_be_elsewhere(self, task_id: str) -> bool:
        return False

    async def fetch_task(self, task: Task, folder: TaskFolder) -> None:
        if task.travels:
            from fleet.hosts.fetch import fetch_task

            await fetch_task(self._context, task, folder)

    def branch_tip(self, task: Task, branch: str, commit: str) -> str:
        from fleet.hosts.fetch import branch_tip

        return branch_tip(self._context.home, task, branch, commit)

    def describe_place(self, task: Task, repository: Repository) -> dict[str, Any]:
        return {}

    async def publish(self, live: LiveRun) -> None:
        if live.workspace is not None and live.workspace.remote:
            from fleet.hosts.push import push_branch

            await push_branch(self._context, live)

    def own_key(self, name: str) -> str:
        return name
