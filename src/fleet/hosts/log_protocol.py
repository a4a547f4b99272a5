"""How one host asks another for the events of a run: a challenge, a request, and an answer.

    answering: {"fleet": 1, "challenge": C}
    asking:    {"run": R, "offset": O, "most": M, "nonce": N, "proof": hmac(key, "ask", C, N, R, O, M)}
    answering: {"ok": true, "next": X, "size": S, "proof": hmac(key, "answer", C, N, X, sha256(body))} and S bytes

Each host proves that it knows the key without sending it. The key is in the queue. Nothing is encrypted: the events
hold no secrets. Use a tunnel to hide them.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.core.host import HOSTS_KEY
from fleet.core.record import Record

if TYPE_CHECKING:
    from typing import Any

    from fleet.store.base import Store

VERSION = 1
LONGEST_LINE = 4096
#: Maximum size in bytes of the events in one answer.
MOST = 1 << 20
SECONDS = 5.0


class ProtocolError(FleetError):
    """Bytes that do not follow the protocol."""


class LogRequest(Record):
    """A request for the events of a run."""

    run: str
    offset: int  # a negative offset counts bytes from the end
    most: int
    nonce: str

    def proof(self, key: str, challenge: str) -> str:
        """Return an HMAC proving that the asking host knows the key."""
        return signed(key, "ask", challenge, self.nonce, self.run, str(self.offset), str(self.most))


def hosts_key(store: Store) -> str:
    """Return the key of the hosts that share a queue. The first host that needs the key creates it."""
    found = store.config.all().get(HOSTS_KEY)
    if found:
        return found
    with store.atomic():
        found = store.config.all().get(HOSTS_KEY) or os.urandom(32).hex()
        store.config.set(HOSTS_KEY, found)
    return found


def signed(key: str, *parts: str) -> str:
    """Return an HMAC over all parts. Each part is signed with its length, so that different lists never sign alike."""
    encoded = (part.encode("utf-8", "replace") for part in parts)
    text = b"".join(b"%d:%s" % (len(data), data) for data in encoded)
    return hmac.new(key.encode(), text, hashlib.sha256).hexdigest()


def is_proof(said: object, wanted: str) -> bool:
    """Return True if a proof is right. The comparison takes constant time."""
    return isinstance(said, str) and hmac.compare_digest(said.encode("utf-8", "replace"), wanted.encode())


def answer_proof(key: str, challenge: str, nonce: str, next_offset: int, body: bytes) -> str:
    """Return an HMAC proving that the answering host knows the key and answers this request."""
    return signed(key, "answer", challenge, nonce, str(next_offset), hashlib.sha256(body).hexdigest())


def line(said: dict[str, Any]) -> bytes:
    """Encode one line."""
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


def read_line(data: bytes) -> dict[str, Any]:
    """Decode one line. Raises ProtocolError."""
    try:
        found = json.loads(data) if data.endswith(b"\n") and len(data) <= LONGEST_LINE else None
    except (ValueError, RecursionError) as error:
        raise ProtocolError("not a line of JSON") from error
    if not isinstance(found, dict):
        raise ProtocolError("not an object of JSON")
    return found


def request_in(said: dict[str, Any]) -> LogRequest:
    """Return the request in a decoded line. Raises ProtocolError."""
    run, nonce = said.get("run"), said.get("nonce")
    offset, most = said.get("offset"), said.get("most")
    if not isinstance(run, str) or not isinstance(nonce, str) or type(offset) is not int or type(most) is not int:
        raise ProtocolError("not a request")
    if not -MOST <= offset < 1 << 60 or not 0 < most <= MOST or not 8 <= len(nonce) <= 128:
        raise ProtocolError("a request beyond all bounds")
    return LogRequest(run=run, offset=offset, most=most, nonce=nonce)
