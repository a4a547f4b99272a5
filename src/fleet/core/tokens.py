"""Tokens by which a run is known: random, and kept only as a hash."""

from __future__ import annotations

from os import urandom


def new_token() -> str:
    """A secret nobody can guess."""
    return urandom(32).hex()


def hashed(token: str) -> str:
    """What is kept of a token."""
    import hashlib  # loads OpenSSL, half as long as Python itself takes: only for calls that come from a run

    return hashlib.sha256(token.encode(errors="surrogateescape")).hexdigest()
