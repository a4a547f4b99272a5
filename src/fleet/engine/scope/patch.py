"""The files that a patch in the coders' format changes."""

from __future__ import annotations

import re

from fleet.engine.scope.bounds import DELETES, WRITES

#: Longer patches are read only up to this length.
LONGEST = 1024 * 1024
_FILE = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.{1,4096})$|^\*\*\* Move to: (.{1,4096})$", re.MULTILINE)


def patched(text: str) -> list[tuple[str, str]]:
    """Return the action of a patch on each file."""
    found = []
    for match in _FILE.finditer(text, 0, LONGEST):
        path = (match[2] or match[3]).strip()
        found.append((DELETES if match[1] == "Delete" else WRITES, path))
    return found
