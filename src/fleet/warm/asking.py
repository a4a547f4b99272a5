"""The end of whoever typed a command: hand it over to the warm process, or leave it to be run here.

Whatever is not as expected, before the command has begun, means that it is run here, as if there were no other way.
"""

# On the path of every command: nothing heavy is imported.
# ruff: noqa: SIM105
from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal imports enum: as much as all of this
import _socket
import os
import stat
import sys

from fleet.core.errors import FleetError
from fleet.descent import descents
from fleet.home import find
from fleet.warm import wire
from fleet.warm.likeness import is_beside, program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: What may be run elsewhere: nothing that needs the caller's own terminal, starts what lives on, or changes fleet.
COMMANDS = frozenset(
    {"create", "new", "fanout", "multi", "list", "ls", "ps", "l", "kill", "rm", "done", "diff", "logs", "log"}
    | {"tasks", "task", "show", "ready", "runs", "questions", "answer", "prompt", "send", "interrupt"}
    | {"retry", "pause", "resume", "wait", "accounts"}
)
#: These ask whoever sits at the terminal, unless told not to.
ASKING, NOT_ASKING = ("kill", "rm", "done"), ("-y", "-f", "--yes", "--force")
#: These show a pager on a terminal.
PAGED = ("diff",)
#: How long the other end may take to be ready: a fork takes a thousandth of this, a crowd of them more.
SECONDS = 0.25
FORWARDED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGWINCH", "SIGUSR1", "SIGUSR2")
OFF = ("0", "false", "no", "off")
#: The command ended without a word, and nobody here asked it to.
VANISHED = 1


def is_off() -> bool:
    """Whether this environment wants no warm commands."""
    return os.environ.get("FLEET_WARM", "").lower() in OFF


def ask(args: list[str]) -> int | None:
    """The exit code of a command that was run warm; none when it has to be run here."""
    if sys.platform != "linux" or is_off() or not _fits(args):
        return None
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        link.settimeout(SECONDS)
        _connect(link, wire.folder(find()))
        handle = _prepare(link, args)
        where = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError, wire.Garbled, FleetError):
        link.close()
        return None
    return _Waiting(link, handle).end(where)


def _fits(args: list[str]) -> bool:
    """Whether a command can be run elsewhere. An agent's cannot: it would leave the place that its agent was put in."""
    env = os.environ
    if not args or args[0] not in COMMANDS or "FLEET_RUN_TOKEN" in env or descents() or "_FLEET_COMPLETE" in env:
        return False
    if None in (sys.stdin, sys.stdout, sys.stderr) or getattr(sys.stdout, "write_through", True) or sys.flags.inspect:
        return False
    if args[0] in ASKING and os.isatty(0) and not any(word in NOT_ASKING for word in args):
        return False
    return not (args[0] in PAGED and os.isatty(1))


def _connect(link: _socket.socket, folder: str) -> None:
    """Reach the socket in a folder that is this user's alone. Raises OSError when it, or who listens, is not."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) != 0o700:
            raise PermissionError(folder)
        link.connect(f"/proc/self/fd/{handle}/{wire.NAME}")  # short, however long the folder's own name is
    finally:
        os.close(handle)
    pid, user = wire.peer(link)
    if user != os.geteuid() or not is_beside(pid):
        raise PermissionError(folder)


def _prepare(link: _socket.socket, args: list[str]) -> int:
    """Send all that the command needs but its streams; a descriptor of the process that waits to be it."""
    streams = [f"{each.encoding} {each.errors}".encode() for each in (sys.stdin, sys.stdout, sys.stderr)]
    env = [name + b"=" + value for name, value in os.environb.items()]
    words = [os.fsencode(word) for word in (sys.argv[0], *args)]
    link.sendall(wire.pack([wire.VERSION, program(), *streams, b"%d" % len(words), *words, *env]))
    return wire.receive_handles(link, wire.READY, 1)[0]


class _Waiting:
    """Waiting for a command that runs elsewhere: what is sent to us is passed on to it."""

    def __init__(self, link: _socket.socket, handle: int) -> None:
        self._link, self._handle = link, handle
        self._last = 0

    def end(self, where: int) -> int:
        """Have it begin in a directory; its exit code."""
        for name in FORWARDED:
            number = getattr(_signal, name)
            if _signal.getsignal(number) != _signal.SIG_IGN:
                _signal.signal(number, self._pass_on)
        _signal.signal(_signal.SIGTSTP, self._pause)
        try:
            self._link.settimeout(None)
            wire.send_handles(self._link, wire.GO, (0, 1, 2, where))
            told = self._link.recv(1)
        except OSError:
            told = b""
        return told[0] if told else self._vanished()

    def _pass_on(self, number: int, _: Any) -> None:
        self._last = number if number != _signal.SIGWINCH else self._last
        self._send(number)

    def _pause(self, *_: Any) -> None:
        """Ctrl-Z: both stop, and go on together."""
        self._send(_signal.SIGSTOP)
        os.kill(os.getpid(), _signal.SIGSTOP)
        self._send(_signal.SIGCONT)

    def _send(self, number: int) -> None:
        try:
            _signal.pidfd_send_signal(self._handle, number)
        except ProcessLookupError:
            pass

    def _vanished(self) -> int:
        """It was killed: by what was sent to us, then we go the same way."""
        if self._last:
            _signal.signal(self._last, _signal.SIG_DFL)
            os.kill(os.getpid(), self._last)
        os.write(2, b"error: the command was killed before it was done\nhint:  look at what it did; try again.\n")
        return VANISHED
