"""An empty queue in a file in memory, for tests that need a store and do not care which."""

import shutil
import tempfile
import weakref
from collections.abc import Callable
from datetime import datetime

from fleet.core import clock
from fleet.store.sqlite.store import SqliteStore
from leftovers import memory_folder


def open_queue(now: Callable[[], datetime] = clock.now) -> SqliteStore:
    """Return an empty queue. Its folder is removed when nothing refers to the queue anymore."""
    folder = tempfile.mkdtemp(prefix="fleet-queue-", dir=memory_folder())
    store = SqliteStore(f"{folder}/fleet.db", make=True, now=now)
    weakref.finalize(store, shutil.rmtree, folder, ignore_errors=True).atexit = False  # may run in forked processes
    return store
