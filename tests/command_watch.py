"""A watch on all command lines of the machine, to see if another user could read a text in one."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from supervised import commands


@contextmanager
def watched(secret: str) -> Iterator[list[str]]:
    """Watch the command lines of all processes. Yields a list of the command lines that contain the secret."""
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
