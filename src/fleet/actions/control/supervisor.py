"""Control of the supervisor process: status, start, stop, restart and pause."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from fleet.actions.control.hosts import is_served, is_wanted
from fleet.actions.tasks.rights import refuse_agents
from fleet.assembly import open_fleet, refuse_foreign
from fleet.core import host as host_words
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
from fleet.supervisor.host import Said, last_name, owner_of, said_in, settings_here
from fleet.supervisor.lock import PAUSED, holder, left_by
from fleet.supervisor.start_report import await_start
from fleet.wake import wake

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from fleet.core.task import Caller
    from fleet.home import Home
    from fleet.supervisor.start_report import StartResult


#: The option of a supervisor that claims only tasks made by `create` and similar commands.
ONLY_MADE = "--only-made"


class StartingSupervisor:
    """A supervisor that is starting. It reports through a pipe once its database has answered."""

    def __init__(self, home: Home, flags: Sequence[str]) -> None:
        argv = [sys.executable, "-P", "-m", "fleet", "run", "foreground", "--quiet", *flags]
        out = os.open(home.supervisor_output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._told, telling = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*argv, "--report", str(telling)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                pass_fds=(telling,),
                cwd=home.root,
                env=os.environ | {"FLEET_HOME": home.root},
            )
        except BaseException:
            os.close(self._told)
            raise
        finally:
            os.close(out)
            os.close(telling)
        self.is_awaited = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self, seconds: float) -> StartResult:
        """Wait until the supervisor serves or has ended, or until `seconds` have passed."""
        self.is_awaited = True
        try:
            return await_start(self._told, seconds)
        finally:
            os.close(self._told)

    def cancel(self) -> None:
        """Stop the supervisor, unless `wait` was called: then it has work."""
        if not self.is_awaited:
            os.close(self._told)
            self._process.send_signal(signal.SIGTERM)


def start_early(home: Home) -> StartingSupervisor | None:
    """Start the supervisor that `create` will need, if the home has none and keeps its queue in its own file.

    The caller calls `control.ensure` once tasks exist, or cancels it.
    """
    home.check()
    refuse_foreign(home)
    is_plain = home.exists and not home.names_queue(os.environ) and not os.path.exists(home.kept_name)  # noqa: PTH110
    return StartingSupervisor(home, [ONLY_MADE]) if is_plain and holder(home) is None else None


START_PATIENCE = 60.0
STOP_PATIENCE = 60.0
WAITING_HINT = "wait until the database is available, or run `fleet run stop`"


def status(home: Home) -> dict[str, Any]:
    """Return whether a supervisor runs, since when, and its workload. Raises DatabaseRefused."""
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
    """Return when and why the last supervisor stopped on its own. Return "" if it was stopped or killed."""
    left = left_by(home)
    return f"the supervisor stopped at {left.get('stopped_at')}: {left['why']}" if left.get("why") else ""


def pause(home: Home, *, caller: Caller | None = None) -> None:
    """Start no new agents until `resume`. Running agents continue."""
    refuse_agents(caller, "pause the fleet")
    with open_fleet(home) as fleet:
        fleet.store.config.set(PAUSED, fleet.store.now().isoformat(timespec="seconds"))
    wake(home)


def resume(home: Home, *, caller: Caller | None = None) -> bool:
    """Allow new agents again. Return True if the fleet was paused."""
    refuse_agents(caller, "resume the fleet")
    with open_fleet(home) as fleet:
        was_paused = PAUSED in fleet.store.config.all()
        fleet.store.config.set(PAUSED, None)
    wake(home)
    return was_paused


def start(
    home: Home, *, said: Said | None = None, only_made: bool = False, begun: StartingSupervisor | None = None
) -> int:
    """Start a supervisor in the background, or use the one in `begun`. Return its process ID once it is ready.

    Raises SupervisorRunning, QueueMoved and FleetError. If the database is unreachable, the supervisor waits for it.
    With `only_made`, it claims only tasks of `create` and similar commands, until a user runs `fleet run`.
    """
    note = holder(home)
    if note is not None and note.get("only_made") and not only_made:
        stop(home)  # agents continue, and the new supervisor adopts them
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
    if note := holder(home):  # another start was faster
        raise _runs_already(note)
    raise _not_started(home)


def _runs_already(note: dict[str, Any]) -> SupervisorRunning:
    return SupervisorRunning(
        f"a supervisor is already running here: pid {note.get('pid')}", hint="run `fleet run restart`"
    )


def _not_started(home: Home) -> FleetError:
    """Return the error that the supervisor printed before it exited."""
    with open(home.supervisor_output, encoding="utf-8", errors="replace") as out:  # noqa: PTH123
        words, _, hint = out.read(4000).strip().partition("hint:")
    words = words.strip().removeprefix("error: ") or "no reason given"
    return FleetError(f"the supervisor did not start: {words}", hint=hint.strip())


def restart(home: Home, *, said: Said) -> int:
    """Restart the supervisor with its previous options, overridden by `said`. Return the new process ID."""
    before = said_in(holder(home))
    stop(home)
    return start(home, said=before.replace(**said.note()))


def told(
    *, coder: str = "", name: str = "", labels: str | None = None, listen: str = "", slots: int | None = None
) -> Said:
    """Return the options of `fleet run`. Labels are separated by commas. Raises BadInput."""
    words = None if labels is None else tuple(part.strip() for part in labels.split(",") if part.strip())
    host_words.make_requirements(words or (), name)
    return Said(coder=coder, name=name, labels=words, listen=_place(listen), slots=slots)


def ensure(home: Home, begun: StartingSupervisor | None = None) -> int | None:
    """Ensure that a supervisor runs. Return the process ID if one was started for `create` or a similar command.

    Waits for the supervisor in `begun`, if given. Starts none if other hosts share the queue and no task waits for this
    host.
    """
    if begun is None and (holder(home) is not None or _is_for_others(home)):
        return None
    try:
        return start(home, said=Said(name=last_name(home)), only_made=True, begun=begun)
    except SupervisorRunning:  # another process was faster
        return None


def stop(home: Home, *, stop_agents: bool = False) -> bool:
    """Stop the supervisor and wait for its exit. Return False if none was running.

    Agents continue unless `stop_agents` is True.
    """
    note = holder(home)
    if note is None or not note.get("pid"):
        return False
    os.kill(int(note["pid"]), signal.SIGUSR1 if stop_agents else signal.SIGTERM)
    deadline = time.monotonic() + STOP_PATIENCE
    while holder(home) is not None:
        if time.monotonic() > deadline:
            raise FleetError(f"the supervisor (pid {note['pid']}) does not stop", hint="run `fleet log` to see why")
        time.sleep(0.02)
    return True


def _refuse_moved(home: Home) -> None:
    """Raise QueueMoved, DatabaseRefused or ForeignDatabase if no task can be claimed.

    The supervisor repairs other faults.
    """
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
    """Return True if other hosts serve the queue and no task waits for this host. Such a host must not join unasked."""
    if not home.names_queue(os.environ):
        return False
    with open_fleet(home) as fleet:
        return fleet.store.is_shared and is_served(fleet) and not is_wanted(fleet)


def _place(listen: str) -> str:
    host, _, port = listen.rpartition(":")
    if listen and not (host and port.isascii() and port.isdigit() and int(port) < 2**16):
        raise BadInput(f"{listen!r} is not ADDRESS:PORT", hint="pass an address and a port, such as 10.0.0.7:7717")
    return listen


def _flags(said: Said | None, *, only_made: bool) -> list[str]:
    """Return the options as command-line arguments of a supervisor."""
    said = said or Said()
    flags = [ONLY_MADE] if only_made else []
    flags += ["--coder", said.coder] if said.coder else []
    flags += ["--name", said.name] if said.name else []
    flags += ["--listen", said.listen] if said.listen else []
    flags += ["--labels", ",".join(said.labels)] if said.labels is not None else []
    return flags + (["--slots", str(said.slots)] if said.slots is not None else [])
