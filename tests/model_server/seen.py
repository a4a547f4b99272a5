"""The record of all requests, by which tests check what a CLI sent."""

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

#: Headers with a key or a token. Their values are never recorded.
SECRET = frozenset({"authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie", "proxy-authorization"})

#: A test looks at few requests. A CLI that retries forever must not fill the memory.
KEPT = 1_000
LONGEST = 1_000_000


class Request(NamedTuple):
    """One request and the status of its answer."""

    method: str
    path: str  # as sent, without the query, which may contain keys
    scenario: str
    status: int  # 0: no answer was sent
    seconds: float  # since the start of the server
    headers: Mapping[str, str]  # names in lower case, without those with secrets
    wire: str = ""  # the wire format; empty unless the model was asked
    model: str = ""
    turn: int | None = None  # its index in the scenario; None for a side request
    said: tuple[str, ...] = ()  # since the model's last answer: text of people and tool results
    tools: tuple[str, ...] = ()
    text: str = ""  # every string of the body

    def holds(self, words: str) -> bool:
        """Return True if the request contains these words."""
        return words in self.text


class Requests:
    """All requests of a server in order, safe for several threads."""

    def __init__(self) -> None:
        self._all: deque[Request] = deque(maxlen=KEPT)
        self._count = 0
        self._came = threading.Condition()

    def add(self, request: Request) -> None:
        """Record a request and wake the waiting threads."""
        with self._came:
            self._all.append(request._replace(text=request.text[:LONGEST]))
            self._count += 1
            self._came.notify_all()

    def of(self, scenario: str) -> list[Request]:
        with self._came:
            return self._of(scenario)

    def all(self) -> list[Request]:
        """Return the requests of all scenarios, and those without one."""
        with self._came:
            return list(self._all)

    def follow(self) -> Iterator[Request]:
        """Yield each request as it arrives, forever."""
        told = 0
        while True:
            with self._came:
                self._came.wait_for(lambda past=told: self._count > past)  # type: ignore[misc]
                fresh = list(self._all)[told - self._count :]
                told = self._count
            yield from fresh

    def wait_for(self, scenario: str, count: int, seconds: float) -> list[Request]:
        """Wait for this many requests that got a turn of the scenario, and return them. Raises TimeoutError."""
        with self._came:
            if not self._came.wait_for(lambda: len(turns(self._of(scenario))) >= count, seconds):
                got = [(each.method, each.path, each.status) for each in self._of(scenario)]
                raise TimeoutError(f"{scenario}: fewer than {count} turns within {seconds} s; requests: {got}")
            return turns(self._of(scenario))

    def _of(self, scenario: str) -> list[Request]:
        return [request for request in self._all if request.scenario == scenario]


def turns(requests: list[Request]) -> list[Request]:
    """Return those of the requests that got a turn of their scenario."""
    return [request for request in requests if request.turn is not None]


def without_secrets(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that may be recorded."""
    return {name: value for name, value in headers.items() if name not in SECRET}


def plain_path(target: str) -> str:
    """Return the path of a request's target."""
    return urlsplit(target).path


def key_of(headers: Mapping[str, str]) -> str:
    """Return the key or token of a request, from the header that its format uses."""
    bearer = headers.get("authorization", "").removeprefix("Bearer ").strip()
    return headers.get("x-api-key") or headers.get("x-goog-api-key") or bearer
