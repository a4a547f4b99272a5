"""Task ids in bd's form: a prefix and a base-36 name whose length grows with the queue."""

from __future__ import annotations

from os import urandom

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
