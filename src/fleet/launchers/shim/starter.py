"""The starter: a process that has the shim in memory and forks one for each agent, so that none waits for Python.

It reads from a socket until whoever holds the other end is gone. A request is `{"folder": …, "space": …, "apart": …}`
with two descriptors: the lock of the folder, which is held, and the pipe on which the shim says that it is ready, or
why not. The space is a PID namespace, "plain" or inside a "user" namespace, or "" for none. A shim that comes out of
this is the same as one that was started alone: no parent but init, a session of its own, no descriptor but the lock,
its folder in its command line. It is not the starter's to end.
"""

# contextlib would cost as much as all of this.
# ruff: noqa: SIM105

import _signal  # type: ignore[import-not-found]  # see process.py
import gc
import os
import sys
from _socket import CMSG_LEN, MSG_CMSG_CLOEXEC, SCM_RIGHTS, SOL_SOCKET, socket

from fleet.launchers.shim.apart import NEWNS, NEWUSER, Apart, map_user
from fleet.launchers.shim.apart_program import make_tree
from fleet.launchers.shim.covers import NODEV, NOSUID, PRIVATE, REC, Kernel
from fleet.launchers.shim.jsonlines import decode
from fleet.launchers.shim.program import keep
from fleet.launchers.shim.title import Title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

NEWPID, NOEXEC = 0x20000000, 8
LONGEST_REQUEST = 64 * 1024
#: The lock, in a shim; nothing above it is open.
LOCK, HIGHEST = 3, 1024


def main() -> None:
    """`… <socket> <room>`: serve until the other end is closed."""
    title, kernel = Title(), Kernel()
    title.end_in("")  # `ps` need not show the room
    link = socket(fileno=int(sys.argv[-2]))
    os.set_inheritable(link.fileno(), False)
    _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)  # what is forked here is waited for by nobody
    gc.collect()
    gc.freeze()  # what is there now is never garbage: forks share it
    while True:
        data, given, _, _ = link.recvmsg(LONGEST_REQUEST, CMSG_LEN(2 * 4), MSG_CMSG_CLOEXEC)
        if not data:
            return
        handles = [handle for *kind, numbers in given if kind == [SOL_SOCKET, SCM_RIGHTS] for handle in _ints(numbers)]
        try:
            lock, saying = handles
            Start(title, kernel, decode(data), lock, saying).fork()
        except (OSError, ValueError, KeyError) as error:
            _say(handles[-1], error)
        finally:
            for handle in handles:
                os.close(handle)


class Start:
    """One shim, from the request to its first own step."""

    def __init__(self, title: Title, kernel: Kernel, asked: "dict[str, Any]", lock: int, saying: int) -> None:
        self._title, self._kernel = title, kernel
        self._folder, self._space = str(asked["folder"]), str(asked["space"])
        self._apart = bool(asked["apart"])
        self._lock, self._saying = lock, saying

    def fork(self) -> None:
        """Start it, as nobody's child: whoever stands between ends at once."""
        if os.fork() == 0:
            self._finish(self._leave)

    def _finish(self, do: "Callable[[], None]") -> "NoReturn":
        """Do this and end; never return into the starter's own code."""
        try:
            do()
        except BaseException as error:  # noqa: BLE001 - a shim that cannot be says so, whatever it is
            _say(self._saying, error)
        finally:
            os.close(self._lock)  # before the pipe: who hears of the end finds the folder free
            os._exit(0)

    def _leave(self) -> None:
        os.setsid()
        if os.fork() == 0:
            self._finish(self._be)

    def _be(self) -> None:
        self._take_descriptors()
        for number in (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM, _signal.SIGQUIT):
            _signal.signal(number, _signal.SIG_IGN)  # as the shim itself does
        _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
        if self._space:
            self._hold()
        self._title.end_in(self._folder)
        keep(self._folder, LOCK, make_tree, Apart if self._apart else None)

    def _hold(self) -> None:
        """Go on as the first process of a PID namespace. We stay outside and hold the lock until the last is gone."""
        self._title.be("fleet-unshare", self._folder)  # not to be taken for the shim
        who = (os.geteuid(), os.getegid())
        user = NEWUSER if self._space == "user" else 0
        if not self._kernel.unshare(NEWPID | NEWNS | user):
            raise OSError("no PID namespace is to be had")
        if user:
            map_user(*who)
        self._kernel.mount("", "/", flags=REC | PRIVATE)
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
            os.close(LOCK)
            os._exit(0)
        self._kernel.mount("proc", "/proc", "proc", NOSUID | NODEV | NOEXEC)
        if user and os.geteuid():
            self._kernel.drop_capabilities()  # which a program that is begun there does not have

    def _take_descriptors(self) -> None:
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for number, handle in enumerate((nothing, self._saying, self._saying)):
            os.dup2(handle, number)
        os.dup2(self._lock, LOCK)
        os.closerange(LOCK + 1, HIGHEST)
        self._lock, self._saying = LOCK, 1


def _say(saying: int, error: BaseException) -> None:
    try:
        os.write(saying, f"{error or type(error).__name__}\n".encode("utf-8", "replace")[:2000])
    except OSError:
        pass


def _ints(data: bytes) -> list[int]:
    return [int.from_bytes(data[at : at + 4], sys.byteorder) for at in range(0, len(data) - 3, 4)]
