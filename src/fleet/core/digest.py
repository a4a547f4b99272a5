"""SHA-256, with OpenSSL loaded only when needed."""

from __future__ import annotations


def sha256(data: bytes) -> str:
    import hashlib  # loads OpenSSL, which takes a quarter of Python's start-up time

    return hashlib.sha256(data).hexdigest()
