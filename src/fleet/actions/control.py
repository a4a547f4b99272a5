"""The supervisor seen from outside: whether it runs, starting it in the background, ending it, pausing it."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from fleet.actions.hosts import is_served, is_wanted
from fleet.actions.rights import refuse_agents
from fleet.actions.supervisor_start import ONLY_MADE, StartingSupervisor
from fleet.assembly import open_fleet
from fleet.core import host_words
from fleet.core.errors import (
    BadInput,
    DatabaseRefused,
    FleetError,
    ForeignDatabase,
    QueueMoved,
    SchemaMismatch,
    StoreFault,
    SupervisorRunning,
)
from fleet.engine.hosting import Said, last_name, owner_of, said_in, settings_here
from fleet.engine.single import PAUSED, holder, left_by
from fleet.wake import wake

if TYPE_CHECKING:
    from typing import Any

    from fleet.core.task import Caller
    from fleet.home import Home

START_PATIENCE = 60.0
STOP_PATIENCE = 60.0
WAITING_HINT = "it starts work when the database can be used; `fleet run stop` ends it"


def status(home: Home) -> dict[str, Any]:
    """Whether a supervisor runs, since when, and what it has to do."""
    note, settings = holder(home), settings_here(home)
    stopped = why_stopped(home) if note is None else ""
    try:
        with open_fleet(home) as fleet:
            agents, paused = len(fleet.store.runs.live(owner_of(home, settings))), fleet.store.config.all().get(PAUSED)
    except DatabaseRefused as error:
        told = f"{stopped}; {error}" if stopped else str(error)
        raise DatabaseRefused(told, hint=error.hint) from error
    return {
        "running": note is not None,
        "pid": note.get("pid") if note else None,
        "since": note.get("since") if note else None,
        "slots": settings.max_concurrent,
        "agents": agents,
        "paused": paused,
        "only_made": bool(note and note.get("only_made")),
        "stopped": stopped or None,
    }


def why_stopped(home: Home) -> str:
    """Say when and why the last supervisor stopped by itself; empty if it was stopped, or killed."""
    left = left_by(home)
    return f"the supervisor stopped at {left.get('stopped_at')}: {left['why']}" if left.get("why") else ""


def pause(home: Home, *, caller: Caller | None = None) -> None:
    """Have no new agents started until `resume`; those that run go on."""
    refuse_agents(caller, "pause the fleet")
    with open_fleet(home) as fleet:
        fleet.store.config.set(PAUSED, fleet.store.now().isoformat(timespec="seconds"))
    wake(home)


def resume(home: Home, *, caller: Caller | None = None) -> bool:
    """Have agents started again; whether that was off."""
    refuse_agents(caller, "resume the fleet")
    with open_fleet(home) as fleet:
        was_paused = PAUSED in fleet.store.config.all()
        fleet.store.config.set(PAUSED, None)
    wake(home)
    return was_paused


def start(
    home: Home, *, said: Said | None = None, only_made: bool = False, begun: StartingSupervisor | None = None
) -> int:
    """Start a supervisor in the background, or take one that was begun. Return its process id once it works.

    Raises SupervisorRunning, QueueMoved, FleetError. A database that is away is waited for by the supervisor, not here.

    With `only_made` it claims nothing but what `create` and its like made, until somebody says `fleet run`.
    """
    note = holder(home)
    if note is not None and note.get("only_made") and not only_made:
        stop(home)  # its agents go on, and we with them
    elif note is not None and (begun is None or note.get("pid") != begun.pid):
        raise _runs_already(note)
    _refuse_moved(home)
    starting = begun or StartingSupervisor(home, _flags(said, only_made=only_made))
    found = starting.wait(START_PATIENCE)
    if found.serves:
        return starting.pid
    if found.is_late:
        why = found.waits or f"its database did not answer within {START_PATIENCE:g} s"
        raise FleetError(f"the supervisor (pid {starting.pid}) waits: {why}", hint=WAITING_HINT)
    if note := holder(home):  # another start was quicker
        raise _runs_already(note)
    raise _not_started(home)


def _runs_already(note: dict[str, Any]) -> SupervisorRunning:
    return SupervisorRunning(f"a supervisor runs here already: pid {note.get('pid')}", hint="run `fleet run restart`")


def _not_started(home: Home) -> FleetError:
    """Return the error that a supervisor ended with, as it printed it."""
    with open(home.supervisor_output, encoding="utf-8", errors="replace") as out:  # noqa: PTH123
        words, _, hint = out.read(4000).strip().partition("hint:")
    words = words.strip().removeprefix("error: ") or "no reason given"
    return FleetError(f"the supervisor did not start: {words}", hint=hint.strip())


def restart(home: Home, *, said: Said) -> int:
    """End the supervisor and start it again, told what it was told unless it is told otherwise; its process id."""
    before = said_in(holder(home))
    stop(home)
    return start(home, said=before.replace(**said.note()))


def told(
    *, coder: str = "", name: str = "", labels: str | None = None, listen: str = "", slots: int | None = None
) -> Said:
    """What `fleet run` is told, the labels of its host separated by commas. Raises BadInput."""
    words = None if labels is None else tuple(part.strip() for part in labels.split(",") if part.strip())
    host_words.wanted(words or (), name)
    return Said(coder=coder, name=name, labels=words, listen=_place(listen), slots=slots)


def ensure(home: Home, begun: StartingSupervisor | None = None) -> int | None:
    """See that a supervisor runs: the process id of one that had to be started, for what `create` and its like made.

    One that was begun is waited for. None is started where other hosts share the queue and nothing waits for this one.
    """
    if begun is None and (holder(home) is not None or _is_for_others(home)):
        return None
    try:
        return start(home, said=Said(name=last_name(home)), only_made=True, begun=begun)
    except SupervisorRunning:  # somebody was quicker
        return None


def stop(home: Home, *, stop_agents: bool = False) -> bool:
    """End the supervisor and wait for it; whether there was one. Agents go on unless they are to be stopped too."""
    note = holder(home)
    if note is None or not note.get("pid"):
        return False
    os.kill(int(note["pid"]), signal.SIGUSR1 if stop_agents else signal.SIGTERM)
    deadline = time.monotonic() + STOP_PATIENCE
    while holder(home) is not None:
        if time.monotonic() > deadline:
            raise FleetError(f"the supervisor (pid {note['pid']}) does not end", hint="look at `fleet log`.")
        time.sleep(0.02)
    return True


def _refuse_moved(home: Home) -> None:
    """Raise QueueMoved, DatabaseRefused or ForeignDatabase if nothing can be claimed; the supervisor mends the rest."""
    try:
        with open_fleet(home) as fleet:
            is_moved = fleet.store.was_moved()
    except (DatabaseRefused, ForeignDatabase):
        raise
    except (SchemaMismatch, StoreFault):
        return
    if is_moved:
        raise QueueMoved


def _is_for_others(home: Home) -> bool:
    """Whether other hosts do what there is to do: then this one does not become a host unasked."""
    if not home.names_queue(os.environ):
        return False
    with open_fleet(home) as fleet:
        return fleet.store.is_shared and is_served(fleet) and not is_wanted(fleet)


def _place(listen: str) -> str:
    host, _, port = listen.rpartition(":")
    if listen and not (host and port.isascii() and port.isdigit() and int(port) < 2**16):
        raise BadInput(f"{listen!r} is no address and port", hint="say it like 10.0.0.7:7717.")
    return listen


def _flags(said: Said | None, *, only_made: bool) -> list[str]:
    """What was said, as the command line of a supervisor takes it."""
    said = said or Said()
    flags = [ONLY_MADE] if only_made else []
    flags += ["--coder", said.coder] if said.coder else []
    flags += ["--name", said.name] if said.name else []
    flags += ["--listen", said.listen] if said.listen else []
    flags += ["--labels", ",".join(said.labels)] if said.labels is not None else []
    return flags + (["--slots", str(said.slots)] if said.slots is not None else [])
