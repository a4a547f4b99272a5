"""Which files of a folder were touched in a span of time, told by a program of its own: thousands of looks in this one
would have to share it with everybody else."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys

#: More than this is not looked through.
MOST_BYTES = 1024 * 1024


def touched(root: str, since: float, until: float) -> list[bytes] | None:
    """The files, but for git's pointer, that changed in any way after `since` and not after `until`, in seconds.

    Nobody who writes a file can set this time. None: it cannot be told, or there are too many.
    """
    find = _gnu_find()
    but = ("-mindepth", "1", "-path", f"{root}/.git", "-prune", "-o", "-not", "-type", "d")
    span = ("-newerct", f"@{since:.6f}", "-not", "-newerct", f"@{until:.6f}")
    told = _run(find, root, *but, *span, "-printf", "%P\\0") if find else None
    return None if told is None or len(told) > MOST_BYTES else told.split(b"\0")[:-1]


@functools.cache
def _gnu_find() -> str | None:
    """Return GNU's `find`, which knows times to the part of a second; None if the machine has another."""
    there = shutil.which("find")
    if there is None or sys.platform != "linux":
        return None
    told = _run(there, os.devnull, "-newerct", "@0.5", "-printf", "%C@")
    return there if told is not None and b"." in told else None


def _run(*words: str) -> bytes | None:
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, check=False, env={"LC_ALL": "C", "TZ": "UTC"}
    )
    return None if done.returncode else done.stdout
