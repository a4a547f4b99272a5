"""How what an agent wrote is quoted in a sentence: on one line, short, and without anything a terminal would obey."""

from __future__ import annotations

#: Longer words are cut.
LONGEST = 120


def shown(text: str, longest: int = LONGEST) -> str:
    """Text as it may stand in a sentence."""
    cut = text[: longest + 1]
    plain = "".join(char if char.isprintable() else "?" for char in " ".join(cut.split()))
    return plain if len(text) <= longest else plain[: longest - 1] + "…"


def some(names: list[str], most: int = 3) -> str:
    """The first few of some names, and how many more there are."""
    more = len(names) - most
    return ", ".join(shown(name) for name in names[:most]) + (f" and {more} more" if more > 0 else "")
