"""Quote an agent's texts in a sentence: on one line, short, and without characters that a terminal would interpret."""

from __future__ import annotations

#: Longer texts are cut.
LONGEST = 120


def shown(text: str, longest: int = LONGEST) -> str:
    """Return a text in a form that is safe in a sentence."""
    cut = text[: longest + 1]
    plain = "".join(char if char.isprintable() else "?" for char in " ".join(cut.split()))
    return plain if len(text) <= longest else plain[: longest - 1] + "…"


def some(names: list[str], most: int = 3) -> str:
    """Return the first few names, and the number of the others."""
    more = len(names) - most
    return ", ".join(shown(name) for name in names[:most]) + (f" and {more} more" if more > 0 else "")
