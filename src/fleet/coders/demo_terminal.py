"""The demo agent in a terminal: it waits at `> ` for a prompt, works on it, and waits for the next message.

A paste of any number of lines is part of one message; Enter sends the message. Messages typed during a turn start the
next turn. Ctrl-C interrupts a turn. Ctrl-C twice, `exit` or Ctrl-D ends the agent. It also writes its output to a file,
in the format of its stream. Like the agent, it represents a program that is not part of fleet.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import termios
import threading
from functools import partial
from queue import SimpleQueue

from fleet.coders.demo_agent import Agent, Stopped, steering_in
from fleet.coders.demo_typing import INTERRUPT, LEAVE, Typing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import Any, NoReturn

    from fleet.coders.demo_agent import Said

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
    terminal = Terminal(options.get("file", ""))
    before = _raw()
    try:
        return terminal.attend(options)
    except Stopped as stopped:
        return 128 + int(stopped.args[0])
    finally:
        _write(PASTE_OFF + "\r\n")
        termios.tcsetattr(0, termios.TCSADRAIN, before)


class Terminal:
    """The screen, the keyboard and the session's file."""

    def __init__(self, file: str) -> None:
        """Open `file` for the output. Write no file if it is empty."""
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600) if file else -1
        self._said: SimpleQueue[str] = SimpleQueue()
        self._keys: SimpleQueue[str] = SimpleQueue()
        self._typing = Typing()
        self._waits = ""  # "message", "key" or empty

    def attend(self, options: dict[str, str]) -> int:
        _write(PASTE_ON)
        threading.Thread(target=self._read, daemon=True).start()
        prompt = self._next()
        if prompt == LEAVE:
            return 0
        agent = Agent(
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
        except Stopped as stopped:
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
            except Stopped as stopped:
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
    raise Stopped(number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
