"""Coders: their version, login, capabilities and initial context size."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from fleet import coders as registry
from fleet.core.errors import FleetError
from fleet.settings import coder_settings, list_described_coders, load, permissions_for, program_for
from fleet.supervisor.logins import logins
from fleet.supervisor.run.briefing import did_resume

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from fleet.assembly import Fleet
    from fleet.coders.base import Coder
    from fleet.core.run import Run
    from fleet.settings import Settings
    from fleet.supervisor.logins import Login


ANSWER_SECONDS = 10.0
MOST_OUTPUT = 4096  # bytes
LONGEST_VERSION = 40
AT_ONCE = 8
GLANCE_SECONDS = 0.05
#: The variables that a program may need to print its version. They hold no key, token or proxy.
PLAIN = ("PATH", "HOME", "LANG", "LC_*", "TMPDIR", "XDG_*", "LD_LIBRARY_PATH")
_NUMBER = re.compile(r"\d+(?:\.\d+)+[\w.+-]*", re.ASCII)


def versions(
    paths: Iterable[str], *, env: Mapping[str, str], tell: Callable[[int, int], None] = lambda done, all: None
) -> dict[str, str]:
    """Return the version of each program by path, or "" if it is unknown. Call `tell` with the progress."""
    wanted = sorted(set(paths))
    plain = {name: value for name, value in env.items() if any(fnmatchcase(name, glob) for glob in PLAIN)}
    found: dict[str, str] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        asked = {pool.submit(_version, path, plain): path for path in wanted}
        for answer in as_completed(asked):
            found[asked[answer]] = answer.result()
            tell(len(found), len(wanted))
    return found


def read_version(text: str) -> str:
    """Return the version in a program's output: the first number with a dot, else the first line.

    Its length is limited.
    """
    number = _NUMBER.search(text)
    found = number[0] if number else (text.strip().splitlines() or [""])[0].strip()
    return found[:LONGEST_VERSION]


def _version(path: str, env: dict[str, str]) -> str:
    deadline = time.monotonic() + ANSWER_SECONDS
    quiet = subprocess.DEVNULL
    try:
        program = subprocess.Popen(
            [path, "--version"],
            stdin=quiet,
            stdout=subprocess.PIPE,
            stderr=quiet,
            env=env,
            cwd="/",
            start_new_session=True,
        )
    except (OSError, ValueError):
        return ""
    text = _said(program, deadline)
    try:
        status = program.wait(max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        with suppress(OSError):
            os.killpg(program.pid, signal.SIGKILL)
        program.wait()
        return ""
    return "" if status else read_version(text.decode("utf-8", "replace"))


def _said(program: subprocess.Popen[bytes], deadline: float) -> bytes:
    """Return the output until the program ends, prints too much or takes too long.

    Processes that it leaves are not awaited.
    """
    assert program.stdout is not None
    said, ended = b"", False
    with program.stdout as pipe:
        while not ended and len(said) < MOST_OUTPUT and time.monotonic() < deadline:
            is_over = program.poll() is not None
            ready, _, _ = select.select([pipe], [], [], GLANCE_SECONDS)
            chunk = os.read(pipe.fileno(), MOST_OUTPUT) if ready else b""
            said += chunk
            ended = not chunk if ready else is_over
    return said[:MOST_OUTPUT]


#: Limits of the search for a coder's last run: the number of pages read, and the runs in each.
MOST_PARTS, PART = 3, 200
MOST_SIGNS = 6  # login signs shown in a warning


class CoderStatus(NamedTuple):
    """The state of one coder on this machine."""

    name: str
    coder: Coder | None
    fault: str  # why the coder could not be loaded
    is_default: bool
    is_wanted: bool  # by the settings, an account or a waiting task
    program: str  # empty: no separate program is needed
    path: str
    version: str
    logins: tuple[Login, ...]  # those of its accounts, or the user's own if it has no accounts
    permissions: str
    wants_skip: bool  # requested by the settings, whether or not a person agreed
    first_request: int | None  # context tokens at the first request of its last run
    running: int

    @property
    def is_installed(self) -> bool:
        return self.coder is not None and (not self.program or bool(self.path))

    @property
    def warnings(self) -> list[str]:
        """Return the detectable problems that would keep its agents from working."""
        return list(_warnings(self))

    def view(self) -> dict[str, Any]:
        logins = [
            {"account": each.account or None, "needed": bool(each.signs), "seen": each.seen or None}
            for each in self.logins
        ]
        return {
            "name": self.name,
            "default": self.is_default,
            "error": self.fault or None,
            "installed": self.is_installed,
            "program": self.program or None,
            "path": self.path or None,
            "version": self.version or None,
            "logins": logins,
            "permissions": self.permissions,
            "supports": _supports(self.coder) if self.coder else None,
            "first_request_tokens": self.first_request,
            "running": self.running,
            "warnings": self.warnings,
        }


def coders(
    fleet: Fleet, *, env: Mapping[str, str], tell: Callable[[int, int], None] = lambda done, all: None
) -> list[CoderStatus]:
    """Return every built-in coder, every coder that the settings describe, and every other coder in use.

    Runs all programs at once to read their versions. `tell` receives how many have answered, and the total.
    """
    settings = load(fleet.home, env={}, lenient=True)
    with fleet.store.snapshot():
        known, live = fleet.store.accounts.all(), fleet.store.runs.live()
        wanted = {settings.coder, *fleet.store.claims.waiting_coders(), *(each.coder for each in settings.accounts)} - {
            ""
        }
        used = wanted | {each.coder for each in known} | {run.coder for run in live}
        names = [*registry.CODERS, *sorted({*list_described_coders(settings), *used} - {*registry.CODERS, ""})]
        first = {name: first_request(fleet, name) for name in names if name in used}
    running = Counter(run.coder for run in live)
    rows = [
        _standing(settings, name, env)._replace(
            is_wanted=name in wanted, first_request=first.get(name), running=running[name]
        )
        for name in names
    ]
    told = versions((row.path for row in rows if row.path), env=env, tell=tell)
    return [row._replace(version=told.get(row.path, "")) for row in rows]


def first_request(fleet: Fleet, coder: str) -> int | None:
    """Return the context tokens at the first request of a coder's last run.

    Return None if they are unknown or not found quickly.

    Accounts record when a run last started. The search reads only runs that ended later, and a bounded number of them.
    """
    used = [each.used_at for each in fleet.store.accounts.all() if each.coder == coder and each.used_at]
    found = [run for run in fleet.store.runs.live() if run.coder == coder and _first(run)]
    if used and not found:
        after = (max(used), "")
        for _ in range(MOST_PARTS):
            part = fleet.store.runs.ended(before=fleet.store.now(), after=after, limit=PART)
            found += [run for run in part if run.coder == coder and _first(run)]
            if found or len(part) < PART:
                break
            after = (part[-1].ended_at or after[0], part[-1].id)
    return _first(max(found, key=lambda run: run.started_at)) if found else None


def _standing(settings: Settings, name: str, env: Mapping[str, str]) -> CoderStatus:
    said = coder_settings(settings, name).permissions or settings.permissions
    row = CoderStatus(
        name=name,
        coder=None,
        fault="",
        is_default=name == settings.coder,
        is_wanted=False,
        program="",
        path="",
        version="",
        logins=(),
        permissions=permissions_for(settings, name),
        wants_skip=said == "skip",
        first_request=None,
        running=0,
    )
    try:
        coder = registry.load(name, settings)
    except FleetError as error:
        return row._replace(fault=str(error))
    program = (program_for(settings, name) or coder.program) if coder.program else ""
    path = shutil.which(program, path=env.get("PATH")) if program else None
    return row._replace(
        coder=coder,
        program=program,
        path=os.path.abspath(path) if path else "",  # noqa: PTH100 - paths of programs are strings
        logins=tuple(logins(settings, coder, env)),
    )


def _first(run: Run) -> int | None:
    """Return the first request's tokens. Resumed sessions start with the previous context, so they return None."""
    tokens = run.notes.get("first")
    return tokens if isinstance(tokens, int) and not did_resume(run) else None


def _supports(coder: Coder) -> dict[str, Any]:
    tells = ("result", "tokens", "cost", "context")
    return {
        "resume": coder.resumes or None,
        "messages": coder.steering,
        **{f"tells_{what}": getattr(coder, f"tells_{what}") for what in tells},
    }


def _warnings(row: CoderStatus) -> Iterator[str]:
    if row.fault:
        yield row.fault
    if not row.is_installed:
        if row.is_wanted and row.program:
            yield f"it is not installed: no program {row.program!r} is on the PATH"
        return
    if row.wants_skip and row.permissions != "skip":
        yield "permissions = skip holds only once you agree to it: `fleet init --permissions skip`"
    for each in row.logins:
        if each.is_missing:
            who = f"account {each.account!r}" if each.account else row.name
            signs = ", ".join(each.signs[:MOST_SIGNS]) + (" …" if len(each.signs) > MOST_SIGNS else "")
            yield f"{who} is not logged in: none of {signs} exists"
