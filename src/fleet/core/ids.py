"""Identifiers: task ids in bd's form, unique ids, and SHA-256 digests."""

from __future__ import annotations

from os import urandom


def sha256(data: bytes) -> str:
    import hashlib  # loads OpenSSL, which takes a quarter of Python's start-up time

    return hashlib.sha256(data).hexdigest()


def new_uuid() -> str:
    """Return a random UUID, version 4, without importing `uuid`, which would slow down each call."""
    raw = bytearray(urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
LONGEST = 8
#: The number of tasks up to which each length serves. The chance of a collision stays at a quarter or less.
ROOM = ((3, 164), (4, 984), (5, 5_899), (6, 35_390), (7, 212_340))


def name_length(count: int) -> int:
    """Return the length of a new name in a queue of `count` tasks."""
    return next((length for length, room in ROOM if count < room), LONGEST)


def new_id(prefix: str, length: int) -> str:
    """Return a random id. The caller checks whether it is free."""
    return f"{prefix}-{base36(int.from_bytes(urandom(8), 'big'), length)}"


def base36(number: int, length: int) -> str:
    """Return the last `length` base-36 digits of a number, padded with zeros."""
    text = ""
    while number and len(text) < length:
        number, digit = divmod(number, 36)
        text = DIGITS[digit] + text
    return text.rjust(length, "0")
