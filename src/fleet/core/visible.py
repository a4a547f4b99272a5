"""Text of somebody else's in one line: control characters are shown, not obeyed."""

from __future__ import annotations


def clean(text: str) -> str:
    """Return a text without anything that drives a terminal or begins another line."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _shown(char) for char in text)


def _shown(char: str) -> str:
    return {"\n": "⏎", "\t": " "}.get(char, f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}")
