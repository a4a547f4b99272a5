"""Unique identifiers."""

from __future__ import annotations

from os import urandom


def new_uuid() -> str:
    """Return a random UUID, version 4, without importing `uuid`, which would slow down each call."""
    raw = bytearray(urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))
