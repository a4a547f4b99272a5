"""Settings and counters shared by the supervisor's runs."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

from fleet.core.clock import EPOCH
from fleet.core.errors import BadInput, FleetError
from fleet.core.redaction import Redactor, secret_values
from fleet.core.task import WORKTREE
from fleet.git.mirror import project_folder
from fleet.settings import OF_SUPERVISORS, load
from fleet.supervisor.host import Said
from fleet.supervisor.run.costs import BudgetLedger
from fleet.supervisor.run.secrets import Secrets
from fleet.supervisor.trust import settings_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import ParamSpec, TypeVar

    from fleet.core.task import Task
    from fleet.home import Home
    from fleet.hosts.cluster import Cluster
    from fleet.settings import Settings
    from fleet.supervisor.agent_launchers import AgentLaunchers
    from fleet.supervisor.store_calls import StoreCalls

    P = ParamSpec("P")
    T = TypeVar("T")

log = logging.getLogger(__name__)

#: Maximum number of threads that may wait for others that compute the same result.
THREADS = 32


class Context:
    """Settings, counters and services that the supervisor and its runs share. Lives on the event loop."""

    def __init__(
        self,
        home: Home,
        store: StoreCalls,
        launchers: AgentLaunchers,
        *,
        owner: str,
        cluster: Callable[[Context], Cluster],
        said: Said | None = None,
    ) -> None:
        self.home, self.store, self.launchers, self.owner = home, store, launchers, owner
        self._said = said or Said()  # the options of `fleet run`
        self.coder = self._said.coder
        self.busy: Counter[tuple[str, str]] = Counter()  # agents by coder and account
        self.places: Counter[str] = Counter()  # agents by the directory they work in
        self.missing: dict[str, datetime] = {}  # coders whose program was not found, and the time of the last try
        self.secrets = Secrets()
        self.ledger = BudgetLedger()
        self.redactor = Redactor(secret_values(os.environ))
        # Only variables meant for supervisors. The others are for the users and agents that create tasks.
        self._env = {name: os.environ[name] for name in OF_SUPERVISORS if name in os.environ}
        # If the settings are invalid, the last good settings apply. Without good settings no agent starts with mere
        # defaults.
        self.settings: Settings = self._load(lenient=os.path.exists(home.good_settings))  # noqa: PTH110
        self._stamp = self._settings_stamp()
        # A separate pool: threads that wait for each other must not block work in the default pool.
        self._threads = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="look")
        self.cluster = cluster(self)  # the hosts that share the queue

    async def run_in_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in a thread. The function may wait for another thread that computes the same result."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: function(*args, **kwargs))

    def now(self) -> datetime:
        """Return the current time by the queue's clock."""
        return self.store.now()

    def steady(self) -> datetime:
        """Return the time of a clock that cannot be set. Only differences are meaningful. Used by watchdogs."""
        return EPOCH + timedelta(seconds=time.monotonic())

    def jitter(self) -> float:
        """Return a random number from 0 to 1, so that tasks that failed together do not retry together."""
        return random.random()

    def reload(self) -> None:
        """Read the settings again if their file has changed. If the file is invalid, the old settings stay."""
        stamp = self._settings_stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self.settings = self._load()
        except FleetError as error:
            log.warning("settings not reloaded, the old ones apply: %s", error)
        else:
            log.info("settings reloaded")

    async def settings_for(self, task: Task) -> Settings:
        """Return the settings of a task's project on top of the home's.

        An invalid or untrusted project file is only logged.
        """
        # For a worktree, the project file in the user's checkout counts, not the copy that the agent may change.
        where = (self._project(task) if task.workspace == WORKTREE else "") or task.cwd
        if not where:
            return self.settings
        try:
            settings = await self.store.call(settings_in, self.home, self.store.ports, where, self._env)
        except BadInput as error:
            log.warning("project settings of %s ignored: %s", task.id, error)
            return self.settings
        if settings.untrusted:
            keys = dict.fromkeys(re.split(": | = ", line)[0] for line in settings.untrusted)
            log.warning("project settings of %s ignored, not trusted: %s", task.id, ", ".join(keys))
        return settings

    def _project(self, task: Task) -> str:
        """Return the folder of the project's settings.

        This is the copy made when the task arrived from a remote, or the repository.
        """
        folder = project_folder(self.home, task.remote, task.base) if task.remote else ""
        return folder if folder and os.path.isdir(folder) else task.repo  # noqa: PTH112

    def close(self) -> None:
        """Close the store and end the threads after their pending calls."""
        self._threads.shutdown(wait=True)
        self.store.close()

    def _load(self, *, lenient: bool = False) -> Settings:
        return self._said.over(load(self.home, env=self._env, lenient=lenient))

    def _settings_stamp(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.home.settings)  # noqa: PTH116 - the paths of the home are strings
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size
