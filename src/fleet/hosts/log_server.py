"""A server that gives other hosts the events of this host's runs and nothing else. The events hold no secrets."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import logging
import os
import socket
from collections import Counter
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.core.host import HOSTS_KEY
from fleet.core.record import Record
from fleet.supervisor.task_folder import folder_of

if TYPE_CHECKING:
    from typing import Any

    from fleet.store.base import Store
    from fleet.supervisor.context import Context


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
        raise ProtocolError("not valid JSON") from error
    if not isinstance(found, dict):
        raise ProtocolError("not a JSON object")
    return found


def request_in(said: dict[str, Any]) -> LogRequest:
    """Return the request in a decoded line. Raises ProtocolError."""
    run, nonce = said.get("run"), said.get("nonce")
    offset, most = said.get("offset"), said.get("most")
    if not isinstance(run, str) or not isinstance(nonce, str) or type(offset) is not int or type(most) is not int:
        raise ProtocolError("not a request")
    if not -MOST <= offset < 1 << 60 or not 0 < most <= MOST or not 8 <= len(nonce) <= 128:
        raise ProtocolError("the request is too large")
    return LogRequest(run=run, offset=offset, most=most, nonce=nonce)


log = logging.getLogger(__name__)

#: Maximum number of connections. One more replaces a connection that has not proven that it knows the key.
MOST_AT_ONCE = 16
ANYWHERE = ("", "0.0.0.0", "::", "*")


class LogServer:
    """A server on one port. Only hosts that know the key get answers. Silent connections do not block the server."""

    def __init__(self, context: Context, key: str, *, seconds: float = SECONDS) -> None:
        self._context, self._key, self._seconds = context, key, seconds
        self._open: dict[asyncio.StreamWriter, str] = {}
        """Connections with their addresses, oldest first."""
        self._proven: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def open(self, place: str) -> str:
        """Listen at "host:port". Return the address at which other hosts reach the server. Raises FleetError."""
        host, _, port = place.rpartition(":")
        host = host.strip("[]")
        try:
            self._server = await asyncio.start_server(
                self._answer, None if host in ANYWHERE else host, int(port), limit=LONGEST_LINE, backlog=MOST_AT_ONCE
            )
        except (OSError, ValueError, OverflowError) as error:
            raise FleetError(f"cannot answer other hosts at {place}: {error}") from error
        number = self._server.sockets[0].getsockname()[1]
        name = socket.gethostname() if host in ANYWHERE else host
        return f"[{name}]:{number}" if ":" in name else f"{name}:{number}"

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= MOST_AT_ONCE and not self._make_room():
            writer.transport.abort()
            return
        self._open[writer] = str((writer.get_extra_info("peername") or ("",))[0])
        try:
            async with asyncio.timeout(self._seconds):
                await self._talk(reader, writer)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (ProtocolError, TimeoutError, OSError, ValueError, asyncio.IncompleteReadError) as error:
            log.debug("cannot answer another host: %s", error)
        except FleetError as error:
            log.warning("cannot answer another host: %s", error)
        finally:
            self._open.pop(writer, None)
            self._proven.discard(writer)
            with contextlib.suppress(OSError, RuntimeError):
                writer.transport.abort()

    def _make_room(self) -> bool:
        """Close the oldest unproven connection of the address that has most of them. Return False if all are proven."""
        silent = {writer: address for writer, address in self._open.items() if writer not in self._proven}
        if not silent:
            return False
        held = Counter(silent.values())
        gone = max(silent, key=lambda writer: held[silent[writer]])  # `max` returns the first, the oldest
        del self._open[gone]
        gone.transport.abort()
        return True

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        challenge = os.urandom(32).hex()
        writer.write(line({"fleet": VERSION, "challenge": challenge}))
        said = read_line(await reader.readuntil(b"\n"))
        request = request_in(said)
        if not is_proof(said.get("proof"), request.proof(self._key, challenge)):
            raise ProtocolError("no proof")
        self._proven.add(writer)
        body, next_offset = await self._events(request)
        proof = answer_proof(self._key, challenge, request.nonce, next_offset, body)
        writer.write(line({"ok": True, "next": next_offset, "size": len(body), "proof": proof}))
        writer.write(body)

    async def _events(self, request: LogRequest) -> tuple[bytes, int]:
        """Return events of a run of this host from an offset on, and the next offset. Return nothing for other runs."""
        context, store = self._context, self._context.store
        run = await store.call(store.runs.get, request.run)
        if run is None or run.owner != context.owner:
            return b"", 0
        try:
            folder = folder_of(context.home, run, context.redactor)
            return await asyncio.to_thread(folder.events_part, request.offset, request.most)
        except OSError as error:
            log.warning("cannot read the events of %s: %s", run.id, error)
            return b"", 0
