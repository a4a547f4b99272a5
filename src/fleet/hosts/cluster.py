"""The port to other hosts: everything that the supervisor and its runs do because several machines share a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from fleet.agents.base import Launcher
    from fleet.core.run import Run
    from fleet.core.task import Task
    from fleet.core.workspace import Workspace
    from fleet.git.repository import Repository
    from fleet.supervisor.task_folder import TaskFolder


class LiveRun(Protocol):
    """A run that this host follows."""

    @property
    def run(self) -> Run:
        """Return the run as last read."""

    @property
    def folder(self) -> TaskFolder:
        """Return the folder of the run's task."""

    @property
    def workspace(self) -> Workspace | None:
        """Return the worktree of the run."""


class Follower(Protocol):
    """The part of the supervisor that follows one claimed task."""

    @property
    def live(self) -> LiveRun | None:
        """Return the run. Return None before it has started."""


class Leases(Protocol):
    """How long each claim is certain to be held, so that two hosts never run an agent on the same task.

    Every method is safe to call from any thread.
    """

    def now(self) -> float:
        """Return the time to pass to `confirm`. Call this method before asking the database."""

    def confirm(self, keys: Iterable[str], asked: float, seconds: float) -> None:
        """Note that the database, asked at `asked`, granted the claims of these tasks for `seconds`."""

    def guard(self, key: str, launcher: Launcher, place: str) -> None:
        """Freeze the agent at `place` when the claim of its task is no longer certain."""

    def lose(self, keys: Iterable[str]) -> None:
        """Note that the database gave these tasks to another host."""

    def is_lost(self, key: str) -> bool:
        """Return True if this host held a task and the database gave it to another host."""

    def forget(self, key: str) -> None:
        """Stop watching a task that this host no longer holds and that has no agent."""

    def left(self, key: str) -> float | None:
        """Return how many seconds an agent may continue. Return None if the time is not limited."""

    def is_closed(self, key: str) -> bool:
        """Return True if the claim of a task is not certain: its agent is frozen or will be soon."""


class Cluster(Protocol):
    """The hosts that share this queue."""

    leases: Leases
    #: True if the limits of accounts count the agents of all hosts.
    shares_accounts: bool

    @property
    def address(self) -> str:
        """Return the address where other hosts can ask this host about its runs. Return "" if none exists."""

    def take_host(self, tell: Callable[[int], None]) -> float:
        """Take this host's row and write it with `tell`. Return 0, or the seconds to wait before the next try.

        Call this method where the store is called. Raises HostTaken.
        """

    async def serve(self, followers: Mapping[str, Follower]) -> None:
        """Do what other hosts need from this host until cancelled."""

    def note_write(self) -> None:
        """Note that another process wrote to the queue: it may ask this host for something."""

    def note_end(self) -> None:
        """Note that a run has ended."""

    def may_be_elsewhere(self, task_id: str) -> bool:
        """Return True if another host may work on a task whose claim this host has lost."""

    async def fetch_task(self, task: Task, folder: TaskFolder) -> None:
        """Fetch the repository, branch and artifacts of a task that other hosts may have worked on.

        Raises RetryLater, NotReady, FleetError.
        """

    def branch_tip(self, task: Task, branch: str, commit: str) -> str:
        """Return the tip of a branch that another task left at `commit` in the repository of `task`.

        Waits for the remote. Raises FleetError, RetryLater.
        """

    def describe_place(self, task: Task, repository: Repository) -> dict[str, Any]:
        """Return the notes about a new worktree that tell other hosts where it is."""

    async def publish(self, live: LiveRun) -> None:
        """Publish what other hosts need of an ended run, before they can take its task. Raises ClaimLost."""

    def own_key(self, name: str) -> str:
        """Return the name under which this host keeps a per-host setting in the queue."""
