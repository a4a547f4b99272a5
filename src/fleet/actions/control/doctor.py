"""Checks of a home and its machine, each with a remedy."""

from __future__ import annotations

import os
import shutil
import stat
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.control.hosts import is_served
from fleet.actions.control.outlook import PAUSE, given_back, missing_logins_here, outlook
from fleet.actions.control.settings import validate
from fleet.actions.control.supervisor import why_stopped
from fleet.actions.worktrees.repair import gone_repositories
from fleet.actions.worktrees.rows import lost_runs
from fleet.actions.worktrees.strays import fact, remedy, strays
from fleet.assembly import open_fleet, open_launcher, require, terminal_version
from fleet.core.errors import FleetError, HomeRefused
from fleet.core.filter import Filter
from fleet.core.task import Status
from fleet.git.repository import RepositoryGone
from fleet.home import quoted, refuse_file_system
from fleet.settings import load, price_table
from fleet.supervisor.admission_inputs import NOT_INSTALLED, free_disk_mb, free_memory_mb, unusable
from fleet.supervisor.give_back import waiting
from fleet.supervisor.host import default_coder
from fleet.supervisor.lock import PAUSED, holder, left_by
from fleet.supervisor.room import lack_of_room

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fleet.assembly import Fleet
    from fleet.home import Home
    from fleet.settings import Settings


Found = tuple[str, str, str, str]
START = "run `fleet run start` to start one"
SETTLING = timedelta(seconds=30)  # a newly claimed task has no run yet
SHOWN = 5
PASSES = "wait: fleet starts them on its own; `fleet tasks` shows what runs"
INSTALL = "install it, or set its path: `fleet config set coders.NAME.program=/path/to/it`"
WEAK = "weak"  # as reported by the launcher port


def supervisor(home: Home) -> Iterator[Found]:
    """Check that a supervisor runs and is not suspended."""
    note = holder(home)
    if note is None:
        if why := why_stopped(home):
            yield "supervisor", "wrong", why, f"{START}; it adopts running agents"
            return
        left = left_by(home).get("pid")  # a supervisor that exits on its own leaves no pid
        fact = f"the last one (pid {left}) ended without a reason" if left else "none runs"
        yield "supervisor", "warning", fact, f"{START}; it adopts running agents" if left else START
        return
    pid = note.get("pid")
    if pid and _is_stopped(int(pid)):
        yield "supervisor", "wrong", f"pid {pid} is suspended", f"run `kill -CONT {pid}` to resume it"
    else:
        yield "supervisor", "ok", f"pid {pid or '?'}, since {note.get('since', '?')}", ""


def wake_pipe(home: Home) -> Iterator[Found]:
    """Check that new work wakes the supervisor at once."""
    path = home.wake_pipe
    if holder(home) is None:
        yield "wake pipe", "ok", "no supervisor to wake", ""
        return
    remedy = "run `fleet run restart` to create it again; until then the supervisor polls for work"
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
    fact = "no PID namespaces here: a hostile agent can escape the subreaper and the environment mark"
    yield "containment", "warning", fact, "install util-linux (unshare) and allow user namespaces"


def tasks(fleet: Fleet) -> Iterator[Found]:
    """Check for expired claims, work without an agent, and ready tasks without a supervisor."""
    now = fleet.store.now()
    supervised = holder(fleet.home) is not None or is_served(fleet)
    held = fleet.store.tasks.find(Filter(statuses=(Status.IN_PROGRESS,)), sort="id")
    expired = [task.id for task in held if task.claim_expires_at is not None and task.claim_expires_at < now]
    runs = fleet.store.runs.live()
    live, lost = {run.task_id for run in runs}, set() if supervised else lost_runs(fleet, runs)
    idle = [task.id for task in held if task.is_supervised and task.id not in live | set(expired)]
    idle = [key for key in idle if now - fleet.store.tasks.get(key).updated_at > SETTLING]
    back = "wait: a running supervisor returns them to the queue" + ("" if supervised else f"; {START}")
    if expired:
        yield "claims", "wrong", f"expired: {_some(expired)}", back
    if idle:
        yield "claims", "wrong", f"in progress without a live run: {_some(idle)}", back
    if not expired and not idle:
        yield "claims", "ok", f"{len(held)} tasks in progress, {len(live) - len(lost)} agents running", ""
    if lost:
        gone = f"recorded as running, but their processes are gone: {_some(sorted(lost))}"
        yield "agents", "wrong", gone, START
    for stray in strays(fleet):
        yield "agents", "wrong", fact(stray), f"{remedy(fleet)}"
    for place, number in gone_repositories(fleet).items():
        error = RepositoryGone(place)
        yield "repository", "wrong", f"{error}; {number} tasks need it", error.hint
    yield from _given_back(fleet)
    ahead = outlook(fleet)
    causes = [each for each in ahead.causes if each not in given_back(fleet)]
    since = fleet.store.config.all().get(PAUSED)
    if since and PAUSE not in causes:
        causes.append(PAUSE)
    for cause in causes:
        text = f"{cause.text} since {since}" if cause == PAUSE else cause.text
        told = text if cause.is_partial else f"{ahead.ready} ready; {text}"
        yield "queue", "wrong" if cause.is_fault else "warning", told, cause.remedy or PASSES
    if not causes:
        yield "queue", "ok", f"{ahead.ready} ready", ""


def _given_back(fleet: Fleet) -> Iterator[Found]:
    """Report tasks that could not be started. A missing program is wrong; other causes end without help."""
    groups: dict[str, list[str]] = {}
    for task in waiting(fleet.store):
        groups.setdefault(task.reason, []).append(task.id)
    for reason, ids in groups.items():
        is_wrong = NOT_INSTALLED in reason
        remedy = INSTALL if is_wrong else "wait: fleet tries again automatically, and `fleet log` shows each try"
        yield "waiting", "wrong" if is_wrong else "warning", f"{_some(ids)}: {reason}", remedy


def _some(ids: list[str]) -> str:
    return ", ".join(ids[:SHOWN]) + (f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else "")


def _is_stopped(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read(4096).rpartition(") ")[2][:1] in ("T", "t")
    except OSError:
        return False


OK, WARNING, WRONG = "ok", "warning", "wrong"


class Check(NamedTuple):
    """The result of one check."""

    name: str
    state: str  # ok, warning or wrong
    fact: str
    remedy: str = ""


def examine(home: Home, *, cwd: str) -> list[Check]:
    """Run all checks. A check that fails to run is reported as wrong; its exception is not raised."""
    checks = list(_guarded("home", lambda: _home(home)))
    if any(check.state == WRONG for check in checks):
        return [
            *checks,
            *_guarded("supervisor", lambda: _made(supervisor(home))),
            *_guarded("git", _git),
        ]
    parts: list[tuple[str, Callable[[], Iterator[Check]]]] = [
        ("database", lambda: _made(_database(home))),
        ("settings", lambda: _settings(home, cwd)),
        ("supervisor", lambda: _made(supervisor(home))),
        ("wake pipe", lambda: _made(wake_pipe(home))),
        ("machine", lambda: _machine(home)),
        ("git", _git),
        ("tmux", _tmux),
        ("containment", lambda: _made(containment())),
        ("coders", lambda: _coders(home)),
        ("prices", _prices),
        ("tasks", lambda: _tasks(home)),
    ]
    return [*checks, *(check for name, part in parts for check in _guarded(name, part))]


def _guarded(name: str, part: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    try:
        yield from part()
    except FleetError as error:
        yield Check(name, WRONG, str(error), error.hint)
    except OSError as error:
        yield Check(name, WRONG, f"cannot be checked: {error}", "check the modes of the home's files")


def _made(found: Iterator[tuple[str, str, str, str]]) -> Iterator[Check]:
    return (Check(*each) for each in found)


def _home(home: Home) -> Iterator[Check]:
    require(home)
    mode = stat.S_IMODE(os.stat(home.root).st_mode)  # noqa: PTH116 - paths of the home are strings
    if mode & 0o077:
        yield Check("home", WARNING, f"{home.root} has mode {mode:04o}: others can read it", _chmod("700", home.root))
    else:
        yield Check("home", OK, home.root)
    elsewhere = [] if home.names_queue(os.environ) and not os.path.lexists(home.database) else [home.database]
    for path in (*elsewhere, home.settings, home.tasks, home.logging, home.bin):
        if not os.path.lexists(path):
            yield Check("home", WARNING, f"{path} is missing", "run `fleet init` to repair the home")
        elif not os.path.exists(path):  # noqa: PTH110
            yield Check("home", WARNING, f"{path} is a dangling link", "mount its disk or repair the link")
        elif os.stat(path, follow_symlinks=True).st_mode & 0o077:  # noqa: PTH116
            yield Check("home", WARNING, f"{path} can be used by others", _chmod("go-rwx", path))
    try:
        refuse_file_system(home.root)
    except HomeRefused as error:
        yield Check("file system", WRONG, str(error), error.hint)
    else:
        yield Check("file system", OK, "safe for SQLite")


def _settings(home: Home, cwd: str) -> Iterator[Check]:
    report = validate(home, cwd=cwd, env=os.environ)
    for problem in report.problems:
        yield Check("settings", WRONG, problem.message, problem.hint or "run `fleet config edit` to open the file")
    for note in report.notes:
        yield Check("settings", WARNING, note, "run `fleet config --show-origin` to see where each value comes from")
    if not report.problems:
        yield Check("settings", OK, ", ".join(report.files) or "no file: the defaults apply")


def _machine(home: Home) -> Iterator[Check]:
    floors = load(home, env={}, lenient=True).supervisor
    if lack := lack_of_room(home.root, home.tasks, home.worktrees):
        yield Check("disk", WRONG, lack, "free some space or mount it for writing; fleet starts nothing until then")
    for name, free, least, key in (
        ("disk", free_disk_mb(home.root), floors.min_free_disk_mb, "min_free_disk_mb"),
        ("memory", free_memory_mb(), floors.min_free_memory_mb, "min_free_memory_mb"),
    ):
        if free is None:
            yield Check(name, OK, "this system does not report free space")
        elif free < least:
            remedy = f"free some space or lower supervisor.{key}; fleet starts nothing until then"
            yield Check(name, WRONG, f"{free:.0f} MB are free; the minimum is {least}", remedy)
        else:
            yield Check(name, OK, f"{free:.0f} MB are free")


def _git() -> Iterator[Check]:
    found = shutil.which("git")
    if found:
        yield Check("git", OK, found)
    else:
        yield Check("git", WRONG, "git is not on PATH", "install git")


def _tmux() -> Iterator[Check]:
    found = terminal_version()
    if found:
        yield Check("tmux", OK, found)
    else:
        yield Check("tmux", WARNING, "tmux is not on PATH: agents run headless", "install tmux for terminals")


def _coders(home: Home) -> Iterator[Check]:
    settings: Settings = load(home, env={}, lenient=True)
    with open_fleet(home) as fleet:
        waiting = {name for name in fleet.store.claims.waiting_coders() if name}
        default = default_coder(home, settings)
        no_login = {
            name: missing_logins_here(fleet, settings, [name])
            for name in {default, *waiting}
            if not unusable(name, settings, home)
        }
    for name in sorted({default, *settings.coders, *waiting}):
        fault = unusable(name, settings, home)
        needed = name == default or name in waiting
        if not fault:
            yield Check("coder", OK, name)
        else:
            remedy = "install it, or choose another coder with `fleet config set coder=…`; its tasks wait until then"
            yield Check("coder", WRONG if needed else WARNING, fault, remedy)
        for each in no_login.get(name, ()):
            yield Check("login", WRONG, each.why, f"log in with {name}; its tasks cannot run until then")


def _prices() -> Iterator[Check]:
    today = datetime.now(UTC).date()
    is_old = (today - price_table.read_table_date()).days >= price_table.OLD_DAYS
    remedy = "update fleet, or set [prices]" if is_old else ""
    yield Check("prices", WARNING if is_old else OK, price_table.describe_table(today), remedy)


def _tasks(home: Home) -> Iterator[Check]:
    with open_fleet(home) as fleet:
        yield from _made(tasks(fleet))


def _chmod(mode: str, path: str) -> str:
    return f"run `chmod {mode} {quoted(path)}`"


def _database(home: Home) -> Iterator[tuple[str, str, str, str]]:
    """Check that the database opens with a known schema, and report its own health."""
    try:
        fleet = open_fleet(home)
    except FleetError as error:
        yield "schema", "wrong", str(error), error.hint
        return
    with fleet:
        yield "schema", "ok", "the one this fleet knows", ""
        for vital in fleet.store.health():
            yield vital.name, vital.state, vital.fact, vital.remedy
