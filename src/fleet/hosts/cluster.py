"""The port to other hosts: all that the supervisor and its runs do because several machines share a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from fleet.core.run import Run
    from fleet.core.task import Task
    from fleet.core.workspace import Workspace
    from fleet.engine.folder import TaskFolder
    from fleet.launchers.base import Launcher
    from fleet.workspaces.repository import Repository


class LiveRun(Protocol):
    """A run that this host follows."""

    @property
    def run(self) -> Run:
        """The run as it was last read."""

    @property
    def folder(self) -> TaskFolder:
        """The folder of its task."""

    @property
    def workspace(self) -> Workspace | None:
        """Its worktree."""


class Follower(Protocol):
    """Follows one claimed task."""

    @property
    def live(self) -> LiveRun | None:
        """The run; none before it has started."""


class Leases(Protocol):
    """How long each claim is surely held, so that two hosts never have a live agent on one task.

    Every method is safe to call from any thread.
    """

    def now(self) -> float:
        """Return the time to pass to `confirm`. Call it before asking the database."""

    def confirm(self, keys: Iterable[str], asked: float, seconds: float) -> None:
        """Note that the database, asked at `asked`, granted the claims of these tasks for so many seconds."""

    def guard(self, key: str, launcher: Launcher, place: str) -> None:
        """Freeze the agent at `place` once the claim of its task is not surely held."""

    def lose(self, keys: Iterable[str]) -> None:
        """Note that the database gave these tasks to another host."""

    def is_lost(self, key: str) -> bool:
        """Return True if the database gave a task that was held to another host."""

    def forget(self, key: str) -> None:
        """Stop watching a task that is not held any more and has no agent."""

    def left(self, key: str) -> float | None:
        """Return for how many seconds an agent may continue. None means without a limit."""

    def is_closed(self, key: str) -> bool:
        """Return True if the claim of a task is not surely held: its agent is frozen, or will be."""


class Cluster(Protocol):
    """The hosts that share this queue."""

    leases: Leases
    #: Whether the limits of accounts count the agents of all hosts.
    shares_accounts: bool

    @property
    def address(self) -> str:
        """Where other hosts can ask this one about its runs; empty if nowhere."""

    def take_host(self, tell: Callable[[int], None]) -> float:
        """Take this host's row and write it with `tell`. Return 0, or the seconds after which to try again.

        Call it where the store is called. Raises HostTaken.
        """

    async def serve(self, followers: Mapping[str, Follower]) -> None:
        """Do what other hosts need from this one until cancelled."""

    def note_write(self) -> None:
        """Note that another process wrote to the queue: it may ask this host for something."""

    def note_end(self) -> None:
        """Note that a run has ended."""

    def may_be_elsewhere(self, task_id: str) -> bool:
        """Return True if another host may work on a task whose claim this host has lost."""

    async def fetch_task(self, task: Task, folder: TaskFolder) -> None:
        """Fetch the repository, branch and artifacts of a task that other hosts may have worked on.

        Raises NotNow, NotReady, FleetError.
        """

    def branch_tip(self, task: Task, branch: str, commit: str) -> str:
        """Return where a branch in the repository of a task is, which another task left at `commit`.

        Takes as long as the remote does. Raises FleetError, NotNow.
        """

    def describe_place(self, task: Task, repository: Repository) -> dict[str, Any]:
        """Return the notes of a new worktree that tell other hosts where it is."""

    async def publish(self, live: LiveRun) -> None:
        """Give other hosts what they need of a run that has ended, before they can take its task. Raises ClaimLost."""

    def own_key(self, name: str) -> str:
        """Return the name of a setting of the queue of which each host needs its own."""
