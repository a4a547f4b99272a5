"""Type into the terminal of an agent: text as one paste, then the key that sends it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from typing import TYPE_CHECKING

from fleet.coders.base import QUESTION
from fleet.core.errors import FleetError

if TYPE_CHECKING:
    from fleet.agents.base import AgentTerminal
    from fleet.coders.base import Coder

log = logging.getLogger(__name__)

#: Minimum delay between a paste and the key that sends it, and how often to look. A long text takes a while.
TYPING_SECONDS, PASTE_LOOKS = 0.15, 20
#: How often to press Enter at most, how often to look at the screen after each, and the pause before each look.
SENDS, SEND_LOOKS, SEND_SECONDS = 3, 4, 0.25


class Typist:
    """The screen and keyboard of an agent's terminal."""

    def __init__(self, terminal: AgentTerminal, coder: Coder, log_of_terminal: str) -> None:
        self._terminal, self._coder = terminal, coder
        self._log, self._drawn = log_of_terminal, -1  # the length of the log at the last look at the screen

    def has_drawn(self) -> bool:
        """Return True if the terminal printed something since the last look at its screen."""
        return self._size() != self._drawn

    async def look(self) -> str | None:
        """Return what the screen shows, see `Coder.look`. Return None if the terminal is closing."""
        self._drawn = self._size()
        try:
            return self._coder.look(await self._terminal.screen())
        except FleetError:
            return None

    async def say(self, text: str, *, interrupt: bool) -> bool:
        """Type a message and send it. Return False if the agent may not have received it."""
        try:
            if interrupt:
                await self._terminal.press("Escape")
                await asyncio.sleep(TYPING_SECONDS)
            if text:
                await self._terminal.paste(text)
                if await self._wait_for_words() == QUESTION:
                    return False  # the question appeared meanwhile, and Enter would answer it
                await self._enter()
        except FleetError as error:
            log.info("cannot send a message to %s: %s", self._log, error)
            return False
        return True

    async def has_pasted(self, mark: str) -> bool:
        """Return True if the text with this mark was last pasted into the terminal, by any supervisor.

        Raises FleetError.
        """
        return await self._terminal.last_mark() == mark

    async def paste(self, text: str, mark: str) -> str:
        """Paste text into the empty input. Return what the screen shows, or "" if the text is in the input.

        Raises FleetError.
        """
        await self._terminal.paste(text, mark)
        return await self._wait_for_words()

    async def send(self) -> bool:
        """Send the text in the input. Return True if it left the input."""
        with contextlib.suppress(FleetError):
            return await self._enter()
        return False

    async def _wait_for_words(self) -> str:
        """Wait until the text is in the input. Return what the screen shows.

        A program treats a simultaneous Enter as part of the paste.
        """
        for _ in range(PASTE_LOOKS):
            await asyncio.sleep(TYPING_SECONDS)
            if not (shown := self._coder.look(await self._terminal.screen())):
                break
        return shown

    async def _enter(self) -> bool:
        """Press Enter until the text is sent. Some programs ignore the key while they are still reading."""
        for _ in range(SENDS):
            await self._terminal.press("Enter")
            for _ in range(SEND_LOOKS):
                await asyncio.sleep(SEND_SECONDS)
                if self._coder.look(await self._terminal.screen()):  # it works, or waits for more
                    return True
        return False

    def _size(self) -> int:
        with contextlib.suppress(OSError):
            return os.stat(self._log).st_size  # noqa: PTH116 - ten times a second
        return 0
