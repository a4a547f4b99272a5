"""One call of `bd`: who calls, in which form to answer, and the queue it works on."""

from __future__ import annotations

import os
import sys

from fleet.actions import tasks
from fleet.assembly import open_fleet
from fleet.cli.bd.text import shown
from fleet.core.errors import BadInput, FleetError, TaskNotFound
from fleet.core.jsontext import encode_printable
from fleet.descent import is_agents
from fleet.home import find

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fleet.assembly import Fleet
    from fleet.cli.bd.arguments import Arguments
    from fleet.core.task import Caller
    from fleet.store.base import Store

SCHEMA = {"schema_version": 1}


class Session:
    """What a verb needs: its arguments, the queue, the caller, and a way to answer."""

    def __init__(self, arguments: Arguments, *, writes: bool) -> None:
        self.arguments = arguments
        self.json = wants_json(arguments)
        self.quiet = arguments.flag("quiet")
        self.home = find()
        self._writes = writes
        self._fleet: Fleet | None = None
        self._store: Store | None = None
        self._caller: Caller | None = None
        self._actor = arguments.text("actor")

    @property
    def store(self) -> Store:
        """The queue of the home as the caller may use it; a verb that writes makes the home where there is none."""
        if self._store is None:
            if self._writes and not self.home.exists:
                self._make_home()
            self._fleet = open_fleet(self.home)
            self._store = self._fleet.store
            if self._writes and self.caller() is not None:
                from fleet.actions.rights import as_seen_by  # only for calls that come from a run

                self._store = as_seen_by(self._fleet, self.caller())
        return self._store

    @property
    def fleet(self) -> Fleet:
        """The home with its queue open, as its owner may use it."""
        assert self.store is not None
        assert self._fleet is not None
        return self._fleet

    @property
    def actor(self) -> str:
        """Who is acting: the flag, BEADS_ACTOR, git's user.name, USER."""
        if not self._actor:
            named = os.environ.get("BEADS_ACTOR") or os.environ.get("BD_ACTOR")
            self._actor = named or git_identity()[0] or os.environ.get("USER") or "unknown"
        return self._actor

    @property
    def owner(self) -> str:
        """The e-mail address of whoever makes a task."""
        return os.environ.get("GIT_AUTHOR_EMAIL") or git_identity()[1]

    def caller(self) -> Caller | None:
        """The run this call comes from, if it comes from one: known by its token or its shim, not by its word."""
        if self._caller is None and is_agents(self.home.root):
            from fleet.actions.rights import caller_of  # only for calls that come from a run

            self._caller = caller_of(self.fleet, os.environ.get("FLEET_RUN_TOKEN"))
        return self._caller

    def find(self, text: str, *, guess: bool = True, doing: str = "") -> str:
        """The id of the task meant, in bd's words when there is none, after what was being done."""
        try:
            return tasks.find_id(self.store, text, guess=guess)
        except TaskNotFound as error:
            raise NoMatch(text, doing) from error

    def answer(self, payload: Any) -> int:
        """Print a JSON payload in the form asked for."""
        write_json(payload)
        return 0

    def say(self, text: str) -> None:
        sys.stdout.write(shown(text) + "\n")

    def warn(self, text: str) -> None:
        """Print a line about something that went on all the same."""
        sys.stderr.write(shown(text) + "\n")

    def close(self) -> None:
        if self._fleet is not None:
            self._fleet.store.close()

    def _make_home(self) -> None:
        from fleet.actions.homes import init  # once in the life of a home

        init(self.home)
        self.warn(f"fleet home initialized at {self.home.root}")


class NoMatch(FleetError):
    """No task fits what was typed."""

    hint = "`fleet bd list --all` lists the tasks in the queue."

    def __init__(self, text: str, doing: str = "") -> None:
        super().__init__(f"{doing}: " * bool(doing) + f'no issue found matching "{text}"')


def wants_json(arguments: Arguments) -> bool:
    if arguments.has("json"):
        return arguments.flag("json")
    if arguments.text("format") == "json":
        return True
    return os.environ.get("BD_JSON", "").lower() in ("1", "true")


def enveloped() -> bool:
    """Whether answers are wrapped: {"schema_version": 1, "data": …}."""
    return os.environ.get("BD_JSON_ENVELOPE") == "1"


def write_json(payload: Any, *, stream: Any = None, compact: bool = False) -> None:
    """Print a payload as bd does: objects get the schema version, lists stay bare, or all is wrapped."""
    if enveloped():
        payload = {**SCHEMA, "data": payload}
    elif payload is None:
        payload = SCHEMA
    elif isinstance(payload, dict):
        payload = {**payload, **SCHEMA}
    if isinstance(payload, dict):
        payload = _sorted(payload)
    (stream or sys.stdout).write(encode_printable(payload, None if compact else 2) + "\n")


def _sorted(value: Any) -> Any:
    # bd sends an object through a map, whose keys come out in order; lists keep the order of the fields.
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value


def git_identity() -> tuple[str, str]:
    """user.name and user.email as git knows them here; empty without git."""
    found = {"user.name": "", "user.email": ""}
    for line in _output_of("git", "config", "--get-regexp", r"^user\.(name|email)$").splitlines():
        key, _, value = line.partition(" ")
        found[key.lower()] = value.strip()
    return found["user.name"], found["user.email"]


def _output_of(*argv: str) -> str:
    """What a program prints; empty when it is not there. By hand: importing subprocess costs as much as this call."""
    reader, writer = os.pipe()
    try:
        actions = [
            (os.POSIX_SPAWN_DUP2, writer, 1),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        ]
        pid = os.posix_spawnp(argv[0], argv, os.environ, file_actions=actions)
    except OSError:
        os.close(reader)
        return ""
    finally:
        os.close(writer)
    with os.fdopen(reader, encoding="utf-8", errors="replace") as pipe:
        text = pipe.read(65536)
    os.waitpid(pid, 0)
    return text


def read_source(path: str) -> str:
    """The text of a file, or of stdin for `-`; bounded, UTF-8. Raises BadInput."""
    limit = 64 * 1024 * 1024
    try:
        if path == "-":
            data = sys.stdin.buffer.read(limit + 1)
        else:
            with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs each call 10 ms
                data = file.read(limit + 1)
    except OSError as error:
        raise BadInput(
            f"cannot read {path}: {error.strerror}", hint="name a file that exists, or - for stdin."
        ) from error
    if len(data) > limit:
        raise BadInput(f"{path} is larger than {limit // 2**20} MiB")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text (byte {error.start})", hint="convert it to UTF-8 first.") from error
