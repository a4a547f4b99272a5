"""The HTTP side of the model server: it reads requests and sends answers, spoiled if the script says so."""

import re
import socket
import sys
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from model_server.answering import Answered, answer, refused
from model_server.scenario import Fault, Script
from model_server.seen import Request, Requests, key_of, plain_path, without_secrets
from model_server.wire import Reply

#: No CLI sends this much. A request that announces more is refused.
LARGEST = 64 * 1024 * 1024

PREFIX = re.compile(r"/s/([^/]+)(/.*)?")

#: A function that finds the id and script of a scenario, by the path or by the key of a request.
Find = Callable[[str, str], tuple[str, Script] | None]


class Listening(ThreadingHTTPServer):
    """An HTTP server with a thread per connection.

    Closing the server ends all of them, even those that hang on purpose.
    """

    daemon_threads = False

    def __init__(self, listener: socket.socket, find: Find, seen: Requests) -> None:
        super().__init__(listener.getsockname(), Conversation, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.server_port = listener.getsockname()[1]
        self.find, self.seen, self.began = find, seen, time.monotonic()
        self._open: set[socket.socket] = set()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept a connection and record it."""
        connection, address = super().get_request()
        self._open.add(connection)
        return connection, address

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection that has ended."""
        self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """End every connection and wait for the threads."""
        for connection in list(self._open):
            _end(connection)
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connections that a killed CLI drops. Any other error is a bug here."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class Conversation(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    server: Listening

    def handle_any(self) -> None:
        """Answer one request. Record the request before the answer is sent, so that a reader of the answer finds it."""
        path, headers = plain_path(self.path), {name.lower(): value for name, value in self.headers.items()}
        named = PREFIX.fullmatch(path)
        found = self.server.find(named[1] if named else "", key_of(headers))
        raw = self._body()
        if raw is None:
            answered = Answered(refused(413, f"more than {LARGEST} bytes, or of unknown length"))
            self.close_connection = True
        elif found is None:
            answered = Answered(refused(404, f"no scenario at {path}, and none with the key that was shown"))
        else:
            inner = (named[2] if named else path) or "/"
            answered = answer(found[1], self.command, inner, headers, raw, now=int(time.time()))
        self.server.seen.add(self._request(found[0] if found else "", path, headers, answered))
        self._send(answered.reply, answered.spoiled)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = handle_any  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing: `seen` records the requests."""

    def _request(self, scenario: str, path: str, headers: dict[str, str], answered: Answered) -> Request:
        asked = answered.asked
        return Request(
            method=self.command,
            path=path,
            scenario=scenario,
            status=0 if answered.spoiled is Fault.HANG else answered.reply.status,
            seconds=time.monotonic() - self.server.began,
            headers=without_secrets(headers),
            wire=answered.wire,
            model=asked.model if asked else "",
            turn=answered.turn,
            said=asked.said if asked else (),
            tools=tuple(asked.tools) if asked else (),
            text=answered.text,
        )

    def _body(self) -> bytes | None:
        if self.headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunked_body()
        length = self.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > LARGEST:
            return None
        return self.rfile.read(int(length))

    def _chunked_body(self) -> bytes | None:
        body = b""
        while len(body) <= LARGEST:
            size = self.rfile.readline(100).split(b";")[0].strip()
            if not re.fullmatch(rb"[0-9a-fA-F]{1,8}", size):
                return None
            body += self.rfile.read(min(int(size, 16), LARGEST + 1))
            self.rfile.readline(100)
            if int(size, 16) == 0:
                return body
        return None

    def _send(self, reply: Reply, spoiled: Fault | None) -> None:
        if spoiled is Fault.HANG:
            return self._wait()
        self.send_response(reply.status)
        self.send_header("content-type", reply.kind)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        in_chunks = reply.kind == "text/event-stream"
        length = str(sum(map(len, reply.parts)))
        self.send_header(*(("transfer-encoding", "chunked") if in_chunks else ("content-length", length)))
        self.end_headers()
        if self.command != "HEAD":
            self._send_parts(reply.parts, in_chunks, spoiled)
        return None

    def _send_parts(self, parts: tuple[bytes, ...], in_chunks: bool, spoiled: Fault | None) -> None:
        for part in parts[: len(parts) // 2] if spoiled else parts:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part) if in_chunks else part)
        if spoiled is Fault.STALL:
            self._wait()
        elif spoiled is Fault.CUT:
            self.close_connection = True
        elif in_chunks:
            self.wfile.write(b"0\r\n\r\n")

    def _wait(self) -> None:
        """Send nothing until the other side or the server closes the connection."""
        self.close_connection = True
        self.connection.recv(1)


def _end(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # the connection has ended
