"""Compare changed files with the globs of files that a task may change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.globs import fits, fits_any
from fleet.engine.scope.words import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Maximum number of sentences. More would not help.
MOST = 10


def strays(changed: Iterable[str], *, allow: Sequence[str], protect: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence for each changed file that is protected or not allowed. An empty `allow` allows all files."""
    found = [said for path in changed if (said := _about(path, allow, protect))]
    more = len(found) - MOST
    return (*found[:MOST], f"and {more} more of its changes are out of bounds") if more > 0 else tuple(found)


def _about(path: str, allow: Sequence[str], protect: Sequence[str]) -> str:
    guard = next((glob for glob in protect if fits(path, glob)), None)
    if guard is not None:
        return f"it changed {shown(path)}, which is protected by {shown(guard)!r}"
    if allow and not fits_any(path, allow):
        return f"it changed {shown(path)}, which is not among what it may change"
    return ""
