"""The demo agent in a terminal: it waits at `> ` for a prompt, works on it, and waits for the next message.

A paste of any number of lines is part of one message; Enter sends the message. Messages typed during a turn start the
next turn. Ctrl-C interrupts a turn. Ctrl-C twice, `exit` or Ctrl-D ends the agent. It also writes its output to a file,
in the format of its stream. Like the agent, it represents a program that is not part of fleet.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import signal
import sys
import termios
import threading
from functools import partial
from queue import SimpleQueue

from fleet.coders.demo.agent import DemoAgent, StopSignal, steering_in

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType
    from typing import Any, NoReturn

    from fleet.coders.demo.agent import Said


#: Ctrl-C, and Ctrl-D on an empty line. No message contains these characters.
INTERRUPT, LEAVE = "\x03", "\x04"
LONGEST = 1_000_000  # characters of a message; the rest is dropped
PASTE_BEGINS, PASTE_ENDS = "\x1b[200~", "\x1b[201~"

#: A key of several characters: ESC and the characters after it.
_KEY = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|O[ -~]|[^\[O])")
_PART_OF_KEY = re.compile(r"\x1b(?:\[[0-9;?]{0,20}[ -/]{0,5}|O)?")


class KeyboardReader:
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


WIDEST = 100  # characters shown of a line
MOST_LINES = 20  # maximum number of lines shown of a message
CLEAR = "\r\x1b[K"  # clears the line with the cursor
PASTE_ON, PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"


def main(argv: list[str]) -> int:
    """Work on the messages from the terminal until the user ends the agent. Return the exit code."""
    options = dict(word.removeprefix("--").split("=", 1) for word in argv if word.startswith("--") and "=" in word)
    if not os.isatty(0):
        sys.stderr.write("demo agent: it needs a terminal\n")
        return 2
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    terminal = DemoTerminal(options.get("file", ""))
    before = _raw()
    try:
        return terminal.attend(options)
    except StopSignal as stopped:
        return 128 + int(stopped.args[0])
    finally:
        _write(PASTE_OFF + "\r\n")
        termios.tcsetattr(0, termios.TCSADRAIN, before)


class DemoTerminal:
    """The screen, the keyboard and the session's file."""

    def __init__(self, file: str) -> None:
        """Open `file` for the output. Write no file if it is empty."""
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600) if file else -1
        self._said: SimpleQueue[str] = SimpleQueue()
        self._keys: SimpleQueue[str] = SimpleQueue()
        self._typing = KeyboardReader()
        self._waits = ""  # "message", "key" or empty

    def attend(self, options: dict[str, str]) -> int:
        _write(PASTE_ON)
        threading.Thread(target=self._read, daemon=True).start()
        prompt = self._next()
        if prompt == LEAVE:
            return 0
        agent = DemoAgent(
            _steering(prompt), self.tell, model=options.get("model", "demo-1"), session=options.get("session", "")
        )
        agent.heard, agent.allow = prompt, self._ask
        code = self._turn(agent.work)
        if "exit" in agent.steering:
            return code
        while (text := self._next()) != LEAVE:
            self._turn(partial(agent.reply, text))
        return 0

    def tell(self, said: Said) -> None:
        """Write one line of the stream to the screen and the file."""
        for part in said["parts"] if said["type"] == "turn" else [said]:
            match part["type"]:
                case "text" | "error" | "limit" | "result":
                    self._show("● ", part["text"])
                case "tool_use":
                    self._show("  ", f"{part['tool']} {json.dumps(part['input'])}")
        if self._file >= 0:
            os.write(self._file, json.dumps(said).encode() + b"\n")

    def _turn(self, act: Callable[[], int]) -> int:
        self._show("· ", "working")
        try:
            return act()
        except StopSignal as stopped:
            if stopped.args[0] != signal.SIGINT:
                raise
            self.tell({"type": "result", "ok": False, "text": "interrupted"})
            return 0

    def _next(self) -> str:
        """Return the next message. Return LEAVE if the user ends the agent."""
        warned = False
        while True:
            self._waits = "message"
            self._draw()
            try:
                text = self._said.get()
            except StopSignal as stopped:
                if warned or stopped.args[0] != signal.SIGINT:
                    return LEAVE
                warned = True
                _write("\r\n· Ctrl-C again ends it\r\n")
                continue
            finally:
                self._waits = ""
            if text.strip():
                self._show("> ", text)
                return LEAVE if text.strip() in ("exit", LEAVE) else text

    def _ask(self, what: str) -> bool:
        """Return True if the user allows the action, by one key."""
        self._waits = "key"
        _write(f"{CLEAR}Allow {_plain(what)}? (y/n) ")
        try:
            while (key := self._keys.get()) not in ("y", "n"):
                pass
        finally:
            self._waits = ""
        _write(f"{key}\r\n")
        return key == "y"

    def _read(self) -> None:
        """Read the keyboard in a separate thread, so that the terminal never fills up during a turn."""
        while data := os.read(0, 65536):
            if self._waits == "key" and data != b"\x03":
                self._keys.put(data.decode("latin-1").rstrip("\r\n"))  # a paste is more than one key, so no answer
                continue
            for said in self._typing.feed(data):
                if said == INTERRUPT:
                    os.kill(os.getpid(), signal.SIGINT)
                else:
                    self._said.put(said)
            self._draw()
        self._said.put(LEAVE)

    def _draw(self) -> None:
        """Draw the last line: typed text that is not sent yet, also during a turn."""
        typed = _plain(self._typing.text.replace("\n", " ⏎ "))[:WIDEST]
        if self._waits != "key":
            _write(CLEAR + (f"> {typed}" if typed or self._waits == "message" else ""))

    def _show(self, sign: str, text: str) -> None:
        lines = text.splitlines() or [""]
        shown = [f"{sign}{_plain(line)[:WIDEST]}\r\n" for line in lines[:MOST_LINES]]
        if len(lines) > MOST_LINES:
            shown.append(f"{sign}… {len(lines) - MOST_LINES} lines more\r\n")
        _write(CLEAR + "".join(shown))
        self._draw()


def _steering(prompt: str) -> dict[str, str]:
    """Return the prompt's settings. By default the task stays open because a person decides when it is done."""
    steering = steering_in(prompt)
    return steering if "close" in steering else steering | {"noclose": "1"}


def _raw() -> Any:
    """Put the terminal into raw mode, so that every key arrives unprocessed. Return the previous mode."""
    before = termios.tcgetattr(0)
    now = termios.tcgetattr(0)
    now[0] &= ~(termios.ICRNL | termios.IXON)
    now[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
    termios.tcsetattr(0, termios.TCSADRAIN, now)
    return before


def _plain(text: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in text)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _stop(number: int, _frame: FrameType | None) -> NoReturn:
    raise StopSignal(number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
