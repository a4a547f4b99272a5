"""What every part of the supervisor shares: home, store, launcher, settings that follow their file."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import os
import random
import re
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TYPE_CHECKING

from fleet.config import OF_SUPERVISORS, load
from fleet.core.clock import EPOCH
from fleet.core.errors import BadInput, ClaimLost, DatabaseReplaced, FleetError, HomeReplaced, StoreAway
from fleet.core.redaction import Redactor, secret_values
from fleet.core.task import WORKTREE
from fleet.engine.budgets import BudgetLedger
from fleet.engine.hosting import Said
from fleet.engine.secrets import Secrets
from fleet.engine.trusting import settings_in
from fleet.workspaces.mirror import project_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import ParamSpec, TypeVar

    from fleet.config import Settings
    from fleet.core.task import Claim, Task
    from fleet.home import Home
    from fleet.hosts.cluster import Cluster
    from fleet.launchers.base import Launcher
    from fleet.store.base import Store

    P = ParamSpec("P")
    T = TypeVar("T")

log = logging.getLogger(__name__)

HEADLESS, TMUX = "headless", "tmux"
LOOKERS = 32
#: Who waits for a store that is away tries by itself after so long, should nobody say that it is back.
AGAIN_SECONDS = 10.0
#: How often it is looked whether a task is surely ours again.
SURE_SECONDS = 0.1
#: The claim whose run is followed in an asyncio task; none: it follows none.
_PATIENT: contextvars.ContextVar[Claim | None] = contextvars.ContextVar("patient", default=None)


class Office:
    """Shared by the supervisor and its runners; lives on the event loop."""

    def __init__(
        self,
        home: Home,
        store: Store,
        launcher: Launcher,
        *,
        owner: str,
        cluster: Callable[[Office], Cluster],
        said: Said | None = None,
        terminals: Callable[[str], Launcher] | None = None,
    ) -> None:
        self.home, self.store = home, store
        self.launcher = launcher  # of agents without a terminal, and of setup and verify commands
        self.confirm_home: Callable[[], None] = lambda: None  # raises HomeReplaced
        self._terminals = terminals  # makes the launcher of agents in tmux, by the name of its socket
        self._opened: dict[str, Launcher] = {}
        self.owner = owner
        self._said = said or Said()  # what `fleet run` was told
        self.coder = self._said.coder
        self.busy: Counter[tuple[str, str]] = Counter()  # agents by coder and account
        self.places: Counter[str] = Counter()  # agents by the directory they work in
        self.missing: dict[str, datetime] = {}  # coders whose program was not found, and when that was last tried
        self.secrets = Secrets()
        self.ledger = BudgetLedger()
        self.redactor = Redactor(secret_values(os.environ))
        # Of our own environment only what tells supervisors how to work; the rest was for the makers of tasks.
        self._env = {name: os.environ[name] for name in OF_SUPERVISORS if name in os.environ}
        # Where the settings are wrong the last good ones hold; without any, nothing is begun by mere defaults.
        self.settings: Settings = self._load(lenient=os.path.exists(home.good_settings))  # noqa: PTH110
        self._stamp = self._settings_stamp()
        self._back = asyncio.Event()  # set: the store can be reached, as far as we know
        self._back.set()
        self.why_lost: FleetError | None = None  # why nothing may be done any more for this home
        self.lost = asyncio.Event()
        # SQLite is asked by one thread, so that its waits never stop the loop.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="store")
        # Those who look at the same thing wait for each other: not in the place of others who could work.
        self._lookers = ThreadPoolExecutor(max_workers=LOOKERS, thread_name_prefix="look")
        self.cluster = cluster(self)  # the hosts that share the queue

    async def ask(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the store off the loop. Raises StoreAway when it cannot be reached, but for who is patient."""
        claim = _PATIENT.get()
        while claim is not None:
            await self._until_sure(claim)
            with contextlib.suppress(StoreAway):
                try:
                    return await self.ask_once(call, *args, **kwargs)
                except DatabaseReplaced:
                    raise asyncio.CancelledError from None  # the run goes on: the next supervisor follows it
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._back.wait(), AGAIN_SECONDS)
        return await self.ask_once(call, *args, **kwargs)

    async def ask_once(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call the store off the loop. Raises StoreAway when it cannot be reached, whoever asks."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: call(*args, **kwargs))
        except StoreAway as error:
            self._note_away(error)
            raise
        except DatabaseReplaced as error:
            self.lose(error)
            raise

    def be_patient(self, claim: Claim) -> None:
        """From here on whoever asks in this asyncio task, or one that it makes, waits for a store that is away.

        What becomes of the run of a claim is not decided by an outage: it goes on when the store is back. Nothing is
        written about it while the task may be another host's: once that is known, asking raises ClaimLost.
        """
        _PATIENT.set(claim)

    async def _until_sure(self, claim: Claim) -> None:
        """Wait until the database has confirmed that a task is still ours. Raises ClaimLost."""
        while self.cluster.leases.is_closed(claim.task.id):
            if self.cluster.leases.is_lost(claim.task.id):
                raise ClaimLost(claim.task.id, claim.epoch)
            await asyncio.sleep(SURE_SECONDS)

    async def confirm(self) -> None:
        """Look whether commands still work on this home and this database."""
        try:
            self.confirm_home()
        except HomeReplaced as error:
            self.lose(error)
        else:
            await self.ask(self.store.confirm)

    def lose(self, error: FleetError) -> None:
        """Note that the home or its database is another by now: nothing more may be done for it from here."""
        if self.why_lost is None:
            self.why_lost = error
            self.lost.set()

    @property
    def is_away(self) -> bool:
        """Whether the store could not be reached, and nobody has reached it since."""
        return not self._back.is_set()

    def note_back(self) -> None:
        """The store answers."""
        if self.is_away:
            log.info("the database answers again")
            self._back.set()

    def _note_away(self, error: StoreAway) -> None:
        if not self.is_away:
            log.warning("the database cannot be reached, and is waited for: %s", error)
            self._back.clear()

    async def look(self, call: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call something off the loop that may wait for others to have looked."""
        return await asyncio.get_running_loop().run_in_executor(self._lookers, lambda: call(*args, **kwargs))

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
        return self.store.now()

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
            self.settings = self._load()
        except FleetError as error:
            log.warning("settings not taken over, the old ones hold: %s", error)
        else:
            log.info("settings taken over")

    async def settings_for(self, task: Task) -> Settings:
        """The settings of a task's project over those of the home; a broken project file is told and passed over."""
        # Of a worktree's project the user's own checkout tells, not the copy that its agent may change.
        where = (self._project(task) if task.workspace == WORKTREE else "") or task.cwd
        if not where:
            return self.settings
        try:
            settings = await self.ask(settings_in, self.home, self.store, where, self._env)
        except BadInput as error:
            log.warning("project settings of %s not used: %s", task.id, error)
            return self.settings
        if settings.untrusted:
            keys = dict.fromkeys(re.split(": | = ", line)[0] for line in settings.untrusted)
            log.warning("project settings of %s not used, not trusted: %s", task.id, ", ".join(keys))
        return settings

    def _project(self, task: Task) -> str:
        """Where the project's settings lie: in its repository, or where they were put when the task arrived here."""
        folder = project_folder(self.home, task.remote, task.base) if task.remote else ""
        return folder if folder and os.path.isdir(folder) else task.repo  # noqa: PTH112

    def close(self) -> None:
        """Let go of the thread."""
        self._lookers.shutdown(wait=True)
        self._thread.shutdown(wait=True)

    def _load(self, *, lenient: bool = False) -> Settings:
        return self._said.over(load(self.home, env=self._env, lenient=lenient))

    def _settings_stamp(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.home.settings)  # noqa: PTH116 - paths of the home are strings
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size
