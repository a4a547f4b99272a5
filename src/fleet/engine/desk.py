"""Where other hosts ask about the runs of this one: their events, without secrets, and nothing else."""

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
from fleet.engine.host_wire import (
    LONGEST_LINE,
    SECONDS,
    VERSION,
    Garbled,
    answer_proof,
    is_proof,
    line,
    question_in,
    read_line,
)

if TYPE_CHECKING:
    from fleet.engine.host_wire import Question
    from fleet.engine.office import Office

log = logging.getLogger(__name__)

#: So many may ask at once. Whoever comes beyond them takes the place of one who has not proven to know the key.
MOST_AT_ONCE = 16
ANYWHERE = ("", "0.0.0.0", "::", "*")


class Desk:
    """A server on one port. Who cannot prove to know the key learns nothing, and nobody can hold it up."""

    def __init__(self, office: Office, key: str, *, seconds: float = SECONDS) -> None:
        self._office, self._key, self._seconds = office, key, seconds
        self._open: dict[asyncio.StreamWriter, str] = {}
        """Who is connected, with the address, the longest first."""
        self._proven: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def open(self, place: str) -> str:
        """Begin to answer at "host:port"; the address that others reach it by. Raises FleetError."""
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
        """Answer nobody any more."""
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
        except (Garbled, TimeoutError, OSError, ValueError, asyncio.IncompleteReadError) as error:
            log.debug("another host was not answered: %s", error)
        except FleetError as error:
            log.warning("another host was not answered: %s", error)
        finally:
            self._open.pop(writer, None)
            self._proven.discard(writer)
            with contextlib.suppress(OSError, RuntimeError):
                writer.transport.abort()

    def _make_room(self) -> bool:
        """Cut off who is silent longest, of the address with the most such connections. Return False if none is."""
        silent = {writer: address for writer, address in self._open.items() if writer not in self._proven}
        if not silent:
            return False
        held = Counter(silent.values())
        gone = max(silent, key=lambda writer: held[silent[writer]])  # the first of them is the oldest
        del self._open[gone]
        gone.transport.abort()
        return True

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        challenge = os.urandom(32).hex()
        writer.write(line({"fleet": VERSION, "challenge": challenge}))
        said = read_line(await reader.readuntil(b"\n"))
        question = question_in(said)
        if not is_proof(said.get("proof"), question.proof(self._key, challenge)):
            raise Garbled("no proof")
        self._proven.add(writer)
        body, next_offset = await self._events(question)
        proof = answer_proof(self._key, challenge, question.nonce, next_offset, body)
        writer.write(line({"ok": True, "next": next_offset, "size": len(body), "proof": proof}))
        writer.write(body)

    async def _events(self, question: Question) -> tuple[bytes, int]:
        """The events of the task of a run of this host, from an offset on; nothing of any other."""
        office = self._office
        run = await office.ask(office.store.runs.get, question.run)
        if run is None or run.owner != office.owner:
            return b"", 0
        try:
            folder = folder_of(office.home, run, office.redactor)
            return await asyncio.to_thread(folder.events_part, question.offset, question.most)
        except OSError as error:
            log.warning("the events of %s cannot be read: %s", run.id, error)
            return b"", 0
