"""Calls of git, with argument lists only, a clean environment, and no hook, filter or setting of an agent."""

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

#: Longer than any call takes on a big repository and a busy machine.
PATIENCE_SECONDS = 600.0
#: Commands that read what agents wrote, and write only objects and fleet's own index.
READING = frozenset(("update-index", "hash-object", "ls-files", "diff", "diff-tree", "diff-index", "status"))
#: Environment variables passed to git: to find programs, the user's settings and their keys.
KEPT = ("PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR", "SSH_AUTH_SOCK", "LANG", "LC_ALL", "SUDO_UID")
#: These override all settings files: no hooks, no status helpers, no background work, no terminal prompts.
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


#: The priority of processes that nothing waits for.
LAST = 19


class GitFault(FleetError):
    """git refused or failed. The message quotes git."""

    def __init__(self, words: Sequence[str], status: int, said: str) -> None:
        last = said.strip().splitlines()[-1] if said.strip() else "no reason given"
        super().__init__(f"git {words[0] if words else ''} failed: {last.removeprefix('fatal: ')}")
        self.status = status
        self.said = said


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return git's environment, without our variables that select a repository, an index or settings."""
    env = {name: os.environ[name] for name in KEPT if name in os.environ}
    fixed = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_MESSAGES": "C", "GIT_NO_LAZY_FETCH": "1"}
    return env | fixed | dict(extra or {})


@functools.lru_cache(maxsize=8)
def program(path: str) -> str:
    """Return the path of git on PATH. It is cached, so that calls need not search each folder."""
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
    """Return git's output. Raises GitFault unless git exits with 0 or a code in `allow`.

    If `gently`, git runs with the lowest priority. Git keeps the descriptors in `inherit` open. A lock on one of them
    then lasts until git ends, even if fleet is killed.
    """
    try:
        done = _run(words, cwd, environment(env), stdin, seconds, gently=gently, inherit=inherit)
    except FileNotFoundError as error:
        program.cache_clear()
        missing = cwd if cwd and not os.path.isdir(cwd) else "git"  # noqa: PTH112
        hint = "install git" if missing == "git" else ""
        raise FleetError(f"{missing} does not exist", hint=hint) from error
    except subprocess.TimeoutExpired as error:
        raise FleetError(f"git {words[0]} did not end within {seconds:g} s") from error
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
    """Return the first bytes of git's output and its exit code. Git is killed if it prints more or takes too long."""
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
    """The git processes of a supervisor that can be terminated at any time without harm."""

    def __init__(self) -> None:
        self._going: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._ended = False

    def begin(self, process: subprocess.Popen[bytes]) -> None:
        """Add a process. If all were already terminated, terminate it too."""
        with self._lock:
            self._going.add(process)
            if self._ended:
                process.terminate()

    def over(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._going.discard(process)

    def end(self) -> None:
        """Terminate all processes, and each that begins later. Git then fails and removes its locks."""
        with self._lock:
            self._ended = True
            for process in self._going:
                process.terminate()


_readings: Readings | None = None


@contextlib.contextmanager
def with_readings() -> Iterator[None]:
    """Let `end_reading` terminate git processes that only read files, until the block ends."""
    global _readings
    _readings = Readings()
    try:
        yield
    finally:
        _readings = None


def end_reading() -> None:
    """Terminate all git processes that only read files, before a supervisor exits, because files may be huge."""
    if _readings is not None:
        _readings.end()


def put_last(pid: int) -> None:
    """Give a process the lowest priority."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, LAST)


def git_text(*words: str, cwd: str | None = None, env: Mapping[str, str] | None = None) -> str:
    """Return git's output as text without the last line end. Names that are not UTF-8 are preserved."""
    return os.fsdecode(git(*words, cwd=cwd, env=env)).removesuffix("\n")
