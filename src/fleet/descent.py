"""The runs from which this process descends, according to the system, because an environment may have been cleared.

Coders start programs with few variables: codex gives an MCP server neither token nor home, and gemini removes variables
with names like those of secrets. But each process of an agent has the shim of its run above it. The shim is the first
process of the PID namespace, or the process that adopts orphans. A shim has its folder in its command line, which any
user may read.
"""

# Runs on each `bd` call, so nothing heavy is imported.
# ruff: noqa: PTH121
from __future__ import annotations

import os

#: Maximum number of ancestors that are checked, more than anyone nests.
HIGHEST = 256
#: The index of the code in a shim's command line (agents/detached.py), and the beginning of that code.
CODE, SHIM = 4, b"import sys; sys.path.append(sys.argv[1]); from fleet.agents.shim."
_KNOWN: dict[int, tuple[tuple[str, str], ...]] = {}


def descents() -> tuple[tuple[str, str], ...]:
    """Return the home and id of the runs above this process, nearest first. The id of a verify command's run is ""."""
    me = os.getpid()
    if me not in _KNOWN:
        _KNOWN[me] = tuple(_above(os.getppid()))
    return _KNOWN[me]


def is_agents(home: str) -> bool:
    """Return True if the caller is an agent of this home or was started by one.

    Both the environment and the shims above this process are checked.
    """
    env = os.environ
    if env.get("FLEET_RUN_TOKEN") or env.get("FLEET_RUN_ID"):
        return True
    return any(is_same(each, home) for each, _ in descents())


def is_same(one: str, other: str) -> bool:
    """Return True if two paths lead to the same home."""
    try:
        return one == other or os.path.samefile(one, other)
    except OSError:
        return False


def _above(pid: int) -> list[tuple[str, str]]:
    found = []
    for _ in range(HIGHEST):
        if pid <= 1:
            break
        found += _run_in(_read(pid, "cmdline"))
        # The command name is in brackets and may hold any characters. Its state and its parent follow.
        fields = _read(pid, "stat").rpartition(b")")[2].split()
        pid = int(fields[1]) if len(fields) > 1 else 0
    return found + _run_in(_read(1, "cmdline"))


def _run_in(command_line: bytes) -> list[tuple[str, str]]:
    """Return the run whose folder a shim serves. Empty for other programs and for a shim of the user's own commands."""
    words = command_line.split(b"\0")
    if len(words) <= CODE or not words[CODE].startswith(SHIM):
        return []
    for word in reversed(words):
        home, _, place = os.fsdecode(word).rpartition("/tasks/")
        parts = place.split("/")
        if home and len(parts) > 2 and parts[1] == "runs":
            return [(home, f"{parts[0]}/{parts[2]}" if len(parts) == 3 else "")]
    return []


def _read(pid: int, name: str) -> bytes:
    """Return the content of a process's file, or nothing if it is missing or hidden."""
    try:
        handle = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(handle, 16 * 1024)
    except OSError:
        return b""
    finally:
        os.close(handle)
