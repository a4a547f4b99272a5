"""What every part of the supervisor shares: home, store, launcher, settings that follow their file."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

from fleet.config import OF_SUPERVISORS, load
from fleet.core.clock import EPOCH
from fleet.core.errors import FleetError
from fleet.core.redaction import Redactor, secret_values
from fleet.core.task import WORKTREE
from fleet.engine.secrets import Secrets

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import ParamSpec, TypeVar

    from fleet.config import Settings
    from fleet.core.task import Task
    from fleet.home import Home
    from fleet.launchers.base import Launcher
    from fleet.store.base import History, Queue

    P = ParamSpec("P")
    T = TypeVar("T")

log = logging.getLogger(__name__)

HEADLESS, TMUX = "headless", "tmux"


class Office:
    """Shared by the supervisor and its runners; lives on the event loop."""

    def __init__(
        self,
        home: Home,
        queue: Queue,
        history: History,
        launcher: Launcher,
        *,
        owner: str,
        coder: str = "",
        terminals: Callable[[str], Launcher] | None = None,
    ) -> None:
        self.home, self.queue, self.history = home, queue, history
        self.launcher = launcher  # of agents without a terminal, and of setup and verify commands
        self._terminals = terminals  # makes the launcher of agents in tmux, by the name of its socket
        self._opened: dict[str, Launcher] = {}
        self.owner = owner
        self.coder = coder  # what `fleet run --coder` said
        self.busy: Counter[tuple[str, str]] = Counter()  # agents by coder and account
        self.places: Counter[str] = Counter()  # agents by the directory they work in
        self.missing: dict[str, datetime] = {}  # coders whose program was not found, and when that was last tried
        self.secrets = Secrets()
        self.redactor = Redactor(secret_values(os.environ))
        # Of our own environment only what tells supervisors how to work; the rest was for the makers of tasks.
        self._env = {name: os.environ[name] for name in OF_SUPERVISORS if name in os.environ}
        self.settings: Settings = load(home, env=self._env)
        self._stamp = self._settings_stamp()
        # SQLite is asked by one thread, so that its waits never stop the loop.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")

    async def ask(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the store off the loop."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: call(*args, **kwargs))

    def launcher_of(self, name: str) -> Launcher:
        """The launcher that a run names: "headless" or "tmux:<socket>". Raises FleetError where there is none."""
        kind, _, socket = name.partition(":")
        if kind != TMUX:
            return self.launcher
        if self._terminals is None:
            raise FleetError("this supervisor starts no agents in terminals")
        if socket not in self._opened:
            self._opened[socket] = self._terminals(socket)
        return self._opened[socket]

    def now(self) -> datetime:
        """The queue's clock."""
        return self.queue.now()

    def steady(self) -> datetime:
        """A clock that nobody sets: only its differences mean something. Watchdogs go by it."""
        return EPOCH + timedelta(seconds=time.monotonic())

    def jitter(self) -> float:
        """A number between 0 and 1: many tasks that failed together must not come back together."""
        return random.random()

    def reload(self) -> None:
        """Read the settings again if their file changed; a broken file keeps the old ones."""
        stamp = self._settings_stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self.settings = load(self.home, env=self._env)
        except FleetError as error:
            log.warning("settings not taken over, the old ones hold: %s", error)
        else:
            log.info("settings taken over")

    def settings_for(self, task: Task) -> Settings:
        """The settings of a task's project over those of the home; a broken project file is told and passed over."""
        # Of a worktree's project the user's own checkout tells, not the copy that its agent may change.
        where = (task.repo if task.workspace == WORKTREE else "") or task.cwd
        if not where:
            return self.settings
        try:
            return load(self.home, where, env=self._env)
        except FleetError as error:
            log.warning("project settings of %s not used: %s", task.id, error)
            return self.settings

    def close(self) -> None:
        """Let go of the thread."""
        self._thread.shutdown(wait=True)

    def _settings_stamp(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.home.settings)  # noqa: PTH116 - paths of the home are strings
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size
