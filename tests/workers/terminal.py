"""An agent in a terminal: `terminal.py <behavior> [argument…]`."""

import os
import select
import signal
import sys
import time
import tty
from pathlib import Path

BEGIN, END = b"\x1b[200~", b"\x1b[201~"


def say(words: str) -> None:
    """Print one line and flush."""
    os.write(1, words.encode() + b"\n")


def pasted(path: str) -> None:
    """Write pasted bytes to one file and later keys to another. End at a q."""
    tty.setraw(0)
    os.write(1, b"\x1b[?2004hready\r\n")
    heard = b""
    while END not in heard:
        heard += os.read(0, 65536)
    paste, _, typed = heard.partition(END)
    Path(f"{path}.new").write_bytes(paste.partition(BEGIN)[2])
    Path(f"{path}.new").rename(path)
    while not typed.endswith(b"q"):
        typed += os.read(0, 65536)
    Path(f"{path}.typed").write_bytes(typed)


def interrupted(*_: str) -> None:
    """End with 7 at Ctrl-C."""
    signal.signal(signal.SIGINT, lambda *_: os._exit(7))
    say("working")
    while True:
        time.sleep(0.1)


def suspended(*_: str) -> None:
    """Count forever and read keys. End with 8 at `finish`."""
    say("counting")
    began = time.monotonic()
    while True:
        if select.select([0], [], [], 0.1)[0] and os.read(0, 100).strip() == b"finish":
            sys.exit(8)
        say(f"{time.monotonic() - began:.1f}")


def orderly(path: str) -> None:
    """Write a file and exit with 9 when the terminal closes."""

    def order(*_: object) -> None:
        Path(path).write_text("in order")
        os._exit(9)

    signal.signal(signal.SIGHUP, order)
    say("ready")
    while True:
        time.sleep(0.1)


def mark(path: str, *_: str) -> None:
    """Write a file and stay alive."""
    Path(path).touch()
    say("first")
    time.sleep(86400)


def place(*_: str) -> None:
    """Print the properties of the terminal."""
    size = os.get_terminal_size(0)
    foreground = os.tcgetpgrp(0) == os.getpgrp() == os.getpid()
    terminals = all(os.isatty(number) for number in range(3))
    handles = [number for number in range(3, 256) if is_open(number)]
    say(f"{size.columns}x{size.lines} {foreground} {terminals} {handles}")
    say(" ".join(sorted(os.environ)))


def is_open(number: int) -> bool:
    """Return True if the descriptor is open."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
