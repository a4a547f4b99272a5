"""The starter: a process that has the shim in memory and forks one for each agent, without Python's start time.

It reads requests from a socket until the other end closes. A request is `{"folder": …, "space": …, "apart": …}` with
two descriptors. The first is the folder's lock, which is held. The second is a pipe on which the shim reports that it
is ready, or why it is not. The space is a PID namespace, "plain" or inside a "user" namespace, or "" for none.

Such a shim equals one that was started separately. It has no parent but init, its own session, no descriptor but the
lock, and its folder in its command line. The starter cannot end it.
"""

# contextlib would cost as much start time as the rest.
# ruff: noqa: SIM105

import _signal  # type: ignore[import-not-found]  # see process.py
import gc
import os
import sys
from _socket import CMSG_LEN, MSG_CMSG_CLOEXEC, SCM_RIGHTS, SOL_SOCKET, socket

from fleet.agents.shim.jsonlines import decode
from fleet.agents.shim.mounts import NODEV, NOSUID, PRIVATE, REC, Kernel
from fleet.agents.shim.program import keep
from fleet.agents.shim.sandbox import NEWNS, NEWUSER, Sandbox, map_user
from fleet.agents.shim.sandboxed import make_tree
from fleet.agents.shim.title import Title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

NEWPID, NOEXEC = 0x20000000, 8
LONGEST_REQUEST = 64 * 1024
#: The lock's descriptor in a shim. Higher descriptors are closed.
LOCK, HIGHEST = 3, 1024


def main() -> None:
    """Run `… <socket> <room>`: serve until the other end is closed."""
    title, kernel = Title(), Kernel()
    title.end_in("")  # keeps the padding out of `ps`
    link = socket(fileno=int(sys.argv[-2]))
    os.set_inheritable(link.fileno(), False)
    _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)  # nothing waits for the forked processes
    gc.collect()
    gc.freeze()  # existing objects are never garbage; excluding them keeps their memory shared with the forks
    while True:
        data, given, _, _ = link.recvmsg(LONGEST_REQUEST, CMSG_LEN(2 * 4), MSG_CMSG_CLOEXEC)
        if not data:
            return
        handles = [handle for *kind, numbers in given if kind == [SOL_SOCKET, SCM_RIGHTS] for handle in _ints(numbers)]
        try:
            lock, saying = handles
            ShimStart(title, kernel, decode(data), lock, saying).fork()
        except (OSError, ValueError, KeyError) as error:
            _say(handles[-1], error)
        finally:
            for handle in handles:
                os.close(handle)


class ShimStart:
    """One shim, from the request until it runs its own code."""

    def __init__(self, title: Title, kernel: Kernel, asked: "dict[str, Any]", lock: int, saying: int) -> None:
        self._title, self._kernel = title, kernel
        self._folder, self._space = str(asked["folder"]), str(asked["space"])
        self._apart = bool(asked["apart"])
        self._lock, self._saying = lock, saying

    def fork(self) -> None:
        """Start the shim as a child of init. The process in between exits at once."""
        if os.fork() == 0:
            self._finish(self._leave)

    def _finish(self, do: "Callable[[], None]") -> "NoReturn":
        """Call `do` and exit. Never return into the starter's own code."""
        try:
            do()
        except BaseException as error:  # noqa: BLE001 - a shim reports every error that prevents its start
            _say(self._saying, error)
        finally:
            os.close(self._lock)  # before the pipe: a reader that sees its end finds the folder free
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
        keep(self._folder, LOCK, make_tree, Sandbox if self._apart else None)

    def _hold(self) -> None:
        """Continue as the first process of a PID namespace. The parent stays outside.

        It holds the lock until the last process inside has ended.
        """
        self._title.be("fleet-unshare", self._folder)  # so that it is not mistaken for the shim
        who = (os.geteuid(), os.getegid())
        user = NEWUSER if self._space == "user" else 0
        if not self._kernel.unshare(NEWPID | NEWNS | user):
            raise OSError("PID namespaces are not available")
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
            self._kernel.drop_capabilities()  # a program executed there would have none either

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
