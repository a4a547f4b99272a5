"""The warm process: it has everything imported, and forks for each command. It ends with its supervisor.

A fork takes as long as a small command: some are there before anybody calls.
"""

# ruff: noqa: PTH102
from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import stat
import sys
import threading
from typing import TYPE_CHECKING

from fleet.warm import wire
from fleet.warm.answering import Outdated, Self, answer
from fleet.warm.likeness import circumstances, files, program

if TYPE_CHECKING:
    from collections.abc import Callable

    from fleet.home import Home

#: More commands at once are run by their callers; of those, forks that wait for one.
MOST, WAITING = 64, 2
BACKLOG = 128


def serve(home: Home, load: Callable[[], Callable[[], int]]) -> None:
    """Serve the commands of a home until stdin ends. `load` imports what commands need and says what runs one."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # whatever our starter ignored, a command does not
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    seen = files()  # before anything is imported: what changes from now on is not what is in memory
    run = load()
    ours = Self(program(), seen, circumstances(os.getpid())[0])
    if threading.active_count() > 1:
        raise RuntimeError("a process with threads cannot fork")
    gc.collect()
    gc.freeze()  # what is there now is never garbage: forks share it
    handle = _folder(wire.folder(home))
    listener, mark = _listen(handle)
    try:
        _Server(listener, ours, run).serve()
    finally:
        with contextlib.suppress(OSError):  # a successor's socket stays
            if _mark(handle) == mark:
                os.unlink(wire.NAME, dir_fd=handle)


class _Server:
    """Keeps forks that wait for a caller each; whoever accepts one says so, and another is forked."""

    def __init__(self, listener: socket.socket, ours: Self, run: Callable[[], int]) -> None:
        self._listener, self._ours, self._run = listener, ours, run
        self._waiting: set[int] = set()
        self._children: set[int] = set()  # these, and those that are commands by now
        self._pid = os.getpid()
        self._told, self._tell = os.pipe()
        # Of this only we hold the other end: forks that wait see when we are gone.
        self._life, self._alive = os.pipe()
        self._woken, wake = os.pipe()
        for end in (self._tell, self._woken, wake):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)

    def serve(self) -> None:
        """Until stdin ends."""
        while True:
            while len(self._waiting) < WAITING and len(self._children) < MOST:
                self._fork()
            poll = select.poll()
            for handle in (0, self._told, self._woken, *([] if self._waiting else [self._listener.fileno()])):
                poll.register(handle, select.POLLIN)
            ready = {handle for handle, _ in poll.poll()}
            if self._told in ready:  # whose turn it was
                self._waiting -= {int(line) for line in os.read(self._told, 1 << 16).split()}
            if self._woken in ready:
                os.read(self._woken, 4096)
                self._reap()
            if 0 in ready and not os.read(0, 4096):
                return
            if self._listener.fileno() in ready:
                self._refuse()

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
                self._children.discard(pid)
                self._waiting.discard(pid)

    def _refuse(self) -> None:
        """There are too many: the caller runs its command itself."""
        with contextlib.suppress(OSError):
            self._listener.accept()[0].close()

    def _fork(self) -> None:
        pid = os.fork()
        if pid:
            self._children.add(pid)
            self._waiting.add(pid)
            return
        try:
            os.close(self._alive)
            signal.set_wakeup_fd(-1)
            link = self._caller()
            os.write(self._tell, b"%d\n" % os.getpid())
            self._listener.close()
            answer(link, self._ours, self._run)
        except Outdated:
            if os.getppid() == self._pid:
                os.kill(self._pid, signal.SIGTERM)  # the supervisor starts one anew
        finally:
            os._exit(1)

    def _caller(self) -> socket.socket:
        """Wait for one of ours. Ends with the warm process."""
        poll = select.poll()
        for handle in (self._life, self._listener.fileno()):
            poll.register(handle, select.POLLIN)
        while True:
            if self._life in {handle for handle, _ in poll.poll()}:
                os._exit(0)
            with contextlib.suppress(BlockingIOError, ConnectionAbortedError):  # another one was faster
                link, _ = self._listener.accept()
                if wire.peer(link)[1] == os.geteuid():
                    return link
                link.close()


def _folder(path: str) -> int:
    """The folder of the socket, made if it is missing, this user's alone."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    if os.fstat(handle).st_uid != os.geteuid():
        sys.exit(f"{path} belongs to another user")
    os.fchmod(handle, 0o700)
    return handle


def _listen(folder: int) -> tuple[socket.socket, tuple[int, int]]:
    """Listen in a folder, in the place of whoever did before; the socket and what tells it from others."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    draft = f"{wire.NAME}.{os.getpid()}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(draft, dir_fd=folder)
    listener.bind(f"/proc/self/fd/{folder}/{draft}")
    os.chmod(draft, stat.S_IRUSR | stat.S_IWUSR, dir_fd=folder)
    listener.listen(BACKLOG)
    listener.setblocking(False)
    os.rename(draft, wire.NAME, src_dir_fd=folder, dst_dir_fd=folder)
    return listener, _mark(folder)


def _mark(folder: int) -> tuple[int, int]:
    found = os.stat(wire.NAME, dir_fd=folder, follow_symlinks=False)
    return found.st_dev, found.st_ino
