"""Moving all tasks and their history between kinds of queue: copy, compare, and only then switch."""

# ruff: noqa: PTH104, PTH108, PTH110

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.control.hosts import HostState, hosts
from fleet.actions.tasks.placement import stay
from fleet.actions.tasks.rights import refuse_agents
from fleet.assembly import fill_beads, leave_beads, open_fleet
from fleet.core.bd_limits import faults, refusal
from fleet.core.errors import BadInput, HomeMissing, IllegalMove, SchemaMismatch, StoreFault, SupervisorRunning
from fleet.core.filter import Filter
from fleet.git.mirror import mark_of
from fleet.settings.keys import HOME
from fleet.settings.queue import BEADS, POSTGRES, SQLITE, choose_queue, kind_of
from fleet.settings.save import save
from fleet.store import transfer
from fleet.supervisor.lock import Single

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from fleet.assembly import Fleet
    from fleet.core.task import Caller
    from fleet.home import Home
    from fleet.store.sql_connection import SqlConnection
    from fleet.store.transfer import Contents

SAME_FILE = {SQLITE, BEADS}


class QueueMoveReport(NamedTuple):
    """A report of what was moved or, in a dry run, would be moved."""

    source: str
    target: str
    contents: dict[str, Contents]
    aside: str = ""  # the new place of what was at the target before
    done: bool = True

    @property
    def remark(self) -> str:
        """Return what the caller still has to do. Return "" if nothing."""
        if self.done and os.environ.get("FLEET_QUEUE"):
            return "FLEET_QUEUE in your environment still names the old queue: unset it"
        return ""

    def view(self) -> dict[str, Any]:
        return {
            "from": self.source,
            "to": self.target,
            "moved": self.done,
            "tables": {name: found.rows for name, found in self.contents.items()},
            "sums": {name: found.sum for name, found in self.contents.items()},
            "set_aside": self.aside or None,
        }


def migrate(
    home: Home, source: str, target: str, *, tell: Callable[[str, int], None], dry_run: bool, caller: Caller | None
) -> QueueMoveReport:
    """Move everything from one queue of this home to another. Repeat the call after a kill to continue.

    The source is sealed and otherwise stays unchanged. Tasks that the target cannot hold are reported before anything
    is written there. Raises BadInput, IllegalMove, StoreFault, StoreAway.
    """
    refuse_agents(caller, "move the queue")
    kinds = kind_of(source), kind_of(target)
    _refuse_places(home, source, target, kinds)
    with _unsupervised(home):
        if not dry_run and set(kinds) != SAME_FILE and _is_gone(home, kinds, source):
            return _go_over(home, kinds, source, target)
        with open_fleet(home, migrate=True, queue=source) as there:
            _refuse_busy(there)
            if kinds[1] == BEADS:
                _refuse_unfit(there)
            if dry_run:
                return QueueMoveReport(*kinds, transfer.contents(there.store.connection), done=False)
            if set(kinds) == SAME_FILE:
                return _in_place(home, there, kinds, tell)
            return _elsewhere(home, there, kinds, target, tell)


def _refuse_places(home: Home, source: str, target: str, kinds: tuple[str, str]) -> None:
    if source == target or (kinds[0] == kinds[1] != POSTGRES):
        raise BadInput(f"the tasks are already in {kinds[0]}", hint="pass another kind: sqlite, beads, postgresql://…")
    now = choose_queue(home, os.environ)
    if now.kind != kinds[0] or (now.kind == POSTGRES and now.url != source):
        if now.kind == kinds[1] and (now.kind != POSTGRES or now.url == target):
            raise BadInput(
                f"this home's tasks are already in {kinds[1]}", hint="run `fleet queue` to show where they are"
            )
        raise BadInput(
            f"this home's tasks are not in {kinds[0]} but in {now.kind}", hint="pass the current kind as the source"
        )


@contextmanager
def _unsupervised(home: Home) -> Iterator[None]:
    """Prevent a supervisor from starting in this home inside the context. Raises IllegalMove if one runs."""
    single = Single(home)
    try:
        single.take()
    except SupervisorRunning as error:
        hint = "run `fleet run stop --stop-agents`, then move the queue"
        raise IllegalMove("cannot move the queue: a supervisor is running", hint=hint) from error
    try:
        yield
    finally:
        single.release()


def _in_place(home: Home, there: Fleet, kinds: tuple[str, str], tell: Callable[[str, int], None]) -> QueueMoveReport:
    """Move between the home's file and bd. bd has a copy of the file, so only fill bd, or read it a last time."""
    source, aside = there.store.connection, ""
    with source.writing():
        name = transfer.name_of(source)  # commit first: bd learns this name, and a kill must not undo it
    with source.writing():  # a bd queue reads bd's changes here
        _refuse_busy(there)
        before = transfer.contents(source)
        if kinds[1] == BEADS:
            aside = fill_beads(home, there, name, _stamp(there), tell)
        else:
            leave_beads(home, there, name)
        _switch(home, kinds[1])
    return QueueMoveReport(*kinds, before, aside)


def _elsewhere(
    home: Home, there: Fleet, kinds: tuple[str, str], target: str, tell: Callable[[str, int], None]
) -> QueueMoveReport:
    source = there.store.connection
    with source.writing():
        name = transfer.name_of(source)
    # bd is filled only after the copy is complete. Until then, the target is a plain SQLite file.
    into = SQLITE if kinds[1] == BEADS else target
    aside = [_room(home, kinds, into, name, there)]
    with open_fleet(home, make=True, migrate=True, queue=into) as here:
        with source.writing():  # prevents writes until the source is sealed
            transfer.allow_long_transaction(source)
            _refuse_busy(there)
            if kinds[0] == BEADS:
                leave_beads(home, there, name)
            found = transfer.copy(source, here.store.connection, tell)
            _compare(found, transfer.contents(here.store.connection), tuple(found))
            if kinds[1] == BEADS:
                aside.append(fill_beads(home, here, name, _stamp(there), tell))
            transfer.finish(here.store.connection, lambda: _settle_in(home, here.store.connection, kinds))
            transfer.seal(source)
        transfer.release_copy(here.store.connection)
    _switch(home, target)
    return QueueMoveReport(*kinds, found, ", ".join(filter(None, aside)))


def _is_gone(home: Home, kinds: tuple[str, str], source: str) -> bool:
    """Return True if the source is sealed, but a kill came before the home's settings were switched."""
    # Open only the file: a sealed queue takes no new changes from bd.
    with open_fleet(home, migrate=True, queue=SQLITE if kinds[0] == BEADS else source) as there:
        return transfer.is_sealed(there.store.connection)


def _go_over(home: Home, kinds: tuple[str, str], source: str, target: str) -> QueueMoveReport:
    """Switch the home to a target that already holds everything. Raises IllegalMove if that is another target."""
    with open_fleet(home, queue=SQLITE if kinds[0] == BEADS else source) as there:
        name, found = transfer.name_of(there.store.connection), transfer.contents(there.store.connection)
    if kinds[1] != POSTGRES and not os.path.exists(home.database):
        raise _moved_elsewhere(kinds[0])  # another home moved it
    try:
        with open_fleet(home, queue=SQLITE if kinds[1] == BEADS else target) as here:
            if transfer.is_named(here.store.connection, name) and not transfer.is_sealed(here.store.connection):
                transfer.release_copy(here.store.connection)
                _switch(home, target)
                return QueueMoveReport(*kinds, found)
    except (HomeMissing, SchemaMismatch):
        pass
    raise _moved_elsewhere(kinds[0])


def _moved_elsewhere(kind: str) -> IllegalMove:
    hint = "pass the new place as the target, or run `fleet init --home --queue …` to use another queue"
    return IllegalMove(f"the tasks of {kind} were already moved elsewhere", hint=hint)


def _settle_in(home: Home, here: SqlConnection, kinds: tuple[str, str]) -> None:
    """Adapt machine-specific records, trust and the tasks' hosts, to whether other hosts share the new queue."""
    is_shared = tuple(kind == POSTGRES for kind in kinds)
    if is_shared[0] != is_shared[1]:
        words = tuple(f"{mark_of(home)}:" if each else "" for each in is_shared)
        transfer.copy_trust(here, words[0], words[1])
    if is_shared == (False, True):
        transfer.bind(here, lambda requires: stay(home, requires))


def _room(home: Home, kinds: tuple[str, str], into: str, name: str, there: Fleet) -> str:
    """Check that the target is empty or holds part of this copy.

    Set aside an earlier queue that was moved away from it. Return the new place of what was set aside, or "" if nothing
    was. Raises IllegalMove if the target holds other tasks.
    """
    if kinds[1] != POSTGRES and not os.path.exists(home.database):
        return ""
    stamp = _stamp(there)
    with open_fleet(home, make=True, migrate=True, queue=into) as here:
        connection = here.store.connection
        if not transfer.is_sealed(connection):
            if transfer.state_of(connection).get("of") == name or transfer.is_empty(connection):
                return ""
            raise IllegalMove(
                f"{kinds[1]} already contains other tasks",
                hint="export them with `fleet bd export`, or pass an empty place",
            )
        if kinds[1] == POSTGRES:
            transfer.set_aside(connection, stamp)
            return f"schema fleet_before_{stamp}"
    return _rename(home, stamp)


def _stamp(there: Fleet) -> str:
    return there.store.now().strftime("%Y%m%d%H%M%S")


def _rename(home: Home, stamp: str) -> str:
    """Rename the home's file and SQLite's files beside it. Return the new path."""
    aside = home.set_aside("fleet.db", stamp)
    for suffix in ("-wal", "-shm", ""):
        if os.path.exists(home.database + suffix):
            os.rename(home.database + suffix, aside + suffix)
    return aside


def _switch(home: Home, target: str) -> None:
    save(home.settings, HOME, {("queue",): target})
    if os.path.exists(home.kept_queue):
        os.unlink(home.kept_queue)


def _refuse_busy(fleet: Fleet) -> None:
    """Raise IllegalMove if agents work or other hosts use the queue. Called again under the queue's lock."""
    live = fleet.store.runs.live()
    if live:
        raise IllegalMove(
            f"{len(live)} agents are running, the first on {live[0].task_id}",
            hint="wait for them, or run `fleet run stop --stop-agents` on every host",
        )
    others = [each.host.name for each in hosts(fleet) if not each.is_this and each.state != HostState.GONE]
    if others:
        raise IllegalMove(
            f"other hosts have this queue open: {', '.join(others[:5])}",
            hint="run `fleet run stop --stop-agents` there; a dead host disappears when its claims expire",
        )


def _refuse_unfit(fleet: Fleet) -> None:
    """Raise BadInput with all tasks that bd cannot hold."""
    if unfit := {task.id: found for task in fleet.store.tasks.find(Filter(), sort="id") if (found := faults(task))}:
        raise refusal(unfit)


def _compare(before: dict[str, Contents], after: dict[str, Contents], names: tuple[str, ...]) -> None:
    for name in names:
        if before[name] != after[name]:
            raise StoreFault(
                f"{name} was not copied completely: {before[name].rows} rows sent, {after[name].rows} received",
                hint="run the command again, and report the error if it stays; nothing was switched",
            )
