"""Tokens by which a run is known: random, and kept only as a hash."""

from __future__ import annotations

from os import urandom

from fleet.core.digest import sha256


def new_token() -> str:
    """A secret nobody can guess."""
    return urandom(32).hex()


def hashed(token: str) -> str:
    """What is kept of a token."""
    return sha256(token.encode(errors="surrogateescape"))
