"""Globs for paths in a repository.

`*` and `?` stay within a folder, `**` crosses folders, and a glob without `/` matches in any folder.
"""

from __future__ import annotations

import re
from functools import lru_cache

from fleet.core.quoting import quote_text

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def matches_glob(path: str, glob: str) -> bool:
    """Return True if a path matches a glob. A glob that ends in `/` or names a folder also matches everything below."""
    return _pattern(glob).match(path) is not None


def matches_any_glob(path: str, globs: Iterable[str]) -> bool:
    return any(matches_glob(path, glob) for glob in globs)


@lru_cache(maxsize=512)
def _pattern(glob: str) -> re.Pattern[str]:
    named = glob.removeprefix("./").strip("/")
    anywhere = "" if "/" in named or glob.startswith("/") else "(?:.*/)?"
    return re.compile(f"{anywhere}{_regex(named)}(?:/.*)?\\Z", re.DOTALL)


def _regex(glob: str) -> str:
    parts, at = [], 0
    while at < len(glob):
        rest = glob[at:]
        if rest.startswith("**/"):
            parts.append("(?:.*/)?")
            at += 3
        elif rest.startswith("**"):
            parts.append(".*")
            at += 2
        elif rest[0] == "*":
            parts.append("[^/]*")
            at += 1
        elif rest[0] == "?":
            parts.append("[^/]")
            at += 1
        elif rest[0] == "[" and "]" in rest[2:]:
            end = rest.index("]", 2)
            inner = rest[1:end].replace("\\", "\\\\").replace("[", "\\[")
            parts.append(f"[{'^' + inner[1:] if inner[0] in '!^' else inner}]")
            at += end + 1
        else:
            parts.append(re.escape(rest[0]))
            at += 1
    return "".join(parts)


#: Maximum number of sentences. More would not help.
MOST = 10


def strays(changed: Iterable[str], *, allow: Sequence[str], protect: Sequence[str]) -> tuple[str, ...]:
    """Return a sentence for each changed file that is protected or not allowed. An empty `allow` allows all files."""
    found = [said for path in changed if (said := _describe_stray(path, allow, protect))]
    more = len(found) - MOST
    return (*found[:MOST], f"and {more} more changes are out of scope") if more > 0 else tuple(found)


def _describe_stray(path: str, allow: Sequence[str], protect: Sequence[str]) -> str:
    guard = next((glob for glob in protect if matches_glob(path, glob)), None)
    if guard is not None:
        return f"it changed {quote_text(path)}, which is protected by {quote_text(guard)!r}"
    if allow and not matches_any_glob(path, allow):
        return f"it changed {quote_text(path)}, which is outside the files it may change"
    return ""
