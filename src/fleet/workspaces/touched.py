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
    span = ("-newerct", f"@{since:.6f}", "-not", "-newerct", f"@{until:.6f}")
    told = listed(root, *span, "-printf", "%P\\0")
    return None if told is None or len(told) > MOST_BYTES else told.split(b"\0")[:-1]


def listed(root: str, *words: str) -> bytes | None:
    """What `find` prints of a folder's files, but for git's pointer; none where it could not look at everything."""
    find = gnu_find()
    but = ("-mindepth", "1", "-path", f"{root}/.git", "-prune", "-o", "-not", "-type", "d")
    return _run(find, root, *but, *words) if find else None


@functools.cache
def gnu_find() -> str | None:
    """GNU's `find`, which can print what is needed and knows times to the part of a second."""
    there = shutil.which("find")
    if there is None or sys.platform != "linux":
        return None
    told = _run(there, os.devnull, "-newerct", "@0.5", "-printf", "%i %C@")
    return there if told is not None and b"." in told else None


def _run(*words: str) -> bytes | None:
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, check=False, env={"LC_ALL": "C", "TZ": "UTC"}
    )
    return None if done.returncode else done.stdout
