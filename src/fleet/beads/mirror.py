"""Synchronization of the home's SQLite file with bd, in both directions."""

from __future__ import annotations

import logging
import os
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from fleet.beads import folder as beads_folder
from fleet.beads.program import Bd, find_program, is_fenced, objects, version_of
from fleet.beads.pull import Puller
from fleet.beads.push import BdWrites, TaskChange, TransactionChanges
from fleet.core import bd_limits
from fleet.core.errors import FleetError, StoreAway, TaskNotFound
from fleet.core.filter import Filter
from fleet.core.health import HealthCheck, HealthState
from fleet.core.jsontext import decode, encode
from fleet.core.task import Status
from fleet.store.base import SqlConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from fleet.beads.connection import BeadsConnection, WrittenItem
    from fleet.core.task import Task
    from fleet.store.base import Store
    from fleet.store.sql.tasks import SqlTasks

log = logging.getLogger(__name__)

#: Internal settings of the copy, hidden from users.
SEEN, PROGRAM, OWNER = "fleet.beads_seen", "fleet.beads_program", "fleet.beads_owner"
#: Set before a bd command that may change bd's settings. The value is the fingerprint of bd's files at that time.
SETTINGS = "fleet.beads_settings"
#: bd settings that fleet uses.
FOLLOWED = ("issue_prefix", "status.custom", "types.custom")
#: bd is read again this many seconds after our own write, because others may have written at the same time.
CHECK_AFTER = 3.0
#: If bd's files do not show changes because a server holds the data, bd is read at most this often.
UNTOLD = 3.0
#: How long fleet leaves a task alone that bd refused to give out.
LEFT_ALONE = timedelta(minutes=1)
#: bd's leases last five minutes. Each is renewed this often.
BEAT_EVERY = 100.0
#: Longest time for one renewal. Claims live in the file, and their renewal waits for this call.
LONGEST_BEAT = 20.0


class BdLeases:
    """The time of the last renewal of the lease of each task that we hold."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._beats: dict[str, float] = {}

    def renewed(self, task_id: str) -> None:
        """Record that bd has just given or renewed the lease of a task."""
        self._beats[task_id] = self._now()

    def due(self, held: Iterable[str]) -> list[str]:
        """Return those of our tasks whose lease to renew now, the longest unrenewed first.

        Each renewal starts a process, so a call returns only a few. It also returns all leases that have waited twice
        as long as they should. A task that this process never renewed was taken over from another supervisor and is
        due.
        """
        now = self._now()
        self._beats = {key: self._beats.get(key, now - BEAT_EVERY) for key in held}
        due = sorted((key for key, at in self._beats.items() if now - at >= BEAT_EVERY), key=self._beats.__getitem__)
        few = max(2, len(self._beats) // 5)
        return [key for place, key in enumerate(due) if place < few or now - self._beats[key] >= 2 * BEAT_EVERY]


class Mirror:
    """The sync between the file and bd, used as the keeper of the file's connection.

    `committed` reads the state before the open transaction.
    """

    def __init__(self, own: Store, committed: Store, file: BeadsConnection, folder: str) -> None:
        self.folder = folder
        self._own = own
        self._committed = committed
        self._file = file
        self._config = SqlConfig(file)
        self._puller = Puller(own, lambda key: file.block("remove_comment", id=key))
        self._told: dict[str, Task] = {}
        self._wrote = False
        self._foreign = False  # another process wrote to bd while this transaction was open
        self._mark = ""
        self._given: list[TaskChange] = []  # claims that bd gave us while this transaction was open
        self._leases = BdLeases()
        self._seen: dict[str, Any] = {}
        self._bd: Bd | None = None
        self._facts: dict[str, Any] = {}

    @property
    def bd(self) -> Bd:
        if self._bd is None:
            with self._file.unwatched():
                self._facts = self.known(PROGRAM)
            program = find_program(os.environ, known=str(self._facts.get("program", "")))
            self._bd = Bd(program, self.folder)
            self._learn(program)
        return self._bd

    @property
    def fenced(self) -> bool:
        """Return True if this bd protects tasks that others hold and lets claims expire."""
        assert self.bd
        return bool(self._facts.get("fenced"))

    def look(self) -> None:
        if self._is_current():
            return
        with self._file.writing():
            if self._is_current():
                return  # another process updated the file meanwhile
            mark = beads_folder.fingerprint(self.folder)
            first = not self.known(SEEN)
            self._puller.merge(self.bd.run("export", "--all"))
            asked = self.known(SETTINGS)
            if first or (asked and asked.get("mark") != mark):
                self._follow_settings()
                self._config.set(SETTINGS, None)
            self._record_mark(mark, own=False)
            self._file.block("forget_written")

    def is_behind(self) -> bool:
        self._mark, self._foreign, self._wrote = str(self._seen.get("mark", "")), False, False
        self._told, self._given = {}, []
        return not self._is_current()

    def tell(self, written: list[WrittenItem]) -> None:
        """Apply the open transaction's writes to bd. Raises BadInput, StoreFault, AlreadyClaimed, ClaimLost."""
        settings = [each.one for each in written if each.kind == "setting" and not each.one.startswith("fleet.")]
        if not settings and all(each.kind == "setting" for each in written):
            return
        changes = self._changes(written)
        if unfit := {new.id: found for old, new in changes.tasks if new and (found := bd_limits.faults(new, old))}:
            raise bd_limits.refusal(unfit)  # otherwise bd would silently store a different number
        telling = BdWrites(self.bd, changes, fenced=self.fenced)
        if telling or settings:
            self._push_all(telling, settings)
            for each in written:
                self._puller.forget(each.one)
        if self._wrote and not self._foreign:
            self._record_mark(self._mark, own=True)

    def take_back(self) -> None:
        given, self._given = self._given, []
        if given:
            changes = TransactionChanges([TaskChange(after, before) for before, after in given])
            with self.turn():
                BdWrites(self.bd, changes, fenced=self.fenced).run_anyway()

    def _push_all(self, telling: BdWrites, settings: Sequence[str]) -> None:
        """Apply all changes to bd. If one fails, undo the earlier ones as far as bd can."""
        try:
            with self.turn():
                telling.run()
                for key in settings:
                    self._push_setting(key)
        except FleetError:
            if back := telling.reverse():
                with self.turn():
                    back.run_anyway()
            raise

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold bd's write lock inside the block and detect writes by others since this transaction began."""
        self._seen, self._wrote = {}, True
        with beads_folder.hold_turn(self.folder):
            self._foreign |= beads_folder.fingerprint(self.folder) != self._mark
            yield
            self._mark = beads_folder.fingerprint(self.folder)

    def note_owner(self, owner: str) -> None:
        """Record the supervisor that claims here. Call it inside a transaction."""
        if self.known(OWNER).get("name") != owner:
            self._config.set(OWNER, encode({"name": owner}))

    def note_given(self, before: Task, after: Task) -> None:
        """Record a claim that bd confirmed, with only the fields that bd was told."""
        told = before.replace(status=after.status, assignee=after.assignee, defer_until=after.defer_until)
        self._told[before.id] = told
        self._given.append(TaskChange(before, told))
        self._leases.renewed(before.id)

    def leave_alone(self, before: Task, why: str) -> None:
        """Revert a claim that bd refused, and defer the task so that fleet does not retry at once."""
        after = before.replace(defer_until=self._own.now() + LEFT_ALONE, reason=f"bd refused the claim: {why}"[:500])
        self._own.tasks.save(after)
        self._told[before.id] = after

    def strays(self) -> list[Task]:
        """Return tasks that bd assigns to our supervisor but that have no claim here.

        A kill between the two writes leaves such tasks.
        """
        owner = self.known(OWNER).get("name")
        held = self._own.tasks.find(Filter(statuses=(Status.IN_PROGRESS,), assignee=str(owner))) if owner else []
        return [task for task in held if not task.is_supervised]

    def beat(self, owners: dict[str, str]) -> None:
        """Renew the leases in bd that are due.

        If bd is unreachable, try later: the claims themselves are in the file.
        """
        for key in self._leases.due(owners):
            try:
                with beads_folder.hold_turn(self.folder):
                    current = self._is_current()
                    self.bd.ask("heartbeat", key, actor=owners[key], seconds=LONGEST_BEAT)
                    mark = beads_folder.fingerprint(self.folder)
            except StoreAway as error:
                log.warning("cannot renew the lease of %s in bd: %s", key, error)
                return
            self._leases.renewed(key)
            if current:
                with self._file.unwatched():
                    self._record_mark(mark, own=True)

    def _changes(self, written: list[WrittenItem]) -> TransactionChanges:
        ids = dict.fromkeys(each.one for each in written if each.kind in ("task", "edge", "comment"))
        tasks = []
        for key in ids:
            before, after = (
                self._told.get(key) or _find_task(self._committed.tasks, key),
                _find_task(self._own.tasks, key),
            )
            if before is not None or after is not None:
                tasks.append(TaskChange(before, after))
        alive = {each.after.id for each in tasks if each.after is not None}
        ends = [(each.one, each.other) for each in written if each.kind == "edge"]
        now = {(each.task, each.needs): each for each in self._own.edges.find(ids)}
        was = {(each.task, each.needs): each for each in self._committed.edges.find(ids)}
        said = {each.other for each in written if each.kind == "comment"}
        gone = {each.before.id for each in tasks if each.before is not None and each.after is None}
        return TransactionChanges(
            tasks,
            linked=[now[each] for each in ends if each in now and now[each] != was.get(each)],
            unlinked=[
                was[each]
                for each in ends
                if each in was and was[each] != now.get(each) and each[0] in alive and each[1] not in gone
            ],
            comments=[each for each in self._own.comments.find(list(ids)) if each.id in said],
        )

    def _push_setting(self, key: str) -> None:
        value = self._config.all().get(key)
        words = ("config", "unset", key) if value is None else ("config", "set", key, value)
        self.bd.run(*words)

    def _follow_settings(self) -> None:
        found = objects(self.bd.run("config", "list", "--json"))
        for key in FOLLOWED:
            value = found[0].get(key) if found else None
            if isinstance(value, str) and value:
                self._config.set(key, value)

    def _is_current(self) -> bool:
        mark = beads_folder.fingerprint(self.folder)
        if not self._matches_mark(mark):
            self._seen = self.known(SEEN)
        return self._matches_mark(mark)

    def _matches_mark(self, mark: str) -> bool:
        if self._seen.get("mark") != mark:
            return False
        age = time.time() - float(self._seen.get("at", 0))
        if not mark:
            return 0 <= age < UNTOLD
        return not self._seen.get("own") or 0 <= age < CHECK_AFTER

    def _record_mark(self, mark: str, *, own: bool) -> None:
        # bd's files do not show who wrote, so our own write is followed by another check later.
        self._seen = {"mark": mark, "own": own, "at": time.time()}
        self._config.set(SEEN, encode(self._seen))

    def known(self, key: str) -> dict[str, Any]:
        try:
            found = decode(self._config.all().get(key, "{}"))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def _learn(self, program: str) -> None:
        """Record the version and abilities of this bd. fleet asks once for each installed program."""
        stamp = beads_folder.stamp(program)
        if (self._facts.get("program"), self._facts.get("stamp")) == (program, stamp):
            return
        assert self._bd is not None
        version = version_of(self._bd.run("version", "--json"))
        fenced = is_fenced(self._bd.run("update", "--help"))
        self._facts = {"program": program, "stamp": stamp, "version": version, "fenced": fenced}
        with self._file.unwatched():
            self._config.set(PROGRAM, encode(self._facts))

    def vital(self) -> HealthCheck:
        try:
            self.bd.run("list", "--limit", "1", "--json")
        except Exception as error:  # noqa: BLE001 - a health check tells of every fault and raises none
            return HealthCheck(name="bd", state=HealthState.WRONG, fact=str(error), remedy=getattr(error, "hint", ""))
        family = "claims expire" if self.fenced else "claims do not expire"
        fact = f"bd {self._facts.get('version')} at {self.bd.program}: {family}"
        return HealthCheck(name="bd", state=HealthState.OK, fact=fact)


def _find_task(tasks: SqlTasks, task_id: str) -> Task | None:
    try:
        return tasks.get(task_id)
    except TaskNotFound:
        return None
