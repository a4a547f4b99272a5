"""Which runs this process descends from: as the system knows it, for an environment may have been emptied on the way.

Coders start programs with few variables: codex gives an MCP server neither token nor home, gemini nothing that is named
like a secret. But whatever an agent starts has the shim of its run above it: as the first process of its PID namespace,
or as the one that orphans come to. A shim has its folder in its command line, which everybody may read.
"""

# On the path of every `bd` call: nothing heavy is imported.
# ruff: noqa: PTH121
from __future__ import annotations

import os

#: How far up it is looked: more than anybody nests, and an end where somebody tries.
HIGHEST = 256
#: Where a shim's command line has the code that it runs (launchers/detached.py), and what that begins with there.
CODE, SHIM = 4, b"import sys; sys.path.append(sys.argv[1]); from fleet.launchers.shim."
_KNOWN: dict[int, tuple[tuple[str, str], ...]] = {}


def descents() -> tuple[tuple[str, str], ...]:
    """Home and id of the runs above this process, the nearest first; a run's verify command has no id."""
    me = os.getpid()
    if me not in _KNOWN:
        _KNOWN[me] = tuple(_above(os.getppid()))
    return _KNOWN[me]


def is_agents(home: str) -> bool:
    """Whether an agent of this home calls, or what it started: by what its environment says, or by a shim above it."""
    env = os.environ
    if env.get("FLEET_RUN_TOKEN") or env.get("FLEET_RUN_ID"):
        return True
    return any(is_same(each, home) for each, _ in descents())


def is_same(one: str, other: str) -> bool:
    """Whether two paths lead to the same home."""
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
        # The command's name stands in brackets and may hold anything; its state and its parent follow.
        fields = _read(pid, "stat").rpartition(b")")[2].split()
        pid = int(fields[1]) if len(fields) > 1 else 0
    return found + _run_in(_read(1, "cmdline"))


def _run_in(command_line: bytes) -> list[tuple[str, str]]:
    """The run whose folder a shim keeps; nothing for other programs, and for a shim of the user's own commands."""
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
    """A file of a process; nothing where there is none, or it is hidden."""
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
