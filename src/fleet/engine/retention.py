"""Raw output of ended runs: kept for some days, then removed; everything else about a run stays."""

from __future__ import annotations

import errno
import logging
import os
import stat
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from fleet.core.errors import BadInput
from fleet.core.record import Record
from fleet.files import open_folder
from fleet.home import Home

if TYPE_CHECKING:
    from fleet.core.run import Run
    from fleet.engine.context import Context
    from fleet.store.base import Store

log = logging.getLogger(__name__)

#: The queue's setting that says how far raw output was removed, and when somebody last looked.
SWEPT = "fleet.raw_swept"
RAW = ("stdout", "stderr", "stdout.tail", "stderr.tail")
#: Few enough that removing even large files does not hold up whoever else waits for the store.
PART = 50
EVERY = timedelta(days=1)


class Mark(Record):
    """How far raw output was removed: up to the end of which run, and when there was last nothing more to remove."""

    ended_at: datetime | None = None
    run_id: str = ""
    looked_at: datetime | None = None

    @property
    def place(self) -> tuple[datetime, str] | None:
        """Where to go on in the order of `Store.ended`."""
        return None if self.ended_at is None else (self.ended_at, self.run_id)

    def after(self, part: list[Run], now: datetime) -> Mark:
        """The mark behind a part of the runs that are due; one that is not full was the last for today."""
        last = part[-1] if part else None
        place = {"ended_at": last.ended_at, "run_id": last.id} if last else {}
        return self.replace(**place, looked_at=now if len(part) < PART else None)

    def is_due(self, now: datetime) -> bool:
        """Whether it is time to look: once a day, and at once where more is known to wait. A clock may jump back."""
        return self.looked_at is None or not timedelta(0) <= now - self.looked_at < EVERY

    def text(self) -> str:
        """As the queue keeps it."""
        words = [each.isoformat() if each else "-" for each in (self.ended_at, self.looked_at)]
        return " ".join([*words, self.run_id])


class Removed(Record):
    """What was removed, or would be."""

    runs: int = 0
    files: int = 0
    bytes: int = 0
    failed: int = 0  # what could not be removed, or must not be looked at

    def plus(self, other: Removed) -> Removed:
        """Both together."""
        return Removed(**{name: value + getattr(other, name) for name, value in self.as_dict().items()})


def read_mark(text: str) -> Mark:
    """A mark from its text; one that makes no sense begins again, which costs time and harms nothing."""
    words = text.split(" ", 2)
    try:
        ended_at, looked_at = (None if word == "-" else datetime.fromisoformat(word) for word in words[:2])
        aware = all(instant is None or instant.tzinfo is not None for instant in (ended_at, looked_at))
        return Mark(ended_at=ended_at, looked_at=looked_at, run_id=" ".join(words[2:])) if aware else Mark()
    except ValueError:
        return Mark()


def due_before(now: datetime, raw_days: int) -> datetime:
    """Raw output of runs that ended before this moment is due to go."""
    return now - timedelta(days=raw_days)


def sweep(context: Context) -> int:
    """Remove some of the raw output that is due. Return from how many runs.

    May be called often: it looks once a day, and while more is due, each call removes a bounded part. Call it on the
    store's thread.
    """
    store = context.store.ports
    now = context.now()
    name = context.cluster.own_key(SWEPT)  # each host removes its own
    mark = read_mark(store.config.all().get(name, ""))
    if not mark.is_due(now):
        return 0
    before = due_before(now, context.settings.supervisor.raw_days)
    part = store.runs.ended(before=before, after=mark.place, limit=PART)
    removed = remove(context.home, part)
    if len(part) < PART:
        store.tails.forget(before)
    store.config.set(name, mark.after(part, now).text())
    if removed.files or removed.failed:
        log.info("raw output of %s runs removed: %s bytes; %s files left", removed.runs, removed.bytes, removed.failed)
    return removed.runs


def sweep_all(home: Home, store: Store, *, before: datetime, dry_run: bool = False) -> Removed:
    """Remove the raw output of all runs that ended before, also what a sweep had to leave; or only count it."""
    now = store.now()
    mark, total = Mark(), Removed()
    while mark.looked_at is None:
        part = store.runs.ended(before=before, after=mark.place, limit=PART)
        total = total.plus(remove(home, part, dry_run=dry_run))
        mark = mark.after(part, now)
    if not dry_run:
        store.config.set(SWEPT, mark.text())
    return total


def remove(home: Home, runs: list[Run], *, dry_run: bool = False) -> Removed:
    """Remove the raw output of ended runs, following no link. What cannot be removed is told and left, never raised."""
    total = Removed()
    for run in runs:
        if not run.is_live:
            total = total.plus(_remove_one(Home(run.home) if run.home else home, run, dry_run))
    return total


def _remove_one(home: Home, run: Run, dry_run: bool) -> Removed:
    found = Removed()
    try:
        home.task(run.task_id)  # refuses an id that is no name of a folder
        with open_folder(home.tasks, run.task_id, "runs", str(run.number)) as folder:
            for name in RAW:
                found = found.plus(_remove_file(folder, name, run, dry_run))
    except FileNotFoundError:
        return found
    except (OSError, BadInput) as error:
        return found.plus(_left(run, error))
    return found.replace(runs=1 if found.files else 0)


def _remove_file(folder: int, name: str, run: Run, dry_run: bool) -> Removed:
    try:
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not dry_run:
            os.unlink(name, dir_fd=folder)
        elif stat.S_ISDIR(there.st_mode):
            raise IsADirectoryError(errno.EISDIR, "is a directory", name)
    except FileNotFoundError:
        return Removed()
    except OSError as error:
        return _left(run, error)
    return Removed(files=1, bytes=there.st_size if stat.S_ISREG(there.st_mode) else 0)


def _left(run: Run, error: Exception) -> Removed:
    log.warning("raw output of run %s is left alone: %s", run.id, error)
    return Removed(failed=1)
