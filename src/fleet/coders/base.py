"""The port Coder: how one command line product is started, and what its output means."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Protocol

from fleet.core.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.core.event import Event
    from fleet.core.task import Task


class Order(Record):
    """What a coder is asked to do."""

    task: Task
    prompt: str
    model: str | None = None
    session: str = ""  # go on in this session, where the coder can
    permissions: str = "user"  # or skip


class Command(Record):
    """How a coder's program is started. Secrets stay out of argv; the prompt goes in by stdin."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}  # noqa: RUF012
    stdin: str = ""
    keep_stdin: bool = False  # more may be written while it runs


class Coder(Protocol):
    """One command line product. Everything here is pure."""

    name: str
    #: How to ask it to stop, in order; what is left after that is killed.
    stop_steps: tuple[signal.Signals, ...]

    def command(self, order: Order) -> Command:
        """The program, its environment beyond the agent's own, and what it reads."""

    def parse(self, line: str) -> Iterable[Event]:
        """Any number of events from one line of output. A line it does not understand gives none."""
