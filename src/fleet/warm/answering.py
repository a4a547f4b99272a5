"""The fork of the warm process that becomes a command: what the caller is, it is too; then it runs."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from fleet.warm import wire
from fleet.warm.likeness import circumstances, fact_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    from fleet.warm.likeness import Fact

#: How long a caller may take to say what it wants, and that it still wants it.
SECONDS = 5.0
#: What a shell reports of a command that was interrupted.
INTERRUPTED = 130


class Self(NamedTuple):
    """What the warm process was when it started: what its forks must find in whoever calls."""

    program: bytes
    files: list[tuple[str, Fact]]
    facts: list[str]


class Request(NamedTuple):
    """What a caller sent."""

    program: bytes
    streams: list[list[str]]  # of stdin, stdout and stderr: encoding and what is done about errors
    words: list[str]
    env: list[tuple[bytes, bytes]]


class Outdated(Exception):
    """The program on the disk is not the one in memory any more."""


def answer(link: socket.socket, ours: Self, run: Callable[[], int]) -> NoReturn:
    """Be the command that is asked for, and end; or end at once, which leaves it to the caller.

    Raises Outdated where the warm process itself should go.
    """
    try:
        link.settimeout(SECONDS)
        request = read(link)
        umask = _check(link, ours, request)
        wire.send_handles(link, wire.READY, [os.pidfd_open(os.getpid())])
        _become(request, wire.receive_handles(link, wire.GO, wire.HANDLES), umask)
        _end_with(link)
    except (OSError, ValueError, LookupError, wire.Garbled):
        os._exit(1)
    code = _run(run)
    _say(link, code)
    os._exit(code)


def read(link: socket.socket) -> Request:
    """A request, whole. Raises Garbled, ValueError, LookupError, OSError."""
    parts = wire.receive_request(link)
    if parts[0] != wire.VERSION:
        raise wire.Garbled("another version")
    count = int(parts[5])
    words, pairs = parts[6 : 6 + count], [part.partition(b"=") for part in parts[6 + count :]]
    if not 1 <= count == len(words) or not all(name and equals for name, equals, _ in pairs):
        raise wire.Garbled("no command line")
    streams = [part.decode("ascii").split(" ") for part in parts[2:5]]
    env = [(name, value) for name, _, value in pairs]
    return Request(parts[1], streams, [os.fsdecode(word) for word in words], env)


def _check(link: socket.socket, ours: Self, request: Request) -> int:
    """The caller's umask, where a fork of ours is what it is. Raises Outdated, and PermissionError where not."""
    for path, fact in ours.files:
        if fact_of(path) != fact:
            raise Outdated
    pid, user = wire.peer(link)
    facts, umask = circumstances(pid)
    if request.program != ours.program or user != os.geteuid() or facts != ours.facts:
        raise PermissionError(pid)
    return umask


def _become(request: Request, handles: list[int], umask: int) -> None:
    """Take over what the caller has: streams, directory, environment, umask, command line."""
    *streams, where = handles
    for number, handle in enumerate(streams):
        os.dup2(handle, number)
        os.close(handle)
    os.fchdir(where)
    os.close(where)
    os.umask(umask)
    for variable in list(os.environb):
        del os.environb[variable]
    os.environb.update(request.env)
    time.tzset()
    sys.argv = list(request.words)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = _stream(number, *request.streams[number])
        vars(sys)[name] = vars(sys)[f"__{name}__"] = stream
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _stream(number: int, encoding: str, errors: str) -> Any:
    mode, buffering = ("r", -1) if number == 0 else ("w", 1 if number == 2 else -1)
    return open(number, mode, buffering, encoding=encoding, errors=errors, closefd=False)


def _end_with(link: socket.socket) -> None:
    """Have the kernel end this process when the caller is gone. Raises OSError when it is gone already."""
    handle = link.fileno()
    link.settimeout(None)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGHUP)
    fcntl.fcntl(handle, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(handle, fcntl.F_SETFL, fcntl.fcntl(handle, fcntl.F_GETFL) | os.O_ASYNC)
    with contextlib.suppress(BlockingIOError):
        link.recv(1, socket.MSG_DONTWAIT)
        raise BrokenPipeError("the caller is gone")


def _run(run: Callable[[], int]) -> int:
    """What a process of its own does from its first line to its end."""
    try:
        code = run()
    except SystemExit as end:
        code = _code(end.code)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BaseException:  # noqa: BLE001 - what the interpreter does at its outermost
        sys.excepthook(*sys.exc_info())
        code = 1
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    return code & 0xFF


def _code(said: object) -> int:
    """The exit code of a SystemExit; a text is printed, as the interpreter does."""
    if said is None or isinstance(said, int):
        return said or 0
    sys.stderr.write(f"{said}\n")
    return 1


def _say(link: socket.socket, code: int) -> None:
    with contextlib.suppress(OSError):
        handle = link.fileno()
        fcntl.fcntl(handle, fcntl.F_SETFL, fcntl.fcntl(handle, fcntl.F_GETFL) & ~os.O_ASYNC)
        link.sendall(bytes([code]))
