"""What hosts that share a queue say to one another: a challenge, a question about a run's events, and their answer.

    answering: {"fleet": 1, "challenge": C}
    asking:    {"run": R, "offset": O, "most": M, "nonce": N, "proof": hmac(key, "ask", C, N, R, O, M)}
    answering: {"ok": true, "next": X, "size": S, "proof": hmac(key, "answer", C, N, X, sha256(body))} and S bytes

Each proves that it can read the queue, where the key is, without saying the key. Nothing here is hidden on its way: the
events hold no secrets, and whoever wants more puts a tunnel below.
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
#: Of the events that one answer carries.
MOST = 1 << 20
SECONDS = 5.0


class Garbled(FleetError):
    """What came is not what hosts say to one another."""


class Question(Record):
    """What one host asks another."""

    run: str
    offset: int  # negative: so many bytes before the end
    most: int
    nonce: str

    def proof(self, key: str, challenge: str) -> str:
        """That whoever asks has the key."""
        return signed(key, "ask", challenge, self.nonce, self.run, str(self.offset), str(self.most))


def hosts_key(store: Store) -> str:
    """The key of the hosts that share a queue, made by the first that needs it."""
    found = store.config.all().get(HOSTS_KEY)
    if found:
        return found
    with store.atomic():
        found = store.config.all().get(HOSTS_KEY) or os.urandom(32).hex()
        store.config.set(HOSTS_KEY, found)
    return found


def signed(key: str, *parts: str) -> str:
    """A proof over all parts; none can be taken for another, since each says its length."""
    encoded = (part.encode("utf-8", "replace") for part in parts)
    text = b"".join(b"%d:%s" % (len(data), data) for data in encoded)
    return hmac.new(key.encode(), text, hashlib.sha256).hexdigest()


def is_proof(said: object, wanted: str) -> bool:
    """Whether a proof is the one that is wanted; how long that takes tells nothing."""
    return isinstance(said, str) and hmac.compare_digest(said.encode("utf-8", "replace"), wanted.encode())


def answer_proof(key: str, challenge: str, nonce: str, next_offset: int, body: bytes) -> str:
    """That whoever answers has the key, and answers this very question."""
    return signed(key, "answer", challenge, nonce, str(next_offset), hashlib.sha256(body).hexdigest())


def line(said: dict[str, Any]) -> bytes:
    """One line of what is said."""
    return json.dumps(said, separators=(",", ":")).encode() + b"\n"


def read_line(data: bytes) -> dict[str, Any]:
    """What a line says. Raises Garbled."""
    try:
        found = json.loads(data) if data.endswith(b"\n") and len(data) <= LONGEST_LINE else None
    except (ValueError, RecursionError) as error:
        raise Garbled("not a line of JSON") from error
    if not isinstance(found, dict):
        raise Garbled("not an object of JSON")
    return found


def question_in(said: dict[str, Any]) -> Question:
    """The question that was asked. Raises Garbled."""
    run, nonce = said.get("run"), said.get("nonce")
    offset, most = said.get("offset"), said.get("most")
    if not isinstance(run, str) or not isinstance(nonce, str) or type(offset) is not int or type(most) is not int:
        raise Garbled("not a question")
    if not -MOST <= offset < 1 << 60 or not 0 < most <= MOST or not 8 <= len(nonce) <= 128:
        raise Garbled("a question beyond all bounds")
    return Question(run=run, offset=offset, most=most, nonce=nonce)
