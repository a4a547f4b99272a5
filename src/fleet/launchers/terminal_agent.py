"""A live agent in a terminal: reached through its shim, looked at and typed to through tmux."""

import asyncio
import os
import secrets

from fleet.core.errors import FleetError
from fleet.launchers.shim_client import ShimAgent
from fleet.launchers.shim_link import Link
from fleet.launchers.tmux_command import call, capture_words, kill_session, reason, text_of

#: How often the terminal's log is looked at for growth: nobody tells.
LOOK_SECONDS = 0.5
#: The option of a session that holds the mark of a paste.
MARK = "@fleet_pasted"
# Either would end the paste, and what follows would be typed.
_ENDS = ("\x1b[201~", "\x9b201~")


class TerminalAgent(ShimAgent):
    """A live agent in a tmux session."""

    def __init__(self, folder: str, link: Link | None, socket: str, session: str, pane: str) -> None:
        super().__init__(folder, link)
        self.session = session
        self._socket = socket
        # The pane with its session: a later server gives the same numbers to others.
        self._target = f"={session}:.{pane}" if pane else f"={session}:"
        self._looking = asyncio.create_task(self._look(), name=f"terminal in {folder}")

    async def screen(self, lines: int = 0) -> str:
        """What the terminal shows, with so many lines of its history. FleetError: it is gone."""
        return text_of(await self._tmux("read", *capture_words(self._target, lines)))

    async def paste(self, text: str, mark: str = "") -> None:
        """Paste a text as it is, in one piece where the agent takes that; without Enter. FleetError: it did not go.

        The server keeps the mark if and only if it pasted the text, whatever becomes of us meanwhile.
        """
        name = f"fleet-{secrets.token_hex(8)}"
        into = ("paste-buffer", "-p", "-r", "-d", "-b", name, "-t", self._target)
        marked = (";", "set-option", "-t", f"={self.session}:", MARK, mark) if mark else ()
        await self._tmux("type into", "load-buffer", "-b", name, "-", ";", *into, *marked, stdin=pasteable(text))

    async def last_mark(self) -> str:
        """Return the mark of the text that was pasted last with one. FleetError: its terminal is gone."""
        shown = await self._tmux("read", "show-options", "-q", "-v", "-t", f"={self.session}:", MARK)
        return shown.decode(errors="replace").strip()

    async def press(self, *keys: str) -> None:
        """Press keys by the names that tmux has for them (`Enter`, `C-c`, `Escape`, `a`); text is better pasted."""
        await self._tmux("type into", "send-keys", "-t", self._target, "--", *keys)

    async def close_session(self) -> None:
        """End the session and what runs in it. No error when it is gone."""
        await asyncio.to_thread(kill_session, self._socket, self.session)

    def close(self) -> None:
        """Let go of it; it goes on living."""
        self._looking.cancel()
        super().close()

    async def _tmux(self, doing: str, *words: str, stdin: bytes = b"") -> bytes:
        done = await asyncio.to_thread(call, self._socket, *words, stdin=stdin)
        if done.returncode:
            raise FleetError(f"cannot {doing} the session {self.session}: {reason(done)}")
        return done.stdout

    async def _look(self) -> None:
        seen = self._size()
        while not self._listening.done():
            await asyncio.wait((self._listening,), timeout=LOOK_SECONDS)
            if seen != (seen := self._size()):
                self.stirred.set()

    def _size(self) -> int:
        try:
            return os.stat(f"{self._folder}/stdout").st_size  # noqa: PTH116 - twice a second for each agent
        except OSError:
            return 0


def pasteable(text: str) -> bytes:
    """The text without what would end the paste before it does."""
    while any(end in text for end in _ENDS):
        for end in _ENDS:
            text = text.replace(end, "")
    return text.encode("utf-8", "surrogateescape")
