"""What codex's screen shows.

It ends with its input, a line with ›, and below it a line or two about its state; above it stands for how long it has
been at work. A question takes the place of the input, and its last line says which keys answer it.
"""

from __future__ import annotations

import re

from fleet.coders.base import BUSY, QUESTION, READY

#: Lines of a screen that are looked at, from its end.
LOOKED_AT = 60
LONGEST_LINE = 400
MOST_BELOW = 5  # lines below the input

#: Models it offers a newer one for at every start, until it was told once that this is known.
MIGRATIONS = {"gpt-5.5": "gpt-6-sol"}

_EMPTY = "Ask Codex to do anything"
_HINT = "? for shortcuts"  # only while nothing is typed
_KEYS = re.compile(
    r"\s*(?:press )?(?:enter|esc|y|ctrl\+c)\b.{0,80}\b(?:confirm|select|back|cancel|quit|continue|submit|exit)\b.*",
    re.I,
)
_AT_WORK = re.compile(r"\s*[•◦] .{0,200}\besc to interrupt\b.*")


def shown(screen: str) -> str:
    """QUESTION, BUSY, READY, or nothing."""
    lines = [line[:LONGEST_LINE].rstrip() for line in screen.rstrip().split("\n")[-LOOKED_AT:]]
    if any(_KEYS.fullmatch(line) for line in lines[-2:]):
        return QUESTION
    inputs = [number for number, line in enumerate(lines) if line == "›" or line.startswith("› ")]
    if not inputs or len(lines) - inputs[-1] > MOST_BELOW:
        return ""
    typed, below = lines[inputs[-1]][1:].strip(), lines[inputs[-1] + 1 :]
    if typed not in ("", _EMPTY) and not any(_HINT in line for line in below):
        return ""  # somebody's words, not sent yet
    if any(_AT_WORK.fullmatch(line) for line in lines[max(0, inputs[-1] - 20) : inputs[-1]]):
        return BUSY
    # Its model and directory stand below once it has started.
    return READY if any(line.strip() and _HINT not in line for line in below) else ""
