"""Being the supervisor of a home, until told to stop."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import socket
from functools import partial
from typing import TYPE_CHECKING

from fleet.actions.control import stop
from fleet.assembly import open_fleet, open_launcher, open_terminals
from fleet.core.task import MADE_HERE
from fleet.engine import logs
from fleet.engine.office import Office
from fleet.engine.single import Single, holder
from fleet.engine.supervisor import Supervisor
from fleet.warm.keeping import keep_warm

if TYPE_CHECKING:
    from typing import Any

    from fleet.home import Home


def supervise(home: Home, *, coder: str = "", only_made: bool = False, to_terminal: bool = True) -> None:
    """Supervise this home until SIGTERM or SIGINT; agents go on without us. Raises SupervisorRunning.

    With `only_made` nothing is claimed but what `create` and its like made; such a one gives way to any other.
    """
    note = holder(home)
    if note is not None and note.get("only_made") and not only_made:
        stop(home)
    origins = MADE_HERE if only_made else None
    single = Single(home)
    single.take(only_made=only_made)
    try:
        with open_fleet(home, migrate=True) as fleet:
            asyncio.run(_serve(fleet.home, fleet, coder, origins, to_terminal))
    finally:
        single.release()


async def _serve(home: Home, fleet: Any, coder: str, origins: tuple[str, ...] | None, to_terminal: bool) -> None:
    office = Office(
        home,
        fleet.queue,
        fleet.history,
        open_launcher(),
        owner=owner_of(home),
        coder=coder,
        terminals=partial(open_terminals, home),
    )
    logs.set_up(home, office.redactor, to_terminal=to_terminal)
    supervisor = Supervisor(office, origins=origins)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, supervisor.stop)
    loop.add_signal_handler(signal.SIGUSR1, lambda: supervisor.stop(stop_agents=True))
    warm = asyncio.create_task(keep_warm(home)) if office.settings.supervisor.warm_commands else None
    try:
        await supervisor.serve()
    finally:
        if warm is not None:
            warm.cancel()
            await asyncio.gather(warm, return_exceptions=True)
        office.close()


def owner_of(home: Home) -> str:
    """A name for this supervisor that stays the same over restarts; homes that share a database have their own."""
    place = os.path.realpath(home.root)
    return f"fleet@{socket.gethostname()}-{hashlib.sha256(place.encode()).hexdigest()[:6]}"
