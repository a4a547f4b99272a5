"""Calling git: argument lists only, an environment of our own, and no hook, filter or setting that an agent wrote."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import threading
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.files import find_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Longer than any call may take on a big repository and a busy machine.
PATIENCE_SECONDS = 600.0
#: Commands that read what agents wrote, and write nothing but objects and an index of fleet's own.
READING = frozenset(("update-index", "hash-object", "ls-files", "diff", "diff-tree", "diff-index", "status"))
#: What git reads of our environment: how to find programs, the user's settings and their keys.
KEPT = ("PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR", "SSH_AUTH_SOCK", "LANG", "LC_ALL", "SUDO_UID")
#: Beats whatever the files say: no hooks, no helper for status, no work in the background, no question at a terminal.
SAFE = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.untrackedCache=false"),
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false", "-c", "protocol.ext.allow=never"),
    *(
        "-c",
        "submodule.recurse=false",
        "-c",
        "diff.external=",
        "-c",
        "core.pager=cat",
        "-c",
        "advice.detachedHead=false",
    ),
)


#: The priority of what nobody waits for.
LAST = 19


class GitFault(FleetError):
    """git refused or failed; the message has its own words."""

    def __init__(self, words: Sequence[str], status: int, said: str) -> None:
        last = said.strip().splitlines()[-1] if said.strip() else "no reason given"
        super().__init__(f"git {words[0] if words else ''} failed: {last.removeprefix('fatal: ')}")
        self.status = status
        self.said = said


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Git's environment: nothing of ours that says which repository, index or settings to use."""
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    fixed = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_MESSAGES": "C", "GIT_NO_LAZY_FETCH": "1"}
    return env | fixed | dict(extra or {})


@functools.lru_cache(maxsize=8)
def program(path: str) -> str:
    """Where git is, by what PATH says: found once, instead of tried in each folder at every call."""
    return find_program("git", path) or "git"


def git(
    *words: str,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    allow: Sequence[int] = (),
    seconds: float = PATIENCE_SECONDS,
    gently: bool = False,
    inherit: Sequence[int] = (),
) -> bytes:
    """What git prints. Raises GitFault unless it ended with 0 or one of the codes to `allow`.

    `gently`: nobody waits for it, so that everybody else goes first. `inherit`: descriptors that git keeps open, so
    that a lock on one of them lasts until git has ended, even if fleet is killed.
    """
    try:
        done = _run(words, cwd, environment(env), stdin, seconds, gently=gently, inherit=inherit)
    except FileNotFoundError as error:
        program.cache_clear()
        missing = cwd if cwd and not os.path.isdir(cwd) else "git"  # noqa: PTH112
        hint = "install git." if missing == "git" else ""
        raise FleetError(f"{missing} is not there", hint=hint) from error
    except subprocess.TimeoutExpired as error:
        raise FleetError(f"git {words[0]} did not end in {seconds:g} s") from error
    if done.returncode and done.returncode not in allow:
        raise GitFault(words, done.returncode, done.stderr.decode(errors="replace"))
    return done.stdout


def _run(
    words: Sequence[str],
    cwd: str | None,
    env: Mapping[str, str],
    stdin: bytes,
    seconds: float,
    *,
    gently: bool,
    inherit: Sequence[int],
) -> subprocess.CompletedProcess[bytes]:
    readings = _readings
    with subprocess.Popen(
        [program(env.get("PATH", os.defpath)), *SAFE, *words],
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=inherit,
    ) as process:
        try:
            if readings is not None and words[0] in READING:
                readings.begin(process)
            if gently:
                put_last(process.pid)
            out, said = process.communicate(stdin or None, timeout=seconds)
        except BaseException:
            process.kill()
            raise
        finally:
            if readings is not None:
                readings.over(process)
        return subprocess.CompletedProcess(words, process.wait(), out, said)


def git_start(
    most: int, *words: str, env: Mapping[str, str], seconds: float = PATIENCE_SECONDS, gently: bool = False
) -> tuple[bytes, int]:
    """Return the first bytes that git prints, and its exit code; git is ended if it prints more or takes too long."""
    full = environment(env)
    with subprocess.Popen(
        [program(full.get("PATH", os.defpath)), *SAFE, *words],
        env=full,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as running:
        assert running.stdout is not None
        if gently:
            put_last(running.pid)
        alarm = threading.Timer(seconds, running.kill)
        alarm.start()
        try:
            told = running.stdout.read(most)
            if len(told) == most:
                running.kill()
            return told, running.wait()
        finally:
            alarm.cancel()


class Readings:
    """The git processes of a supervisor that can be ended at any moment without harm."""

    def __init__(self) -> None:
        self._going: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._ended = False

    def begin(self, process: subprocess.Popen[bytes]) -> None:
        """Remember a process; end it where all were ended."""
        with self._lock:
            self._going.add(process)
            if self._ended:
                process.terminate()

    def over(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._going.discard(process)

    def end(self) -> None:
        """End all, and each that begins later: git then fails, and removes the locks it held."""
        with self._lock:
            self._ended = True
            for process in self._going:
                process.terminate()


_readings: Readings | None = None


@contextlib.contextmanager
def with_readings() -> Iterator[None]:
    """While this lasts, `end_reading` ends what only reads files."""
    global _readings
    _readings = Readings()
    try:
        yield
    finally:
        _readings = None


def end_reading() -> None:
    """End every git process that only reads files, for a supervisor that is about to exit: files may be huge."""
    if _readings is not None:
        _readings.end()


def put_last(pid: int) -> None:
    """Nobody waits for a process: have everybody else go first."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, LAST)


def git_text(*words: str, cwd: str | None = None, env: Mapping[str, str] | None = None) -> str:
    """The same as text without the last line's end; names that are not UTF-8 stay what they are."""
    return os.fsdecode(git(*words, cwd=cwd, env=env)).removesuffix("\n")
