"""The facts that admission needs: running agents, waiting tasks, and the machine's free resources."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from typing import TYPE_CHECKING

from fleet import coders
from fleet.core.admission import ORIGINS, POOLED, USUAL, Ramp, Situation
from fleet.core.errors import FleetError
from fleet.core.task import HEADLESS, INTERACTIVE
from fleet.files import find_program
from fleet.settings import program_for
from fleet.supervisor.host import offers, pin_here
from fleet.supervisor.lock import holder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fleet.coders.base import Coder
    from fleet.core.admission import QueueSnapshot
    from fleet.home import Home
    from fleet.settings import Settings
    from fleet.supervisor.context import Context


NOT_INSTALLED = "is not installed"
PATH_OF_SUPERVISOR = "supervisor's PATH"
#: Seconds after which another task checks whether a missing program exists.
NOT_INSTALLED_SECONDS = 60.0


def program_of(coder: Coder, settings: Settings) -> str:
    """Return the program that starts a coder. Return "" if the coder needs none."""
    return program_for(settings, coder.name) or coder.program


def not_installed(name: str, settings: Settings, *, home: Home | None = None) -> str:
    """Return why a coder's program cannot be started from here. Return "" if it can.

    With `home` the PATH of the home's running supervisor is searched, if one runs.
    """
    program = program_of(coders.load(name, settings), settings)
    path = supervisor_path(home) if home is not None else None
    if not program or find_program(program, path):
        return ""
    return f"no program {program!r} is on the {'PATH' if path is None else PATH_OF_SUPERVISOR}"


def supervisor_path(home: Home) -> str | None:
    """Return the PATH of the home's supervisor; None if no supervisor runs."""
    path = (holder(home) or {}).get("path")
    return path if isinstance(path, str) else None


class InputsReader:
    """What a single look cannot show: when agents were started, and how often each mode looked."""

    def __init__(self, context: Context, origins: tuple[str, ...] | None) -> None:
        self._context = context
        self._origins = origins
        self._ramp = Ramp()
        self._turns: Counter[str] = Counter()  # looks by mode, as looks for different modes alternate

    def started(self, count: int) -> None:
        """Note that `count` agents are being started now."""
        interval = self._context.settings.supervisor.start_interval_seconds
        self._ramp = self._ramp.started(count, self._context.now(), interval)

    def ended(self) -> None:
        """Note that an agent ended. Its replacement does not increase the number of agents and needs no ramp."""
        self.started(-1)

    def look(self, seen: QueueSnapshot, closed: Sequence[str] = ()) -> Situation:
        """Return the facts that are equal for agents of all modes."""
        context = self._context
        default = context.coder or context.settings.coder
        return Situation(
            now=context.now(),
            default_coder=default,
            coders={name: self._unusable(name) for name in _named(seen, default)},
            accounts=seen.accounts,
            free_disk_mb=free_disk_mb(context.home.root, context.home.tasks),
            free_memory_mb=free_memory_mb(),
            paused=seen.setting is not None,
            closed=closed,
            offers=offers(context.settings, pin_here(context.home)),
            shared=context.cluster.shares_accounts,
        )

    def narrow(
        self, found: Situation, running: Iterable[tuple[str, str]], mode: str, at_once: int = USUAL
    ) -> Situation:
        """Return the facts narrowed to one mode. `running` names coder and mode of each live agent."""
        self._turns[mode] += 1
        return found.replace(
            running=Counter(running),
            busy=dict(self._context.busy),
            ramp=self._ramp,
            origins=self._made(mode),
            not_origins=ORIGINS if mode == HEADLESS and self._origins is None else None,
            at_once=at_once,
            turn=self._turns[mode],
        )

    def _made(self, mode: str) -> tuple[str, ...] | None:
        """Return the origins of the tasks to look for. Return None for any origin."""
        if mode == POOLED:
            return ORIGINS
        if mode == INTERACTIVE or self._origins is None:
            return self._origins
        return tuple(each for each in self._origins if each not in ORIGINS)

    def _unusable(self, name: str) -> str:
        """Return why a coder cannot be used, or "".

        A program missing in the supervisor's PATH may be in a task's PATH. So a task tries it from time to time.
        """
        context = self._context
        tried = context.missing.get(name)
        is_new = tried is None or (context.steady() - tried).total_seconds() >= NOT_INSTALLED_SECONDS
        if is_new:
            return unknown(name, context.settings)
        return unusable(name, context.settings, context.home)


def _named(seen: QueueSnapshot, default: str) -> list[str]:
    """Return the coders of waiting tasks. A task without a coder means the default."""
    return sorted({name or default for name in seen.coders})


def unusable(name: str, settings: Settings, home: Home | None = None) -> str:
    """Return why a coder cannot be used here, by the supervisor of `home` if one runs. Return "" if it can."""
    return unknown(name, settings) or not_installed(name, settings, home=home)


def unknown(name: str, settings: Settings) -> str:
    """Return why a coder is unknown. Return "" if it is known."""
    try:
        coders.load(name, settings)
    except FleetError as error:
        return str(error)
    return ""


def free_disk_mb(*paths: str) -> float | None:
    """Return the least free space among the disks of these paths in MiB."""
    left = []
    for path in paths:
        with contextlib.suppress(OSError):
            found = os.statvfs(path)
            left.append(found.f_bavail * found.f_frsize / 2**20)
    return min(left, default=None)


def free_memory_mb() -> float | None:
    """Return the memory available to programs in MiB. Return None if the system does not report it."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) / 1024
    except OSError:
        pass
    return None
