"""The supervisor process of a home, from start to stop."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import time
from functools import partial
from typing import TYPE_CHECKING

from fleet.actions.control.supervisor import stop
from fleet.assembly import (
    file_of,
    open_cluster,
    open_fleet,
    open_launcher,
    open_terminals,
    rescue,
    take_in_log,
    way_back,
)
from fleet.core.clock import now
from fleet.core.errors import WARNINGS, DatabaseReplaced, FleetError, HomeReplaced, QueueMoved, StoreAway, StoreFault
from fleet.core.task import MADE_HERE
from fleet.git import process
from fleet.git.name_readers import keep_name_readers
from fleet.settings import load
from fleet.settings.queue import record_queue as keep_queue
from fleet.supervisor import logs
from fleet.supervisor.agent_launchers import AgentLaunchers
from fleet.supervisor.context import Context
from fleet.supervisor.host import Said, keep_name, owner_of
from fleet.supervisor.lock import Single, holder
from fleet.supervisor.loop import Supervisor
from fleet.supervisor.start_report import StartReport
from fleet.supervisor.store_calls import StoreCalls

if TYPE_CHECKING:
    from fleet.assembly import Fleet
    from fleet.home import Home

log = logging.getLogger(__name__)

#: The pause between attempts to reach an unreachable database.
AGAIN_SECONDS = 0.5
#: Garbage collection thresholds. They are high, because almost no object here is in a reference cycle.
GARBAGE = (20_000, 20, 20)


def supervise(
    home: Home,
    *,
    said: Said | None = None,
    only_made: bool = False,
    to_terminal: bool = True,
    report: StartReport | None = None,
) -> None:
    """Supervise this home until SIGTERM or SIGINT. Agents continue without the supervisor.

    With `only_made`, claim only tasks made by `create` and similar commands; such a supervisor gives way to any other.
    Raises SupervisorRunning, QueueMoved, and FleetError if the home or its database was deleted, moved or replaced.
    """
    note = holder(home)
    if note is not None and note.get("only_made") and not only_made:
        stop(home)
    said, origins = said or Said(), MADE_HERE if only_made else None
    single, report = Single(home), report or StartReport()
    single.take(only_made=only_made, said=said.note())
    why = ""
    try:
        keep_queue(home, os.environ)
        keep_name(home, said.name)
        with _opened(home, report) as fleet, keep_name_readers(), process.with_readings():
            if fleet.store.was_moved():
                raise QueueMoved
            single.add(**file_of(fleet))
            try:
                asyncio.run(_serve(fleet, said, origins, to_terminal, single, report))
            except (DatabaseReplaced, HomeReplaced) as error:
                why = str(error)
                raise _stopped(fleet, error) from error
    finally:
        single.release(why=why)


def _stopped(fleet: Fleet, error: FleetError) -> FleetError:
    """Save the database that no path leads to any more. Return the error to report."""
    fact, hint = f"the supervisor stopped: {error}; agents live on", error.hint
    if isinstance(error, DatabaseReplaced) and take_in_log(fleet):
        fact, hint = f"{fact}; nothing of it is lost", "start it again: `fleet run start`."
    elif isinstance(error, DatabaseReplaced):
        kept = fleet.home.rescued_database(f"{now():%Y%m%dT%H%M%S.%fZ}")
        try:
            rescue(fleet, kept)
            fact, hint = f"{fact}; what it had is kept in {kept}", way_back(fleet.home)
        except (StoreFault, OSError) as fault:
            log.error("the database could not be kept: %s", fault)
    log.error("%s", fact)
    return FleetError(fact, hint=hint)


def _opened(home: Home, report: StartReport) -> Fleet:
    """Open the home's queue. Wait if the database is unreachable, because agents of this home may be waiting too."""
    told = False
    while True:
        try:
            return open_fleet(home, migrate=True)
        except StoreAway as error:
            if not told:
                log.warning("%s; waiting for it", error)
                report.waits(error)
                told = True
        time.sleep(AGAIN_SECONDS)


def make_context(fleet: Fleet, said: Said) -> Context:
    """Return what the runs of a home's supervisor share. Call it on the event loop."""
    home = fleet.home
    return Context(
        home,
        StoreCalls(fleet.store),
        AgentLaunchers(open_launcher(lasting=True), partial(open_terminals, home)),
        owner=owner_of(home, said.over(load(home, env={}, lenient=True))),
        cluster=open_cluster,
        said=said,
    )


async def _serve(
    fleet: Fleet,
    said: Said,
    origins: tuple[str, ...] | None,
    to_terminal: bool,
    single: Single,
    report: StartReport,
) -> None:
    home, context = fleet.home, make_context(fleet, said)
    logs.set_up(home, context.redactor, to_terminal=to_terminal)
    for warning in WARNINGS.values():
        log.warning("%s", warning)
    WARNINGS.clear()  # reported
    supervisor = Supervisor(context, origins=origins, report=report, check_home=single.confirm, note=single.add)
    gc.freeze()  # existing objects stay, so later collections need not examine them
    gc.set_threshold(*GARBAGE)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, supervisor.stop)
    loop.add_signal_handler(signal.SIGUSR1, lambda: supervisor.stop(stop_agents=True))
    try:
        await supervisor.serve()
    finally:
        context.close()
