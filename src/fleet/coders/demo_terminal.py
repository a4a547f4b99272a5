"""The demo agent at a terminal: it waits at `> ` for its prompt, works on it, and waits for what is said next.

A paste, of however many lines, is part of one message; Enter sends it. What is said while it works is its next turn.
Ctrl-C interrupts a turn; twice, or `exit`, or Ctrl-D ends it. All it says is also in a file, in the form of its stream.
Like the agent it stands for a program that is not part of fleet.
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

WIDEST = 100  # characters of a line that are shown
MOST_LINES = 20  # of what was said
CLEAR = "\r\x1b[K"  # the line that the cursor is on
PASTE_ON, PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"


def main(argv: list[str]) -> int:
    """Work on what is said until somebody ends it; the exit code."""
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
    """The screen, the keys and the file."""

    def __init__(self, file: str) -> None:
        """Keep what is said in this file; nowhere where there is none."""
        self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600) if file else -1
        self._said: SimpleQueue[str] = SimpleQueue()
        self._keys: SimpleQueue[str] = SimpleQueue()
        self._typing = Typing()
        self._waits = ""  # for a message, or for a key

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
        """One line of the stream, on the screen and in the file."""
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
        """What is said next; LEAVE where somebody wants it to end."""
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
        """Whether somebody allows it, by one key."""
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
        """In a thread of its own: however much is pasted while it works, the terminal never fills up."""
        while data := os.read(0, 65536):
            if self._waits == "key" and data != b"\x03":
                self._keys.put(data.decode("latin-1").rstrip("\r\n"))  # a paste is more than a key, and no answer
                continue
            for said in self._typing.feed(data):
                if said == INTERRUPT:
                    os.kill(os.getpid(), signal.SIGINT)
                else:
                    self._said.put(said)
            self._draw()
        self._said.put(LEAVE)

    def _draw(self) -> None:
        """The last line: what is typed and not sent yet, also while it works."""
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
    """A person is there to say when the task is done."""
    steering = steering_in(prompt)
    return steering if "close" in steering else steering | {"noclose": "1"}


def _raw() -> Any:
    """Every key as it comes, none of them with a meaning to the terminal; and how it was before."""
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
