"""The versions of programs, queried concurrently. A program that does not answer in time has no known version."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

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
