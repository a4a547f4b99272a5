"""The control socket: every process with access to the folder may connect. A client that does not read is dropped."""

import os
import time
from _socket import AF_UNIX, SOCK_STREAM, socket

from fleet.agents.shim.jsonlines import decode, encode

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fleet.agents.shim.loop import DescriptorLoop
    from fleet.agents.shim.tree import ProcessTree


# contextlib would cost as much start time as the rest.
# ruff: noqa: SIM105


MOST_CLIENTS = 16
LONGEST_REQUEST = 32 * 1024 * 1024
LONGEST_BACKLOG = 128 * 1024


class Client:
    """One connection to the socket."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self.heard = bytearray()
        self.unsent = bytearray()


class Control:
    """Listener in the current folder. It uses a relative path because an absolute one may exceed a socket address."""

    def __init__(self, loop: "DescriptorLoop", answer: "Callable[[dict[str, Any]], dict[str, Any]]") -> None:
        self._loop = loop
        self._answer = answer
        self._clients: list[Client] = []
        _remove("control")
        self._listener = socket(AF_UNIX, SOCK_STREAM)
        self._listener.setblocking(False)
        self._listener.bind("control")
        self._listener.listen(64)
        loop.read(self._listener.fileno(), self._accept)

    def tell(self, message: "dict[str, Any]") -> None:
        for client in list(self._clients):
            self._send(client, _line(message))

    def close(self) -> None:
        _remove("control")

    def _accept(self) -> None:
        try:
            handle, _ = self._listener._accept()  # type: ignore[attr-defined]
        except OSError:
            return
        os.set_inheritable(handle, False)
        os.set_blocking(handle, False)
        if len(self._clients) >= MOST_CLIENTS:
            self._drop(self._clients[0])
        client = Client(handle)
        self._clients.append(client)
        self._loop.read(handle, lambda: self._hear(client))
        self._send(client, _line({"version": 1, "state": self._answer({"do": "state"})}))

    def _hear(self, client: Client) -> None:
        try:
            data = os.read(client.handle, 256 * 1024)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        client.heard += data
        if not data or len(client.heard) > LONGEST_REQUEST:
            self._drop(client)
            return
        if b"\n" not in data:
            return
        *lines, rest = bytes(client.heard).split(b"\n")
        client.heard = bytearray(rest)
        for line in lines:
            if client not in self._clients:
                break  # it sends requests but does not read
            self._send(client, _line(self._reply(line)))

    def _reply(self, line: bytes) -> "dict[str, Any]":
        try:
            request = decode(line)
        except ValueError as error:
            return {"id": None, "error": str(error)}
        return {"id": request.get("id"), **self._answer(request)}

    def _send(self, client: Client, line: bytes) -> None:
        client.unsent += line
        self._flush(client)
        if len(client.unsent) > LONGEST_BACKLOG:
            self._drop(client)

    def _flush(self, client: Client) -> None:
        try:
            while client.unsent and client in self._clients:
                del client.unsent[: os.write(client.handle, client.unsent)]
        except BlockingIOError:
            self._loop.write(client.handle, lambda: self._flush(client))
        except OSError:
            self._drop(client)
        else:
            self._loop.write(client.handle, None)

    def _drop(self, client: Client) -> None:
        if client in self._clients:
            self._clients.remove(client)
            self._loop.forget(client.handle)
            os.close(client.handle)


def _line(message: "dict[str, Any]") -> bytes:
    return encode(message).encode() + b"\n"


def _remove(name: str) -> None:
    try:
        os.unlink(name)  # noqa: PTH108
    except OSError:
        pass


#: How often a tree with a deadline is checked. Kernel waits do not count the time during which a machine slept.
LOOK_SECONDS = 1.0
#: No message is delayed longer. A greater difference means two different clocks.
LONGEST_WAY = 600.0
#: A clock that cannot be set. It also runs while the machine sleeps, if the system has such a clock.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def clock() -> float:
    """Return the seconds of the machine's own clock, which is the same for every process."""
    return time.clock_gettime(_CLOCK)


class TreeDeadline:
    """The deadline of one tree, and its freeze times."""

    def __init__(self, tree: "ProcessTree") -> None:
        self._tree = tree
        self._at: float | None = None
        self._look_at: float | None = None
        self._since: float | None = None  # frozen since then; None: not frozen
        self._before = 0.0  # seconds frozen before that

    @property
    def is_frozen(self) -> bool:
        return self._since is not None

    @property
    def frozen_seconds(self) -> float:
        """Return how long the tree has been frozen in total."""
        return self._before + (clock() - self._since if self._since is not None else 0.0)

    def state(self) -> "dict[str, object]":
        return {"fenced": self._at is not None or self.is_frozen, "frozen": round(self.frozen_seconds, 3)}

    def put_off(self, seconds: float, counted_at: float | None = None) -> None:
        """Let the tree run for `seconds`, counted from `counted_at`. Freeze it if none are left."""
        now = clock()
        if counted_at is not None and 0 < now - counted_at < LONGEST_WAY:
            seconds -= now - counted_at
        if not seconds > 0:
            self.freeze()
            return
        self._at = now + seconds
        self._thaw()
        self._look_at = now + min(seconds, LOOK_SECONDS)

    def lift(self) -> None:
        """Let the tree run without limit."""
        self._at = self._look_at = None
        self._thaw()

    def freeze(self) -> int:
        """Freeze the tree until it gets more time. Return how many of its processes still move."""
        now = clock()
        self._since = now if self._since is None else self._since
        self._look_at = now + LOOK_SECONDS
        return self._tree.freeze()

    def keep(self) -> None:
        """Freeze a tree whose deadline has passed. Refreeze a frozen tree that something has resumed."""
        now = clock()
        if self._look_at is None or now < self._look_at:
            return
        if self.is_frozen or (self._at is not None and now >= self._at):
            self.freeze()
        elif self._at is not None:
            self._look_at = now + min(self._at - now, LOOK_SECONDS)

    def pause(self) -> float | None:
        """Return the seconds until the next check. Return None if no check is due."""
        return None if self._look_at is None else max(0.0, self._look_at - clock())

    def _thaw(self) -> None:
        if self._since is not None:
            self._before, self._since = self.frozen_seconds, None
            self._tree.thaw()
