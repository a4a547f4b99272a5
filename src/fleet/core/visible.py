"""Display of foreign text on one line, with control characters made visible."""

from __future__ import annotations


def clean(text: str) -> str:
    """Return the text without characters that control a terminal or start a new line."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _shown(char) for char in text)


def _shown(char: str) -> str:
    return {"\n": "⏎", "\t": " "}.get(char, f"\\x{ord(char):02x}" if ord(char) < 256 else f"\\u{ord(char):04x}")
