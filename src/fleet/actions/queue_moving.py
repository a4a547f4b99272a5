"""Moving all tasks with their history from one kind of queue to another: copied, compared, only then switched to."""

# ruff: noqa: PTH104, PTH108, PTH110

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.rights import refuse_agents
from fleet.actions.travelling import stay
from fleet.assembly import fill_beads, open_fleet
from fleet.config.keys import HOME
from fleet.config.queue import BEADS, POSTGRES, SQLITE, chosen, kind_of
from fleet.config.save import save
from fleet.core.errors import BadInput, FleetError, IllegalMove, StoreFault
from fleet.engine.single import holder
from fleet.store import moving
from fleet.workspaces.mirror import mark_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fleet.assembly import Fleet
    from fleet.core.task import Caller
    from fleet.home import Home
    from fleet.store.moving import Contents
    from fleet.store.sql_connection import SqlConnection

SAME_FILE = {SQLITE, BEADS}


class Moved(NamedTuple):
    """What was moved, or would be."""

    source: str
    target: str
    contents: dict[str, Contents]
    aside: str = ""  # where what was at the target before is now
    done: bool = True

    @property
    def remark(self) -> str:
        """What is left to be done by whoever called."""
        if self.done and os.environ.get("FLEET_QUEUE"):
            return "FLEET_QUEUE in your environment still says where they were: unset it"
        return ""

    def view(self) -> dict[str, Any]:
        """What every face shows of it, as plain data."""
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
) -> Moved:
    """Move everything from one queue of this home to another. Called again after a kill it goes on.

    The source is sealed then, and kept as it was. Raises BadInput, IllegalMove, StoreFault, StoreAway.
    """
    refuse_agents(caller, "move the queue")
    kinds = kind_of(source), kind_of(target)
    if source == target or (kinds[0] == kinds[1] != POSTGRES):
        raise BadInput(f"the tasks are in {kinds[0]} already", hint="name another kind: sqlite, beads, postgresql://…")
    now = chosen(home, os.environ)
    if now.kind != kinds[0] or (now.kind == POSTGRES and now.url != source):
        if now.kind == kinds[1] and (now.kind != POSTGRES or now.url == target):
            raise BadInput(f"this home's tasks are in {kinds[1]} already", hint="`fleet queue` shows where they are.")
        raise BadInput(f"this home's tasks are not in {kinds[0]} but in {now.kind}", hint="move them from there.")
    if holder(home) is not None:
        raise IllegalMove("a supervisor runs here", hint="`fleet run stop --stop-agents`, then move the queue.")
    with open_fleet(home, migrate=True, queue=source) as there:
        _refuse_live(there)
        if dry_run:
            return Moved(*kinds, moving.contents(_connection(there)), done=False)
        if set(kinds) == SAME_FILE:
            return _in_place(home, there, kinds, tell)
        return _elsewhere(home, there, kinds, target, tell)


def _in_place(home: Home, there: Fleet, kinds: tuple[str, str], tell: Callable[[str, int], None]) -> Moved:
    """Between the home's file and bd, which has a copy of it: only bd has to be told, or asked a last time."""
    before = moving.contents(_connection(there))  # reading it asks bd for what is new
    if kinds[1] == BEADS:
        fill_beads(home, there, tell)
        with open_fleet(home, migrate=True, queue=BEADS) as here:
            _compare(before, moving.contents(_connection(here)), ("tasks", "edges", "labels", "comments"))
    _switch(home, kinds[1])
    return Moved(*kinds, before)


def _elsewhere(
    home: Home, there: Fleet, kinds: tuple[str, str], target: str, tell: Callable[[str, int], None]
) -> Moved:
    source = _connection(there)
    with source.writing():
        name = moving.name_of(source)
    aside = _room(home, kinds, target, name, there)
    with ExitStack() as stack:
        # A queue of bd's is told when all of it is there, so that until then it is a file like any other.
        into = SQLITE if kinds[1] == BEADS else target
        here = stack.enter_context(open_fleet(home, make=True, migrate=True, queue=into))
        stack.enter_context(source.writing())  # nobody writes there until it is sealed
        moving.copy(source, _connection(here), tell)
        found = moving.contents(source)
        _compare(found, moving.contents(_connection(here)), tuple(found))
        if kinds[1] == BEADS:
            fill_beads(home, here, tell)
        moving.finish(_connection(here), lambda: _settle_in(home, _connection(here), kinds))
        moving.seal(source)
        _switch(home, target)
    return Moved(*kinds, found, aside)


def _settle_in(home: Home, here: SqlConnection, kinds: tuple[str, str]) -> None:
    """Have what is about this machine's disk be so among other hosts too: what is trusted there, and tasks in it."""
    is_shared = tuple(kind == POSTGRES for kind in kinds)
    if is_shared[0] != is_shared[1]:
        words = tuple(f"{mark_of(home)}:" if each else "" for each in is_shared)
        moving.trust_again(here, words[0], words[1])
    if is_shared == (False, True):
        moving.bind(here, lambda requires: stay(home, requires))


def _room(home: Home, kinds: tuple[str, str], target: str, name: str, there: Fleet) -> str:
    """See that there is room at the target: nothing, a part of this very copy, or what was moved away from there."""
    stamp = there.queue.now().strftime("%Y%m%d%H%M%S")
    if kinds[1] != POSTGRES and not os.path.exists(home.database):
        return ""
    into = SQLITE if kinds[1] == BEADS else target
    with open_fleet(home, make=True, migrate=True, queue=into) as here:
        connection = _connection(here)
        is_ours = moving.state_of(connection).get("of") == name
        if is_ours or (moving.is_empty(connection) and not moving.is_sealed(connection)):
            return ""
        if not moving.is_sealed(connection):
            raise IllegalMove(
                f"there are tasks in {kinds[1]} already, which are not these",
                hint="export them (`fleet bd export`), or name an empty place.",
            )
        if kinds[1] == POSTGRES:
            moving.set_aside(connection, stamp)
            return f"schema fleet_before_{stamp}"
    return _rename(home, stamp)


def _rename(home: Home, stamp: str) -> str:
    """Put the home's file aside, with what SQLite keeps beside it."""
    aside = f"{home.database}.before-{stamp}"
    for suffix in ("-wal", "-shm", ""):
        if os.path.exists(home.database + suffix):
            os.rename(home.database + suffix, aside + suffix)
    return aside


def _switch(home: Home, target: str) -> None:
    save(home.settings, HOME, {("queue",): target})
    if os.path.exists(home.kept_queue):
        os.unlink(home.kept_queue)


def _refuse_live(fleet: Fleet) -> None:
    live = fleet.history.live()
    if live:
        raise IllegalMove(
            f"{len(live)} agents are at work, the first on {live[0].task_id}",
            hint="wait for them, or stop them: `fleet run stop --stop-agents` on every host.",
        )


def _compare(before: dict[str, Contents], after: dict[str, Contents], names: tuple[str, ...]) -> None:
    for name in names:
        if before[name] != after[name]:
            raise StoreFault(
                f"{name} did not arrive whole: {before[name].rows} rows went, {after[name].rows} came, or others",
                hint="nothing was switched; call it again, and report it if it stays so.",
            )


def _connection(fleet: Fleet) -> SqlConnection:
    found: SqlConnection | None = getattr(fleet.queue, "connection", None)
    if found is None:
        raise FleetError("this queue has no rows to move")
    return found
