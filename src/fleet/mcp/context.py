"""Shared state of all tools: the home, the caller, and threads with one store connection each."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from fleet.actions.control import supervisor
from fleet.actions.tasks.rights import caller_of
from fleet.actions.workers import views as worker_views
from fleet.actions.workers import warnings
from fleet.actions.workers.create import WorkerCreator, make
from fleet.actions.workers.terms import WorkerTerms
from fleet.actions.workers.workers import Worker
from fleet.assembly import open_fleet
from fleet.core.errors import DatabaseReplaced, FleetError
from fleet.descent import is_agents
from fleet.mcp.batching import WorkBatcher

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, TypeVar

    from fleet.actions.workers.create import WorkerOrder
    from fleet.assembly import Fleet
    from fleet.core.task import Caller
    from fleet.home import Home

    T = TypeVar("T")

log = logging.getLogger(__name__)

#: Additional simultaneous calls wait. Calls that wait for an event hold no thread.
THREADS = 32


def warning(told: list[str]) -> dict[str, Any]:
    """Return warnings as part of an answer. Empty if there are none."""
    return {"warning": "; ".join(told)} if told else {}


class ToolContext:
    """The server's context. It is used on the event loop and lives as long as the server."""

    def __init__(self, home: Home, env: Mapping[str, str]) -> None:
        self.home = home
        self.env = env
        self.terms = WorkerTerms.of(env)
        self.by = env.get("BEADS_ACTOR") or env.get("USER") or "mcp"
        self.trouble = ""  # why no supervisor could be started
        self._token = env.get("FLEET_RUN_TOKEN")
        self._is_agents = is_agents(home.root)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="tool")
        self._own = threading.local()
        self._opened: list[Fleet] = []
        self._starting: asyncio.Task[None] | None = None
        self._making: WorkBatcher[WorkerOrder, dict[str, Any]] = WorkBatcher(self._make)

    async def ask(self, work: Callable[[Fleet], T]) -> T:
        """Run `work` with the store in a thread and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: work(self._fleet()))

    def caller(self, fleet: Fleet) -> Caller | None:
        """Return the run to which this server belongs, as currently stored. Return None for a person's server."""
        return caller_of(fleet, self._token)

    async def create_worker(self, repo_path: str, order: WorkerOrder) -> dict[str, Any]:
        """Create a worker. Simultaneous requests are processed together."""
        found = await self._making.add(repo_path, order)
        self.see_to_supervisor()
        return self.warned(found)

    def warned(self, found: dict[str, Any]) -> dict[str, Any]:
        """Return an answer with all warnings: its own, and that no supervisor could be started."""
        told = [each for each in (found.get("warning"), self.trouble) if each]
        return found | ({"warning": "; ".join(told)} if told else {})

    def see_to_supervisor(self) -> None:
        """Start a supervisor if none runs, without waiting.

        An agent's own server starts none, because the supervisor would end with the agent.
        """
        if self._is_agents or (self._starting is not None and not self._starting.done()):
            return
        self._starting = asyncio.create_task(self._start())

    async def close(self) -> None:
        """Close the threads and the store. Agents and supervisor continue to run."""
        if self._starting is not None:
            self._starting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._starting
        self._threads.shutdown(wait=True, cancel_futures=True)
        for fleet in self._opened:
            fleet.store.close()

    async def _start(self) -> None:
        try:
            pid = await self.ask(lambda fleet: supervisor.ensure(fleet.home))
            self.trouble = ""
        except FleetError as error:
            self.trouble = f"no supervisor could be started: {error}"
            log.warning("%s", self.trouble)
        else:
            if pid:
                log.info("supervisor started: pid %s; it runs only tasks made this way", pid)

    async def _make(self, repo_path: str, orders: list[WorkerOrder]) -> list[dict[str, Any] | Exception]:
        return await self.ask(lambda fleet: self._made(fleet, repo_path, orders))

    def _made(self, fleet: Fleet, repo_path: str, orders: list[WorkerOrder]) -> list[dict[str, Any] | Exception]:
        maker = WorkerCreator(self.by, self.caller(fleet))
        found = make(fleet, repo_path, orders, self.terms, maker)
        tasks = [each for each in found if not isinstance(each, FleetError)]
        shown = worker_views.views(fleet, [Worker(task, None, None, None) for task in tasks])
        places = {task.coder: task.repo for task in tasks}
        told = {coder: warnings.warnings(fleet, {coder}, repo) for coder, repo in places.items()}
        views = iter([view | warning(told[task.coder]) for view, task in zip(shown, tasks, strict=True)])
        return [each if isinstance(each, FleetError) else next(views) for each in found]

    def _fleet(self) -> Fleet:
        fleet: Fleet | None = getattr(self._own, "fleet", None)
        if fleet is not None:
            try:
                fleet.store.confirm()
            except DatabaseReplaced:  # reopen the database that other processes use now
                self._opened.remove(fleet)
                fleet.store.close()
                fleet = self._own.fleet = None
        if fleet is None:
            fleet = self._own.fleet = open_fleet(self.home)
            self._opened.append(fleet)
        return fleet
