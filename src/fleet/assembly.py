"""Puts fleet together: opens the home's queue and hands it to the actions. The only module that names products."""

from __future__ import annotations

from fleet.store.sqlite import SqliteQueue

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from fleet.home import Home
    from fleet.launchers.base import Launcher
    from fleet.store.base import History, Queue


class Fleet:
    """A home with its queue open: what every action works on."""

    def __init__(self, home: Home, queue: Queue, open_history: Callable[[], History]) -> None:
        self.home = home
        self.queue = queue
        self._open_history = open_history
        self._history: History | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.queue.close()

    @property
    def history(self) -> History:
        """What is on record about running tasks, in the queue's own database."""
        if self._history is None:
            self._history = self._open_history()
        return self._history


def open_fleet(home: Home, *, make: bool = False, migrate: bool = False) -> Fleet:
    """Open the queue of a home. Raises HomeMissing, SchemaMismatch.

    With `make` its folders and database are made where missing; with `migrate` an older database is brought up to date.
    """
    if make:
        home.make()
    else:
        home.require()
    queue = SqliteQueue(home.database, make=make, migrate=migrate)

    def open_history() -> History:
        from fleet.store.sqlite_history import SqliteHistory  # `bd` is called hundreds of times, and has no use for it

        return SqliteHistory(queue)

    return Fleet(home, queue, open_history)


def open_launcher() -> Launcher:
    """The way agents are started here that have no terminal."""
    from fleet.launchers.headless import HeadlessLauncher  # only a supervisor starts agents

    return HeadlessLauncher()


def open_terminals(home: Home, socket: str) -> Launcher:
    """The way agents are started here that have a terminal: sessions of the tmux server with this socket."""
    from fleet.config import load  # only a supervisor starts agents
    from fleet.launchers.tmux import TmuxLauncher

    return TmuxLauncher(socket, config=load(home, env={}).tmux.config)


def terminal_screen(socket: str, session: str, lines: int) -> str:
    """What an agent's terminal shows, with so many lines from before. Raises FleetError when it is gone."""
    from fleet.launchers.tmux_command import capture

    return capture(socket, session, lines)


def terminal_attach(socket: str, session: str) -> list[str]:
    """The command that enters an agent's terminal."""
    from fleet.launchers.tmux_command import attach_argv

    return attach_argv(socket, session)


def dead_terminals(socket: str) -> list[str]:
    """The terminals whose program has ended."""
    from fleet.launchers.tmux_command import sessions

    return [name for name, facts in sessions(socket).items() if facts.dead]


def close_terminal(socket: str, session: str) -> None:
    """Take a terminal away."""
    from fleet.launchers.tmux_command import kill_session

    kill_session(socket, session)
