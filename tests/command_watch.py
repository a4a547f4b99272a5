"""Who could read a text in a command line: every process of the machine is looked at, as often as can be."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from supervised import commands


@contextmanager
def watched(secret: str) -> Iterator[list[str]]:
    """Watch the command lines of all processes; yields those that hold the secret."""
    found: list[str] = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.01):
            lines = (os.fsdecode(b" ".join(words)) for _, words in commands())
            found.extend(line for line in lines if secret in line)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield found
    finally:
        over.set()
        watcher.join()
