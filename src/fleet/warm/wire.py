"""What is said on the socket of warm commands, and where it lies: no more is imported than a command can wait for.

The caller connects and sends one request (`pack`). The answer is `READY` with a descriptor of the process that is to be
the command, or nothing: then the caller runs it itself. It begins at `GO`, with which the caller's stdin, stdout,
stderr and directory come, and not at all when the caller has gone meanwhile. Its end is its exit code, one byte.

The descriptors come last, because they stay open in a socket that nobody reads: whoever waits for the end of a stream
would wait for a warm process that hangs.
"""

# On the path of every command: nothing heavy is imported.
# ruff: noqa: PTH118
from __future__ import annotations

import _socket
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.home import Home

#: What both ends must have in common.
VERSION = b"fleet-warm-1"
#: The socket, in a folder of the home that nobody else may enter.
FOLDER, NAME = "warm", "commands"
READY, GO = b"+", b"!"
#: Stdin, stdout, stderr and the directory.
HANDLES = 4
#: More than a system takes for arguments and environment.
LONGEST = 8 * 1024 * 1024
_INT = 4
_CREDENTIALS = 3 * _INT


class Garbled(Exception):
    """What came is not what is said here."""


def folder(home: Home) -> str:
    """Where the socket of a home lies."""
    return os.path.join(home.root, FOLDER)


def pack(parts: Sequence[bytes]) -> bytes:
    """Byte strings as one that says its own length first."""
    body = b"".join(b"%d:%s" % (len(part), part) for part in parts)
    return len(body).to_bytes(_INT, "big") + body


def unpack(body: bytes) -> list[bytes]:
    """The byte strings of a body. Raises Garbled."""
    parts, at = [], 0
    while at < len(body):
        colon = body.find(b":", at, at + 9)
        if colon < 0 or not body[at:colon].isdigit():
            raise Garbled("no length")
        end = colon + 1 + int(body[at:colon])
        if end > len(body):
            raise Garbled("cut short")
        parts.append(body[colon + 1 : end])
        at = end
    return parts


def send_handles(link: _socket.socket, data: bytes, handles: Sequence[int]) -> None:
    """Send a byte, and descriptors with it."""
    numbers = b"".join(handle.to_bytes(_INT, sys.byteorder) for handle in handles)
    link.sendmsg([data], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)])


def receive_handles(link: _socket.socket, wanted: bytes, count: int) -> list[int]:
    """The descriptors that come with a byte. Raises Garbled for any other byte or number of them, OSError."""
    data, extras, flags, _ = link.recvmsg(1, _socket.CMSG_SPACE(count * _INT), _socket.MSG_CMSG_CLOEXEC)
    found = []
    for level, kind, numbers in extras:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            starts = range(0, len(numbers) - len(numbers) % _INT, _INT)
            found += [int.from_bytes(numbers[at : at + _INT], sys.byteorder) for at in starts]
    if data != wanted or len(found) != count or flags & _socket.MSG_CTRUNC:
        raise Garbled("something else")
    return found


def receive_request(link: _socket.socket) -> list[bytes]:
    """A whole request. Raises Garbled, OSError."""
    length = int.from_bytes(_exactly(link, _INT), "big")
    if length > LONGEST:
        raise Garbled("too long")
    return unpack(_exactly(link, length))


def peer(link: _socket.socket) -> tuple[int, int]:
    """Process and user at the other end, as the kernel says; a process that cannot be seen from here is 0."""
    told = link.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _CREDENTIALS)
    return int.from_bytes(told[:_INT], sys.byteorder), int.from_bytes(told[_INT : 2 * _INT], sys.byteorder)


def _exactly(link: _socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        more = link.recv(min(length - len(data), 1024 * 1024))
        if not more:
            raise Garbled("cut short")
        data += more
    return bytes(data)
