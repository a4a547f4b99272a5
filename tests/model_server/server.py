"""The scripted model: an HTTP server on loopback that answers each wire format from scenarios."""

import socket
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Self

from model_server.listening import Listening
from model_server.scenario import Script, Turn, turn_from
from model_server.seen import Request, Requests, turns

#: For some formats, the base URL in CLIs ends in a version.
SUFFIXES = {"anthropic": "", "responses": "/v1", "chat": "/v1", "gemini": ""}


class Scenario(NamedTuple):
    """One script on a running server: its address for a CLI, and its requests."""

    id: str
    key: str  # a CLI with this key gets this scenario on any path
    root: str  # the server's address
    script: Script
    log: Requests

    def url(self, wire: str) -> str:
        """Return the base URL for a CLI with this wire format: anthropic, responses, chat or gemini."""
        return f"{self.root}/s/{self.id}{SUFFIXES[wire]}"

    def requests(self) -> list[Request]:
        """Return the requests so far, in order."""
        return self.log.of(self.id)

    def turns(self) -> list[Request]:
        """Return the requests that got a turn, without side requests."""
        return turns(self.requests())

    def wait_for(self, count: int = 1, *, seconds: float = 60) -> list[Request]:
        """Wait until this many requests got a turn, and return them. Raises TimeoutError."""
        return self.log.wait_for(self.id, count, seconds)


class ModelServer:
    """A server of scenarios in a thread, as a context manager."""

    def __init__(self, listener: socket.socket | None = None) -> None:
        """Listen on a free port of loopback, or on a given open socket."""
        self._scenarios: dict[str, Scenario] = {}
        self.log = Requests()
        self._http = Listening(listener or loopback(), self._find, self.log)
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), name="model server", daemon=True)
        self._thread.start()

    def scenario(
        self, turns: Sequence[Turn | Mapping[str, Any]], *, name: str = "", per_conversation: bool = False
    ) -> Scenario:
        """Return a new scenario, whose turns may be plain data. Raises UnfitTurns."""
        script = Script(
            [turn if isinstance(turn, Turn) else turn_from(turn) for turn in turns], per_conversation=per_conversation
        )
        number = f"{name or 'scenario'}-{len(self._scenarios) + 1}"
        # The key is long because copilot removes it from its output, even inside other words.
        made = Scenario(number, f"scripted-key-of-{number}-0123456789", self.url, script, self.log)
        self._scenarios[number] = made
        return made

    def _find(self, name: str, key: str) -> tuple[str, Script] | None:
        """Return the scenario of a request, by its path or else by its key."""
        of_key = [each for each in list(self._scenarios.values()) if key and each.key == key]
        found = self._scenarios.get(name) if name else next(iter(of_key), None)
        return (found.id, found.script) if found else None

    def close(self) -> None:
        """Stop, and release the clients that wait for an answer."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def loopback() -> socket.socket:
    """Return a socket that listens on a free port of 127.0.0.1."""
    return socket.create_server(("127.0.0.1", 0), backlog=128)
