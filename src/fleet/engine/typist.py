"""What is typed into the terminal of an agent: words as one paste, and the key that sends them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from typing import TYPE_CHECKING

from fleet.coders.base import QUESTION
from fleet.core.errors import FleetError

if TYPE_CHECKING:
    from fleet.coders.base import Coder
    from fleet.launchers.base import Terminal

log = logging.getLogger(__name__)

#: Between what is pasted into a terminal and the key that sends it, at least and at most: a long text takes a while.
TYPING_SECONDS, PASTE_LOOKS = 0.15, 20
#: How often Enter is pressed at most, and how often and how long after each it is looked at what came of it.
SENDS, SEND_LOOKS, SEND_SECONDS = 3, 4, 0.25


class Typist:
    """Looks at the screen of one agent, and types."""

    def __init__(self, terminal: Terminal, coder: Coder, log_of_terminal: str) -> None:
        self._terminal, self._coder = terminal, coder
        self._log, self._drawn = log_of_terminal, -1  # its length when the screen was looked at

    def has_drawn(self) -> bool:
        """Return True if the terminal printed something since its screen was looked at."""
        return self._size() != self._drawn

    async def look(self) -> str | None:
        """Return what the screen shows, see `Coder.look`; none if the terminal is going."""
        self._drawn = self._size()
        try:
            return self._coder.look(await self._terminal.screen())
        except FleetError:
            return None

    async def say(self, text: str, *, interrupt: bool) -> bool:
        """Type a message and send it. Return False if it may not have been taken."""
        try:
            if interrupt:
                await self._terminal.press("Escape")
                await asyncio.sleep(TYPING_SECONDS)
            if text:
                await self._terminal.paste(text)
                if await self._wait_for_words() == QUESTION:
                    return False  # it came up meanwhile, and Enter would answer it
                await self._enter()
        except FleetError as error:
            log.info("%s takes no message: %s", self._log, error)
            return False
        return True

    async def has_pasted(self, mark: str) -> bool:
        """Return True if the words of this mark were put into the terminal, whoever did that. Raises FleetError."""
        return await self._terminal.last_mark() == mark

    async def paste(self, text: str, mark: str) -> str:
        """Put words into the empty input. Return what the screen shows: nothing clear if they stand there.

        Raises FleetError.
        """
        await self._terminal.paste(text, mark)
        return await self._wait_for_words()

    async def send(self) -> bool:
        """Send the words in the input. Return True if they left it."""
        with contextlib.suppress(FleetError):
            return await self._enter()
        return False

    async def _wait_for_words(self) -> str:
        """Wait until the words stand in the input: a program takes what comes at once for one paste, Enter too."""
        for _ in range(PASTE_LOOKS):
            await asyncio.sleep(TYPING_SECONDS)
            if not (shown := self._coder.look(await self._terminal.screen())):
                break
        return shown

    async def _enter(self) -> bool:
        """Press the key that sends; some programs do not take it while they are still reading."""
        for _ in range(SENDS):
            await self._terminal.press("Enter")
            for _ in range(SEND_LOOKS):
                await asyncio.sleep(SEND_SECONDS)
                if self._coder.look(await self._terminal.screen()):  # it works on it, or waits for the next
                    return True
        return False

    def _size(self) -> int:
        with contextlib.suppress(OSError):
            return os.stat(self._log).st_size  # noqa: PTH116 - ten times a second
        return 0
