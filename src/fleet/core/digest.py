"""SHA-256 of bytes, without OpenSSL for those that need none."""

from __future__ import annotations


def sha256(data: bytes) -> str:
    import hashlib  # loads OpenSSL, a quarter of what starting Python takes

    return hashlib.sha256(data).hexdigest()
