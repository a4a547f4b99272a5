"""Raw output of ended runs: kept for some days, then removed. Everything else about a run stays."""

from __future__ import annotations

import errno
import logging
import os
import stat
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from fleet.core.errors import BadInput, FleetError
from fleet.core.record import Record
from fleet.files import open_folder
from fleet.git.clean_checkout import sweep
from fleet.git.worktree import sweep_away
from fleet.home import Home
from fleet.supervisor.run.work import Work

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.core.run import Run
    from fleet.core.workspace import Workspace
    from fleet.store.base import Store
    from fleet.supervisor.context import Context


log = logging.getLogger(__name__)

#: The queue's setting that records how far raw output was removed, and when the last look was.
SWEPT = "fleet.raw_swept"
RAW = ("stdout", "stderr", "stdout.tail", "stderr.tail")
#: Runs per part: few enough that removing even large files does not block other users of the store.
PART = 50
EVERY = timedelta(days=1)


class RetentionMark(Record):
    """How far raw output was removed: up to the end of which run, and the time of the last complete look."""

    ended_at: datetime | None = None
    run_id: str = ""
    looked_at: datetime | None = None

    @property
    def place(self) -> tuple[datetime, str] | None:
        """Return where to continue in the order of `runs.ended`. Return None to start at the beginning."""
        return None if self.ended_at is None else (self.ended_at, self.run_id)

    def after(self, part: list[Run], now: datetime) -> RetentionMark:
        """Return the mark behind a part of the due runs. A part that is not full ends the look."""
        last = part[-1] if part else None
        place = {"ended_at": last.ended_at, "run_id": last.id} if last else {}
        return self.replace(**place, looked_at=now if len(part) < PART else None)

    def is_due(self, now: datetime) -> bool:
        """Return True if a look is due: after a day, or at once if more is left. Tolerates a clock that jumps back."""
        return self.looked_at is None or not timedelta(0) <= now - self.looked_at < EVERY

    def text(self) -> str:
        """Return the mark as the queue stores it."""
        words = [each.isoformat() if each else "-" for each in (self.ended_at, self.looked_at)]
        return " ".join([*words, self.run_id])


class RemovedOutput(Record):
    """Counts of what was removed, or would be."""

    runs: int = 0
    files: int = 0
    bytes: int = 0
    failed: int = 0  # files that could not be removed or must not be examined

    def plus(self, other: RemovedOutput) -> RemovedOutput:
        """Return the sum of both."""
        return RemovedOutput(**{name: value + getattr(other, name) for name, value in self.as_dict().items()})


def read_mark(text: str) -> RetentionMark:
    """Return the mark that `text` contains. An invalid text gives an empty mark, which costs time and does no harm."""
    words = text.split(" ", 2)
    try:
        ended_at, looked_at = (None if word == "-" else datetime.fromisoformat(word) for word in words[:2])
        aware = all(instant is None or instant.tzinfo is not None for instant in (ended_at, looked_at))
        return (
            RetentionMark(ended_at=ended_at, looked_at=looked_at, run_id=" ".join(words[2:]))
            if aware
            else RetentionMark()
        )
    except ValueError:
        return RetentionMark()


def due_before(now: datetime, raw_days: int) -> datetime:
    """Return the time before which the runs' raw output is due for removal."""
    return now - timedelta(days=raw_days)


def sweep_raw_output(context: Context) -> int:
    """Remove some of the due raw output. Return the number of runs.

    The function may be called often. It looks once a day. While more is due, each call removes a limited part. Call it
    on the store's thread.
    """
    store = context.store.ports
    now = context.now()
    name = context.cluster.own_key(SWEPT)  # each host removes its own files
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


def sweep_all(home: Home, store: Store, *, before: datetime, dry_run: bool = False) -> RemovedOutput:
    """Remove the raw output of all runs that ended before `before`, including files left by a sweep. Return the counts.

    With `dry_run` only count.
    """
    now = store.now()
    mark, total = RetentionMark(), RemovedOutput()
    while mark.looked_at is None:
        part = store.runs.ended(before=before, after=mark.place, limit=PART)
        total = total.plus(remove(home, part, dry_run=dry_run))
        mark = mark.after(part, now)
    if not dry_run:
        store.config.set(SWEPT, mark.text())
    return total


def remove(home: Home, runs: list[Run], *, dry_run: bool = False) -> RemovedOutput:
    """Remove the raw output of ended runs without following links. Failures are logged and counted, never raised."""
    total = RemovedOutput()
    for run in runs:
        if not run.is_live:
            total = total.plus(_remove_one(Home(run.home) if run.home else home, run, dry_run))
    return total


def _remove_one(home: Home, run: Run, dry_run: bool) -> RemovedOutput:
    found = RemovedOutput()
    try:
        home.task(run.task_id)  # refuses an id that is not a folder name
        with open_folder(home.tasks, run.task_id, "runs", str(run.number)) as folder:
            for name in RAW:
                found = found.plus(_remove_file(folder, name, run, dry_run))
    except FileNotFoundError:
        return found
    except (OSError, BadInput) as error:
        return found.plus(_left(run, error))
    return found.replace(runs=1 if found.files else 0)


def _remove_file(folder: int, name: str, run: Run, dry_run: bool) -> RemovedOutput:
    try:
        there = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not dry_run:
            os.unlink(name, dir_fd=folder)
        elif stat.S_ISDIR(there.st_mode):
            raise IsADirectoryError(errno.EISDIR, "is a directory", name)
    except FileNotFoundError:
        return RemovedOutput()
    except OSError as error:
        return _left(run, error)
    return RemovedOutput(files=1, bytes=there.st_size if stat.S_ISREG(there.st_mode) else 0)


def _left(run: Run, error: Exception) -> RemovedOutput:
    log.warning("raw output of run %s kept: %s", run.id, error)
    return RemovedOutput(failed=1)


def tidy(home: Home, spaces: Iterable[Workspace]) -> None:
    """Delete the remains of removed worktrees and checkouts, once for each repository."""
    for space in {(space.common, space.path.rpartition("/")[0]): space for space in spaces}.values():
        work = Work(home, space)
        try:
            sweep_away(work.repository, space.path)
            sweep(work.view)
        except (FleetError, OSError) as error:  # the repository may be gone, or its disk full
            log.warning("cannot tidy %s: %s", space.repo, error)
