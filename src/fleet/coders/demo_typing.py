"""Keyboard input and pastes at a terminal, assembled into messages."""

from __future__ import annotations

import codecs
import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Ctrl-C, and Ctrl-D on an empty line. No message contains these characters.
INTERRUPT, LEAVE = "\x03", "\x04"
LONGEST = 1_000_000  # characters of a message; the rest is dropped
PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"

#: A key of several characters: ESC and the characters after it.
_KEY = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O[ -~]|[^\[O])")
_PART_OF_KEY = re.compile(r"\x1b(?:\[[0-9;?]{0,20}[ -/]{0,5}|O)?")


class Typing:
    """An unfinished line of input. Bytes may arrive in pieces of any size."""

    def __init__(self) -> None:
        self.text = ""  # not sent yet
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._rest = ""
        self._pasting = False

    def feed(self, data: bytes) -> Iterator[str]:
        """Add bytes. Yield the messages that they complete, and INTERRUPT or LEAVE."""
        self._rest += self._decode(data)
        while self._rest:
            if self._pasting:
                if not self._paste():
                    return
                continue
            sign = self._rest[0]
            if sign == "\x1b":
                if not self._key():
                    return
                continue
            self._rest = self._rest[1:]
            yield from self._typed(sign)

    def _paste(self) -> bool:
        """Add pasted text. Return True if the paste has ended."""
        text, end, rest = self._rest.partition(PASTE_ENDS)
        if not end:
            # The end marker may arrive in pieces, and so may a line's end.
            keep = max((n for n in range(1, len(PASTE_ENDS)) if text.endswith(PASTE_ENDS[:n])), default=0)
            keep = keep or int(text.endswith("\r"))
            text, rest = text[: len(text) - keep], text[len(text) - keep :]
        self._pasting, self._rest = not end, rest
        self._add(text.replace("\r\n", "\n").replace("\r", "\n"))
        return bool(end)

    def _key(self) -> bool:
        """Consume a key of several characters. Return False if it is incomplete."""
        if _PART_OF_KEY.fullmatch(self._rest):
            return False
        found = _KEY.match(self._rest)
        key = found[0] if found else self._rest[0]
        self._rest = self._rest[len(key) :]
        self._pasting = key == PASTE_BEGINS
        return True

    def _typed(self, sign: str) -> Iterator[str]:
        if sign in "\r\n":
            text, self.text = self.text, ""
            yield text
        elif sign == INTERRUPT or (sign == LEAVE and not self.text):
            self.text = ""
            yield sign
        elif sign in "\x7f\b":
            self.text = self.text[:-1]
        elif sign >= " " or sign == "\t":
            self._add(sign)

    def _add(self, text: str) -> None:
        self.text = (self.text + text)[:LONGEST]
