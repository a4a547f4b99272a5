"""Having git believe the times in an index that was written in the same second as the files.

Git compares times by the second. What was written in the second of the index could have been written again in it, so
git reads each such file: after a checkout that is nearly every file, at every look. Where it is known that nobody wrote
to them in the rest of that second, git is spared that: an index from the beginning of time doubts nothing.
"""

# ruff: noqa: PTH116, PTH123
from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from fleet.workspaces.touched import touched

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Git reads so few files faster than it is found out whether it must.
SMALL_BYTES = 64 * 1024
#: A file's time may be that much older than the moment of its writing, as clocks of the kernel go.
TICK_SECONDS = 0.01
SECOND_NS = 10**9
#: The times of an index that doubts nothing, and of one that doubts everything.
NEVER, ALWAYS = 0, 10**9


@contextlib.contextmanager
def believed(index: str, root: str, since: float | None) -> Iterator[None]:
    """While this lasts git believes an index, if nobody has written to its files in the second that it is of.

    `since`: before that only git wrote there; none where that is not known. Call it alone with this index.
    """
    try:
        mine = os.stat(index)
    except OSError:  # what is missing is for git to tell
        yield
        return
    if mine.st_mtime_ns == NEVER:  # whoever had it so was killed
        os.utime(index, ns=(ALWAYS, ALWAYS))
    elif since is not None and mine.st_size >= SMALL_BYTES and _is_sure(index, root, since, int(mine.st_mtime) + 1):
        os.utime(index, ns=(NEVER, NEVER))
    try:
        yield
    finally:
        if os.stat(index).st_mtime_ns == NEVER:
            os.utime(index, ns=(mine.st_atime_ns, mine.st_mtime_ns))


def _is_sure(index: str, root: str, since: float, until: float) -> bool:
    """Whether no file of an index was touched in a span of time."""
    begin = since - TICK_SECONDS
    if begin >= until:
        return True
    if os.stat(root).st_ctime_ns % SECOND_NS == 0:  # times of a disk that knows no parts of a second tell nothing
        return False
    names = touched(root, begin, until)
    if names is None:
        return False
    with open(index, "rb") as file:
        known = file.read()
    return not any(name in known for name in names)
