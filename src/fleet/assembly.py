"""Assembly of fleet: opening the home's queue for the actions. Only this module names products."""

from __future__ import annotations

import os
from datetime import timedelta

from fleet.core.errors import DatabaseRefused, HomeMissing, StoreFault
from fleet.core.jsontext import encode
from fleet.files import atomic_write
from fleet.store.sqlite.connection import SqliteConnection
from fleet.store.sqlite.file import FileId
from fleet.store.sqlite.store import SqliteStore
from fleet.supervisor.lock import holder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from contextlib import AbstractContextManager
    from types import TracebackType
    from typing import Self

    from fleet.agents.base import Launcher
    from fleet.agents.tmux_command import Pane
    from fleet.beads.program import Bd
    from fleet.home import Home
    from fleet.hosts.cluster import Cluster
    from fleet.settings.queue import QueueChoice
    from fleet.store.base import Store
    from fleet.supervisor.context import Context

DRIVER = "install fleet-agents with its extra postgres: `uv tool install '.[postgres]'` in a clone."


class Fleet:
    """A home with its open store, on which all actions work."""

    def __init__(self, home: Home, store: Store) -> None:
        self.home = home
        self.store = store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.store.close()


def open_fleet(home: Home, *, make: bool = False, migrate: bool = False, queue: str | None = None) -> Fleet:
    """Open the queue of a home, or `queue` if given. Raises HomeMissing, SchemaMismatch, StoreFault.

    With `make`, missing folders and a missing database are created. With `migrate`, an older database is upgraded.
    """
    if make:
        refuse_foreign(home)
        home.make()
    else:
        require(home)
    if queue or home.names_queue(os.environ):
        other = open_other(home, make=make, migrate=migrate, said=queue)
        if other is not None:
            return other
    return open_embedded(home, make=make, migrate=migrate)


def require(home: Home) -> None:
    """Raise HomeRefused, HomeMissing, DatabaseRefused or ForeignDatabase unless a home can be used."""
    refuse_foreign(home)
    try:
        home.require()
    except HomeMissing:
        refuse_new(home)
        raise


def refuse_foreign(home: Home) -> None:
    """Raise ForeignDatabase for the folder of another program, before anything is created in it."""
    if not os.path.isdir(home.tasks):  # noqa: PTH112 - otherwise it is checked once it is open
        from fleet.store.sqlite.checks import check_owner

        check_owner(home.database)


def refuse_new(home: Home) -> None:
    """Raise DatabaseRefused if a new database would replace one that is lost."""
    from fleet.home import has_runs, has_task_folders

    note, log = holder(home), f"{home.database}-wal"
    if note is not None and note.get("pid") != os.getpid():
        evidence = f"process {note.get('pid', '?')} supervises or restores this home"
    elif not os.path.exists(home.database) and os.path.exists(log) and os.path.getsize(log):  # noqa: PTH110, PTH202
        evidence = f"{log} holds changes to it"
    elif has_runs(home) and not _is_shared(home):
        evidence = f"{home.tasks} holds runs that are recorded in it"
    elif os.path.exists(home.database) and has_task_folders(home) and not _is_shared(home):  # noqa: PTH110
        evidence = f"{home.tasks} holds folders of its tasks"
    else:
        return
    state = "empty" if os.path.exists(home.database) else "missing"  # noqa: PTH110
    raise DatabaseRefused(f"the database {home.database} is {state}, and {evidence}", hint=way_back(home))


def _is_shared(home: Home) -> bool:
    """Return True if the runs of a home are recorded in PostgreSQL."""
    if not home.names_queue(os.environ):
        return False
    from fleet.settings.queue import POSTGRES, choose_queue

    return choose_queue(home, os.environ).kind == POSTGRES


def way_back(home: Home) -> str:
    """Return a hint on how to restore a home's database."""
    from fleet.home import quoted, rescued

    kept, path = rescued(home), home.database
    logs = " ".join(quoted(path + end) for end in ("-wal", "-shm"))  # SQLite would use a remaining log for the copy
    back = (
        f"run `rm -f {logs} && mv {quoted(kept[-1])} {quoted(path)}` to put the file back"
        if kept
        else "put the file back"
    )
    return f"{back}, or run `fleet restore FILE` to restore a backup"


def take_in_log(fleet: Fleet) -> bool:
    """Write a removed log into its database. Return True if no change is missing then."""
    file = _file_of(fleet)
    return file is not None and file.take_in_log()


def rescue(fleet: Fleet, path: str) -> None:
    """Copy a database whose path now leads to another file. Raises StoreFault, OSError."""
    file = _file_of(fleet)
    assert file is not None
    file.rescue(path)


def file_of(fleet: Fleet) -> dict[str, str]:
    """Return the ids of the home's own file and its log. Empty if a server holds the database."""
    file = _file_of(fleet)
    return {"database": file.id, "log": file.log} if file is not None else {}


def _file_of(fleet: Fleet) -> SqliteConnection | None:
    found = getattr(fleet.store, "connection", None)  # the store for beads has one too
    return found if isinstance(found, SqliteConnection) else None


def open_embedded(home: Home, *, make: bool = False, migrate: bool = False) -> Fleet:
    """Open the queue in the home's own file. Raises DatabaseRefused if the supervisor works on another file."""
    _refuse_other(home)
    return Fleet(home, SqliteStore(home.database, make=make, migrate=migrate, check_new=lambda: refuse_new(home)))


def _refuse_other(home: Home) -> None:
    """Raise DatabaseRefused if the supervisor has another file open, whose log SQLite would use for this file."""
    note = holder(home) or {}
    if "database" not in note or note.get("pid") == os.getpid() or not os.path.exists(home.database):  # noqa: PTH110
        return
    found = FileId(home.database)
    found.hold_log()
    what = "replaced" if note["database"] != str(found) else "separated from its log"
    if what == "replaced" or note.get("log", found.log) != found.log:
        fact = f"the database {home.database} was {what}; its supervisor (pid {note.get('pid')}) uses another file"
        raise DatabaseRefused(fact, hint="wait until the supervisor has stopped, then put the right file back")


def copy_embedded(home: Home, target: str) -> None:
    """Copy the home's own file, even while others write to it. Raises StoreFault."""
    from fleet.store.sqlite.checks import copy

    copy(home.database, target)


def check_embedded(path: str) -> None:
    """Raise StoreFault unless a file could be the home's own."""
    from fleet.store.sqlite.checks import check

    check(path)


def beads_turn(home: Home) -> AbstractContextManager[int]:
    """Keep other fleet processes from writing with bd, until the block ends."""
    from fleet.beads.folder import hold_turn

    return hold_turn(home.beads)


def open_other(home: Home, *, make: bool, migrate: bool, said: str | None) -> Fleet | None:
    """Open the queue that `said`, the environment or the settings name. Return None if it is the home's own file."""
    from fleet.settings.queue import BEADS, POSTGRES, choose_queue  # the settings are read only if a queue is named

    choice = choose_queue(home, os.environ, said=said)
    if choice.kind == POSTGRES:
        return open_shared(home, choice, make=make, migrate=migrate)
    if choice.kind == BEADS:
        return open_beads(home, make=make, migrate=migrate)
    return None


def open_beads(home: Home, *, make: bool, migrate: bool) -> Fleet:
    """Open the queue that bd keeps in this home. Raises StoreAway if bd is missing."""
    from fleet.beads.store import BeadsStore
    from fleet.settings.keys import HOME
    from fleet.settings.queue import BEADS
    from fleet.settings.save import save

    if home.is_only_beads:
        home.make()
        # otherwise the database file that is created now would count as the queue
        save(home.settings, HOME, {("queue",): BEADS})
        make = True
    _refuse_other(home)
    store = BeadsStore(home.database, home.beads, make=make, migrate=migrate, check_new=lambda: refuse_new(home))
    return Fleet(home, store)


def fill_beads(home: Home, fleet: Fleet, name: str, stamp: str, tell: Callable[[str, int], None]) -> str:
    """Make bd hold exactly the tasks of the home's own file. Creates bd's folder if missing.

    Return the path of a copy of bd's earlier tasks, or "" if none was needed. Raises IllegalMove, StoreFault,
    StoreAway.
    """
    from fleet.beads import fill, folder

    bd, kept = _bd(home), f"{home.beads}.before-{stamp}.jsonl"
    with folder.hold_turn(home.beads) as file:
        bd.held = (file,)  # a bd that outlives us keeps the lock, so that the next call waits for it
        if not os.path.isdir(home.beads):  # noqa: PTH112
            folder.make_folder(bd, fleet.store.config.all().get(fill.PREFIX) or folder.PREFIX)
        fill.fill(bd, fleet.store, name, keep=lambda text: atomic_write(kept, text.encode()), tell=tell)
    return kept if os.path.exists(kept) else ""  # noqa: PTH110


def leave_beads(home: Home, fleet: Fleet, name: str) -> None:
    """Check that the home's file has all tasks of bd, and record in bd whose they are. Raises StoreFault, StoreAway."""
    from fleet.beads.fill import compare, sign

    bd = _bd(home)
    compare(bd, fleet.store)
    sign(bd, name)


def _bd(home: Home) -> Bd:
    from fleet.beads.program import Bd, find_program

    return Bd(find_program(os.environ), home.beads)


def open_shared(home: Home, choice: QueueChoice, *, make: bool, migrate: bool) -> Fleet:
    """Open a queue in PostgreSQL. Raises StoreAway, and StoreFault if its driver is not installed."""
    try:
        from fleet.store.postgres.store import PostgresStore
    except ImportError as error:
        raise StoreFault(f"cannot use PostgreSQL: {error}", hint=DRIVER) from error
    lease = timedelta(seconds=choice.lease_seconds)
    store = PostgresStore(choice.url, make=make, migrate=migrate, lease=lease, mark=lambda: _mark(home))
    return Fleet(home, store)


def _mark(home: Home) -> str:
    from fleet.git.mirror import mark_of  # only needed for checks of trust

    return mark_of(home)


def real_bd(home: Home, *, in_turn: bool, for_settings: bool = False) -> str:
    """Return the path of the real bd, which this process will execute. Raises StoreAway.

    With `in_turn`, wait for fleet's lock for writes with bd, and hold it until this process ends. With `for_settings`,
    the call may change bd's own settings, so fleet reads those that it uses again.
    """
    from fleet.beads.folder import fingerprint, take_turn
    from fleet.beads.mirror import SETTINGS
    from fleet.beads.program import find_program

    program = find_program(os.environ)
    if in_turn:
        os.set_inheritable(take_turn(home.beads), True)
    if for_settings and os.path.exists(home.database):  # noqa: PTH110
        store = SqliteStore(home.database)
        store.config.set(SETTINGS, encode({"mark": fingerprint(home.beads)}))
        store.close()
    return program


def open_launcher(*, lasting: bool = False) -> Launcher:
    """Return the launcher for agents without a terminal. `lasting` is for callers that start many agents."""
    from fleet.agents.headless import HeadlessLauncher  # only a supervisor starts agents

    return HeadlessLauncher(lasting=lasting)


def open_cluster(context: Context) -> Cluster:
    """Return the port to the hosts that share the queue of a supervisor: `Alone` if its store has one machine."""
    if not context.store.ports.is_shared:
        from fleet.hosts.alone import Alone

        return Alone(context)
    from fleet.hosts.shared import Shared  # a single machine imports none of this

    return Shared(context)


def open_terminals(home: Home, socket: str) -> Launcher:
    """Return the launcher for agents in terminals: sessions of the tmux server with this socket."""
    from fleet.agents.tmux import TmuxLauncher
    from fleet.settings import load  # only a supervisor starts agents

    return TmuxLauncher(socket, config=load(home, env={}, lenient=True).tmux.config)


def terminal_screen(socket: str, session: str, lines: int) -> str:
    """Return the content of an agent's terminal, with `lines` lines of history. Raises FleetError if it is gone."""
    from fleet.agents.tmux_command import capture

    return capture(socket, session, lines)


def cpu_shares(folders: Collection[str]) -> dict[str, float]:
    """Return how many cores the agents in these run folders use now. Those that do not answer at once are absent."""
    from fleet.agents.shim_link import cpu_shares as ask_shims

    return ask_shims(folders)


def open_pane(socket: str, session: str) -> Pane | None:
    """Return the screen and keyboard of an agent's terminal. Return None if the agent has ended."""
    from fleet.agents.tmux_command import find_pane

    return find_pane(socket, session)


def terminal_attach(socket: str, session: str) -> list[str]:
    """Return the command that attaches to an agent's terminal."""
    from fleet.agents.tmux_command import attach_argv

    return attach_argv(socket, session)


def terminal_version() -> str:
    """Return the version that tmux reports, or "" if tmux is missing."""
    from fleet.agents.tmux_command import version

    return version()


def terminals(socket: str) -> dict[str, bool]:
    """Return the names of all terminals, each with whether its program is alive."""
    from fleet.agents.tmux_command import sessions

    return {name: not facts.dead for name, facts in sessions(socket).items()}


def close_terminal(socket: str, session: str) -> None:
    from fleet.agents.tmux_command import kill_session

    kill_session(socket, session)
