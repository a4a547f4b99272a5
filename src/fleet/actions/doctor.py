"""Checks of a home and its machine, each with a remedy."""

from __future__ import annotations

import os
import shutil
import stat
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions import doctor_running
from fleet.actions.settings import validate
from fleet.assembly import open_fleet, require, terminal_version
from fleet.config import load, price_table
from fleet.core.errors import FleetError, HomeRefused
from fleet.engine.room import lack_of_room
from fleet.engine.situation import free_disk_mb, free_memory_mb, unusable
from fleet.home import quoted, refuse_file_system

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fleet.config import Settings
    from fleet.home import Home


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
            *_guarded("supervisor", lambda: _made(doctor_running.supervisor(home))),
            *_guarded("git", _git),
        ]
    parts: list[tuple[str, Callable[[], Iterator[Check]]]] = [
        ("database", lambda: _made(_database(home))),
        ("settings", lambda: _settings(home, cwd)),
        ("supervisor", lambda: _made(doctor_running.supervisor(home))),
        ("wake pipe", lambda: _made(doctor_running.wake_pipe(home))),
        ("machine", lambda: _machine(home)),
        ("git", _git),
        ("tmux", _tmux),
        ("containment", lambda: _made(doctor_running.containment())),
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
        yield Check(name, WRONG, f"cannot be looked at: {error}", "look at the modes of the home's files.")


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
            yield Check("home", WARNING, f"{path} is missing", "`fleet init` mends the home.")
        elif not os.path.exists(path):  # noqa: PTH110
            yield Check("home", WARNING, f"{path} is a link that leads nowhere", "mount its disk, or put it right.")
        elif os.stat(path, follow_symlinks=True).st_mode & 0o077:  # noqa: PTH116
            yield Check("home", WARNING, f"{path} can be used by others", _chmod("go-rwx", path))
    try:
        refuse_file_system(home.root)
    except HomeRefused as error:
        yield Check("file system", WRONG, str(error), error.hint)
    else:
        yield Check("file system", OK, "one that SQLite can be trusted with")


def _settings(home: Home, cwd: str) -> Iterator[Check]:
    report = validate(home, cwd=cwd, env=os.environ)
    for problem in report.problems:
        yield Check("settings", WRONG, problem.message, problem.hint or "`fleet config edit` opens the file.")
    for note in report.notes:
        yield Check("settings", WARNING, note, "`fleet config --show-origin` tells where each value comes from.")
    if not report.problems:
        yield Check("settings", OK, ", ".join(report.files) or "no file: the defaults hold")


def _machine(home: Home) -> Iterator[Check]:
    floors = load(home, env={}, lenient=True).supervisor
    if lack := lack_of_room(home.root, home.tasks, home.worktrees):
        yield Check("disk", WRONG, lack, "make room or mount it for writing; until then nothing is started.")
    for name, free, least, key in (
        ("disk", free_disk_mb(home.root), floors.min_free_disk_mb, "min_free_disk_mb"),
        ("memory", free_memory_mb(), floors.min_free_memory_mb, "min_free_memory_mb"),
    ):
        if free is None:
            yield Check(name, OK, "this system does not tell how much is free")
        elif free < least:
            remedy = f"make room, or lower supervisor.{key}; until then nothing is started."
            yield Check(name, WRONG, f"{free:.0f} MB are free, {least} are the least", remedy)
        else:
            yield Check(name, OK, f"{free:.0f} MB are free")


def _git() -> Iterator[Check]:
    found = shutil.which("git")
    if found:
        yield Check("git", OK, found)
    else:
        yield Check("git", WRONG, "there is no git on PATH", "install git.")


def _tmux() -> Iterator[Check]:
    found = terminal_version()
    if found:
        yield Check("tmux", OK, found)
    else:
        yield Check("tmux", WARNING, "there is no tmux on PATH: agents run headless", "install tmux for terminals.")


def _coders(home: Home) -> Iterator[Check]:
    settings: Settings = load(home, env={}, lenient=True)
    with open_fleet(home) as fleet:
        waiting = {name for name in fleet.store.claims.waiting_coders() if name}
    for name in sorted({settings.coder, *settings.coders, *waiting}):
        fault = unusable(name, settings, home)
        needed = name == settings.coder or name in waiting
        if not fault:
            yield Check("coder", OK, name)
        else:
            remedy = "install it, or choose another: `fleet config set coder=…`; its tasks wait until then."
            yield Check("coder", WRONG if needed else WARNING, fault, remedy)


def _prices() -> Iterator[Check]:
    today = datetime.now(UTC).date()
    is_old = (today - price_table.made_on()).days >= price_table.OLD_DAYS
    remedy = "update fleet, or set [prices]." if is_old else ""
    yield Check("prices", WARNING if is_old else OK, price_table.described(today), remedy)


def _tasks(home: Home) -> Iterator[Check]:
    with open_fleet(home) as fleet:
        yield from _made(doctor_running.tasks(fleet))


def _chmod(mode: str, path: str) -> str:
    return f"`chmod {mode} {quoted(path)}`."


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
