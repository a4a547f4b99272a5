"""Checks of what runs: the supervisor, its wake pipe, containment, claims and runs."""

from __future__ import annotations

import os
import stat
from datetime import timedelta
from typing import TYPE_CHECKING

from fleet.actions.control import why_stopped
from fleet.actions.hosts import is_served
from fleet.actions.repositories import gone_repositories
from fleet.actions.strays import fact, remedy, strays
from fleet.assembly import open_launcher
from fleet.core.errors import QueueMoved
from fleet.core.filter import READY, Filter
from fleet.core.task import Status
from fleet.engine.giving_back import waiting
from fleet.engine.installed import NOT_INSTALLED
from fleet.engine.single import PAUSED, holder, left_by
from fleet.workspaces.repository import RepositoryGone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fleet.assembly import Fleet
    from fleet.home import Home

Found = tuple[str, str, str, str]
START = "`fleet run start` starts one."
SETTLING = timedelta(seconds=30)  # a newly claimed task has no run yet
SHOWN = 5
INSTALL = "install it, or name its place: `fleet config set coders.NAME.program=/path/to/it`."
WEAK = "weak"  # as reported by the launcher port


def supervisor(home: Home) -> Iterator[Found]:
    """Check that a supervisor runs and is not suspended."""
    note = holder(home)
    if note is None:
        if why := why_stopped(home):
            yield "supervisor", "wrong", why, f"{START} Agents it left go on and are adopted."
            return
        left = left_by(home).get("pid")  # a supervisor that exits on its own leaves no pid
        fact = f"the last one (pid {left}) ended without a word" if left else "none runs"
        yield "supervisor", "warning", fact, f"{START} Agents it left go on and are adopted." if left else START
        return
    pid = note.get("pid")
    if pid and _is_stopped(int(pid)):
        yield "supervisor", "wrong", f"pid {pid} is stopped and does nothing", f"`kill -CONT {pid}` lets it go on."
    else:
        yield "supervisor", "ok", f"pid {pid or '?'}, since {note.get('since', '?')}", ""


def wake_pipe(home: Home) -> Iterator[Found]:
    """Check that new work wakes the supervisor at once."""
    path = home.wake_pipe
    if holder(home) is None:
        yield "wake pipe", "ok", "nobody to wake", ""
        return
    remedy = "`fleet run restart` makes it anew; until then work is found by polling."
    try:
        if not stat.S_ISFIFO(os.lstat(path).st_mode):
            yield "wake pipe", "wrong", f"{path} is not a pipe", remedy
            return
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except OSError as error:
        yield "wake pipe", "wrong", f"{path}: {error.strerror}", remedy
    else:
        yield "wake pipe", "ok", "the supervisor listens", ""


def containment() -> Iterator[Found]:
    """Report how well agents are contained. The launcher judges this, so that a run reports the same."""
    found = open_launcher().containment
    if found != WEAK:
        yield "containment", "ok", found, ""
        return
    fact = "no PID namespaces here: agents are held by subreaper and environment mark, which a hostile one can escape"
    yield "containment", "warning", fact, "install util-linux (unshare) and allow user namespaces."


def tasks(fleet: Fleet) -> Iterator[Found]:
    """Check for expired claims, work without an agent, and ready tasks without a supervisor."""
    now = fleet.store.now()
    supervised = holder(fleet.home) is not None or is_served(fleet)
    held = fleet.store.tasks.find(Filter(statuses=(Status.IN_PROGRESS,)), sort="id")
    expired = [task.id for task in held if task.claim_expires_at is not None and task.claim_expires_at < now]
    live = {run.task_id for run in fleet.store.runs.live()}
    idle = [task.id for task in held if task.is_supervised and task.id not in live | set(expired)]
    idle = [key for key in idle if now - fleet.store.tasks.get(key).updated_at > SETTLING]
    back = "a running supervisor gives them back by itself" + ("" if supervised else f"; {START}")
    if expired:
        yield "claims", "wrong", f"expired: {_some(expired)}", back
    if idle:
        yield "claims", "wrong", f"in progress without a live run: {_some(idle)}", back
    if not expired and not idle:
        yield "claims", "ok", f"{len(held)} tasks in progress, {len(live)} agents at work", ""
    for stray in strays(fleet):
        yield "agents", "wrong", fact(stray), f"{remedy(fleet)}."
    for place, number in gone_repositories(fleet).items():
        error = RepositoryGone(place)
        yield "repository", "wrong", f"{error}; {number} tasks need it", error.hint
    yield from _given_back(fleet)
    ready = fleet.store.tasks.count(READY)[""]
    if fleet.store.was_moved():
        moved = QueueMoved()
        yield "queue", "wrong", str(moved), moved.hint
    elif ready and not supervised:
        yield "queue", "wrong", f"{ready} ready, and no supervisor runs", START
    elif PAUSED in fleet.store.config.all():
        yield "queue", "warning", f"paused since {fleet.store.config.all()[PAUSED]}", "`fleet resume` goes on."
    else:
        yield "queue", "ok", f"{ready} ready", ""


def _given_back(fleet: Fleet) -> Iterator[Found]:
    """Report tasks that could not be started. A missing program is wrong; other causes end without help."""
    groups: dict[str, list[str]] = {}
    for task in waiting(fleet.store):
        groups.setdefault(task.reason, []).append(task.id)
    for reason, ids in groups.items():
        is_wrong = NOT_INSTALLED in reason
        remedy = INSTALL if is_wrong else "fleet tries again by itself; `fleet log` shows each try."
        yield "waiting", "wrong" if is_wrong else "warning", f"{_some(ids)}: {reason}", remedy


def _some(ids: list[str]) -> str:
    return ", ".join(ids[:SHOWN]) + (f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else "")


def _is_stopped(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read(4096).rpartition(") ")[2][:1] in ("T", "t")
    except OSError:
        return False
