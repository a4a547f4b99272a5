"""What the server keeps of every request, so that tests can say what a CLI asked."""

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

#: Headers that carry a key or a token; what they hold is never kept.
SECRET = frozenset({"authorization", "x-api-key", "x-goog-api-key", "api-key", "cookie", "proxy-authorization"})

#: A test looks at few; a CLI that retries for ever must not fill the memory.
KEPT = 1_000
LONGEST = 1_000_000


class Request(NamedTuple):
    """One request, with what it was answered."""

    method: str
    path: str  # as sent, without the query, in which keys may stand
    scenario: str
    status: int  # 0: nothing was answered
    seconds: float  # since the server began
    headers: Mapping[str, str]  # names in lower case, without those that hold secrets
    wire: str = ""  # the wire format; empty for anything but a question to the model
    model: str = ""
    turn: int | None = None  # its place in the scenario; None for a question beside the work
    said: tuple[str, ...] = ()  # since the model's last answer: people's words and what tools gave back
    tools: tuple[str, ...] = ()
    text: str = ""  # every string of the body

    def holds(self, words: str) -> bool:
        """Whether these words stand anywhere in the request."""
        return words in self.text


class Requests:
    """All requests of one server in the order they came; safe to ask from several threads."""

    def __init__(self) -> None:
        self._all: deque[Request] = deque(maxlen=KEPT)
        self._count = 0
        self._came = threading.Condition()

    def add(self, request: Request) -> None:
        """Keep one more, and wake those who wait for it."""
        with self._came:
            self._all.append(request._replace(text=request.text[:LONGEST]))
            self._count += 1
            self._came.notify_all()

    def of(self, scenario: str) -> list[Request]:
        """Those of one scenario."""
        with self._came:
            return self._of(scenario)

    def all(self) -> list[Request]:
        """Those of all scenarios, and those that named none."""
        with self._came:
            return list(self._all)

    def follow(self) -> Iterator[Request]:
        """Every request as it comes, for ever."""
        told = 0
        while True:
            with self._came:
                self._came.wait_for(lambda past=told: self._count > past)  # type: ignore[misc]
                fresh = list(self._all)[told - self._count :]
                told = self._count
            yield from fresh

    def wait_for(self, scenario: str, count: int, seconds: float) -> list[Request]:
        """Those that got a turn of the scenario, once there are as many. Raises TimeoutError."""
        with self._came:
            if not self._came.wait_for(lambda: len(turns(self._of(scenario))) >= count, seconds):
                got = [(each.method, each.path, each.status) for each in self._of(scenario)]
                raise TimeoutError(f"{scenario}: fewer than {count} turns within {seconds} s; requests: {got}")
            return turns(self._of(scenario))

    def _of(self, scenario: str) -> list[Request]:
        return [request for request in self._all if request.scenario == scenario]


def turns(requests: list[Request]) -> list[Request]:
    """Of these, the requests that got a turn of their scenario."""
    return [request for request in requests if request.turn is not None]


def without_secrets(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers that may be kept."""
    return {name: value for name, value in headers.items() if name not in SECRET}


def plain_path(target: str) -> str:
    """The path of a request's target."""
    return urlsplit(target).path


def key_of(headers: Mapping[str, str]) -> str:
    """The key or token that a request shows, in whichever header its format has for it."""
    bearer = headers.get("authorization", "").removeprefix("Bearer ").strip()
    return headers.get("x-api-key") or headers.get("x-goog-api-key") or bearer
