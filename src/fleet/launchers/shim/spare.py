"""A spare: the shim of a terminal that is there before anybody needs it, with everything in memory.

It holds the lock of a folder of its own and a connection to whoever keeps it, on the socket `call` there. What comes on
that is `{"folder": …, "token": …, "apart": …}`: the lock has been moved to that folder by then, and the spare becomes
the shim there. It says `taken` when it has taken the spec, and lets go of the connection. When that ends before, or the
terminal goes, it goes too.
"""

# contextlib would cost as much as all of this.
# ruff: noqa: SIM105

import os
import select
import sys
from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM, socket

from fleet.launchers.shim.apart import Apart
from fleet.launchers.shim.apart_program import make_tree
from fleet.launchers.shim.jsonlines import decode
from fleet.launchers.shim.program import settle
from fleet.launchers.shim.terminal import ignore_keys, keep, take_lock, take_spec
from fleet.launchers.shim.title import Title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONGEST_REQUEST = 64 * 1024


def main() -> None:
    """`… <folder> <lock> <room>`: the lock is a descriptor that is held, or `-`: then it is taken here."""
    folder, lock, _ = sys.argv[-3:]
    title = Title()
    umask = settle(folder)
    ignore_keys()
    os.set_inheritable(take_lock() if lock == "-" else int(lock), False)
    link = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC)
    link.connect("call")
    os.chdir("/")
    asked = _wait(link)
    title.end_in(asked["folder"])
    os.chdir(asked["folder"])
    spec = take_spec(asked["token"])
    try:
        link.sendall(b"taken")
    except OSError:
        pass  # killed meanwhile: its successor finds us by the lock
    link.close()
    keep(spec, umask, make_tree, Apart if asked["apart"] else None)


def _wait(link: socket) -> "dict[str, Any]":
    """What we are for; the end of this process when it is for nothing."""
    poll = select.poll()
    poll.register(link.fileno(), select.POLLIN)
    poll.register(0, 0)  # the terminal: only that it went
    heard = b""
    while not heard.endswith(b"\n"):
        if any(handle == 0 for handle, _ in poll.poll()):
            os._exit(0)
        try:
            data = link.recv(LONGEST_REQUEST)
        except OSError:
            data = b""
        if not data or len(heard) > LONGEST_REQUEST:
            os._exit(0)
        heard += data
    return decode(heard)
