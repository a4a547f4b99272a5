"""A server that gives other hosts the events of this host's runs and nothing else. The events hold no secrets."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections import Counter
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.engine.folder import folder_of
from fleet.hosts.log_protocol import (
    LONGEST_LINE,
    SECONDS,
    VERSION,
    ProtocolError,
    answer_proof,
    is_proof,
    line,
    read_line,
    request_in,
)

if TYPE_CHECKING:
    from fleet.engine.context import Context
    from fleet.hosts.log_protocol import LogRequest

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
            raise FleetError(f"other hosts are not answered at {place}: {error}") from error
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
            log.debug("another host was not answered: %s", error)
        except FleetError as error:
            log.warning("another host was not answered: %s", error)
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
            log.warning("the events of %s cannot be read: %s", run.id, error)
            return b"", 0
