"""A live agent in a terminal: controlled through its shim, viewed and typed to through tmux."""

import asyncio
import os
import secrets

from fleet.core.errors import FleetError
from fleet.launchers.shim_client import ShimAgent
from fleet.launchers.shim_link import Link
from fleet.launchers.tmux_command import call, capture_words, kill_session, reason, text_of

#: How often the log is checked for growth, because nothing reports it.
LOOK_SECONDS = 0.5
#: The session option that stores the mark of a paste.
MARK = "@fleet_pasted"
# Either sequence would end the paste, and the rest would count as typed keys.
_ENDS = ("\x1b[201~", "\x9b201~")


class TerminalAgent(ShimAgent):
    """A live agent in a tmux session."""

    def __init__(self, folder: str, link: Link | None, socket: str, session: str, pane: str) -> None:
        super().__init__(folder, link)
        self.session = session
        self._socket = socket
        # The pane together with its session, because a later server reuses the pane numbers.
        self._target = f"={session}:.{pane}" if pane else f"={session}:"
        self._looking = asyncio.create_task(self._look(), name=f"terminal in {folder}")

    async def screen(self, lines: int = 0) -> str:
        """Return the terminal's content with `lines` lines of its history.

        Raises FleetError if the terminal is gone.
        """
        return text_of(await self._tmux("read", *capture_words(self._target, lines)))

    async def paste(self, text: str, mark: str = "") -> None:
        """Paste a text unchanged and without Enter, in one piece if the agent supports that.

        Raises FleetError if it fails.
        The server stores the mark if and only if it pasted the text, even if this process dies meanwhile.
        """
        name = f"fleet-{secrets.token_hex(8)}"
        into = ("paste-buffer", "-p", "-r", "-d", "-b", name, "-t", self._target)
        marked = (";", "set-option", "-t", f"={self.session}:", MARK, mark) if mark else ()
        await self._tmux("type into", "load-buffer", "-b", name, "-", ";", *into, *marked, stdin=pasteable(text))

    async def last_mark(self) -> str:
        """Return the mark of the last marked paste. Raises FleetError if the terminal is gone."""
        shown = await self._tmux("read", "show-options", "-q", "-v", "-t", f"={self.session}:", MARK)
        return shown.decode(errors="replace").strip()

    async def press(self, *keys: str) -> None:
        """Press keys by their tmux names (`Enter`, `C-c`, `Escape`, `a`). Use `paste` for text."""
        await self._tmux("type into", "send-keys", "-t", self._target, "--", *keys)

    async def close_session(self) -> None:
        """End the session and what runs in it. Do nothing if it is gone."""
        await asyncio.to_thread(kill_session, self._socket, self.session)

    def close(self) -> None:
        """Disconnect. The agent keeps running."""
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
            return os.stat(f"{self._folder}/stdout").st_size  # noqa: PTH116 - called twice a second for each agent
        except OSError:
            return 0


def pasteable(text: str) -> bytes:
    """Return the text without sequences that would end the paste early."""
    while any(end in text for end in _ENDS):
        for end in _ENDS:
            text = text.replace(end, "")
    return text.encode("utf-8", "surrogateescape")
