"""The control socket: every process with access to the folder may connect. A client that does not read is dropped."""

# contextlib would cost as much start time as the rest.
# ruff: noqa: SIM105

import os
from _socket import AF_UNIX, SOCK_STREAM, socket

from fleet.launchers.shim.jsonlines import decode, encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fleet.launchers.shim.loop import Loop

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

    def __init__(self, loop: "Loop", answer: "Callable[[dict[str, Any]], dict[str, Any]]") -> None:
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
