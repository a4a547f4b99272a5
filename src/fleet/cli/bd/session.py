"""A call of `bd`: its caller, its output format and its queue."""

from __future__ import annotations

import os
import sys

from fleet.actions.tasks import tasks
from fleet.assembly import open_fleet
from fleet.cli.text import shown
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
    """The context of a verb: arguments, queue, caller and output."""

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
        """Return the queue with the caller's rights. A verb that writes creates the home if it does not exist."""
        if self._store is None:
            if self._writes and not self.home.exists:
                self._make_home()
            self._fleet = open_fleet(self.home)
            self._store = self._fleet.store
            if self._writes and self.caller() is not None:
                from fleet.actions.tasks.rights import as_seen_by  # needed only for calls from a run

                self._store = as_seen_by(self._fleet, self.caller())
        return self._store

    @property
    def fleet(self) -> Fleet:
        """Return the home with an open queue and the owner's rights."""
        assert self.store is not None
        assert self._fleet is not None
        return self._fleet

    @property
    def actor(self) -> str:
        """Return the acting user's name: the flag, BEADS_ACTOR, BD_ACTOR, git's user.name, or USER."""
        if not self._actor:
            named = os.environ.get("BEADS_ACTOR") or os.environ.get("BD_ACTOR")
            self._actor = named or git_identity()[0] or os.environ.get("USER") or "unknown"
        return self._actor

    @property
    def owner(self) -> str:
        """Return the e-mail address of the task's creator: GIT_AUTHOR_EMAIL, or git's user.email."""
        return os.environ.get("GIT_AUTHOR_EMAIL") or git_identity()[1]

    def caller(self) -> Caller | None:
        """Return the run that made this call, or None.

        The run is identified by its token or its shim, never by its own claim.
        """
        if self._caller is None and is_agents(self.home.root):
            from fleet.actions.tasks.rights import caller_of  # needed only for calls from a run

            self._caller = caller_of(self.fleet, os.environ.get("FLEET_RUN_TOKEN"))
        return self._caller

    def find(self, text: str, *, guess: bool = True, doing: str = "") -> str:
        """Return the ID of the matching task. Raises NoMatch, with bd's message and `doing` in front."""
        try:
            return tasks.find_id(self.store, text, guess=guess)
        except TaskNotFound as error:
            raise NoMatch(text, doing) from error

    def answer(self, payload: Any) -> int:
        """Print a JSON payload in the requested form. Return exit code 0."""
        write_json(payload)
        return 0

    def say(self, text: str) -> None:
        sys.stdout.write(shown(text) + "\n")

    def warn(self, text: str) -> None:
        """Print a line on stderr about a problem that did not stop the command."""
        sys.stderr.write(shown(text) + "\n")

    def close(self) -> None:
        if self._fleet is not None:
            self._fleet.store.close()

    def _make_home(self) -> None:
        from fleet.actions.control.homes import init  # needed once per home

        init(self.home)
        self.warn(f"fleet home initialized at {self.home.root}")


class NoMatch(FleetError):
    """No task matches the typed text."""

    hint = "run `fleet bd list --all` to list the tasks in the queue"

    def __init__(self, text: str, doing: str = "") -> None:
        super().__init__(f"{doing}: " * bool(doing) + f'no issue found matching "{text}"')


def wants_json(arguments: Arguments) -> bool:
    if arguments.has("json"):
        return arguments.flag("json")
    if arguments.text("format") == "json":
        return True
    return os.environ.get("BD_JSON", "").lower() in ("1", "true")


def enveloped() -> bool:
    """Return True if answers are wrapped as {"schema_version": 1, "data": …}."""
    return os.environ.get("BD_JSON_ENVELOPE") == "1"


def write_json(payload: Any, *, stream: Any = None, compact: bool = False) -> None:
    """Print a payload in the form of bd.

    Objects get the schema version and lists stay bare, unless the wrapped form is requested.
    """
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
    # bd sends objects through a map, which sorts their keys. In lists, bd keeps the field order of the objects.
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    return value


def git_identity() -> tuple[str, str]:
    """Return git's user.name and user.email for this directory, or empty strings."""
    found = {"user.name": "", "user.email": ""}
    for line in _output_of("git", "config", "--get-regexp", r"^user\.(name|email)$").splitlines():
        key, _, value = line.partition(" ")
        found[key.lower()] = value.strip()
    return found["user.name"], found["user.email"]


def _output_of(*argv: str) -> str:
    """Return the output of a program, or "" if it is missing.

    It uses posix_spawn, because importing subprocess costs as much time as this call.
    """
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
    """Return the text of a UTF-8 file, or of stdin for `-`. Raises BadInput, also above the size limit."""
    limit = 64 * 1024 * 1024
    try:
        if path == "-":
            data = sys.stdin.buffer.read(limit + 1)
        else:
            with open(path, "rb") as file:  # noqa: PTH123 - pathlib costs each call 10 ms
                data = file.read(limit + 1)
    except OSError as error:
        raise BadInput(
            f"cannot read {path}: {error.strerror}", hint="name a file that exists, or - for stdin"
        ) from error
    if len(data) > limit:
        raise BadInput(f"{path} is larger than {limit // 2**20} MiB")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 text (byte {error.start})", hint="convert it to UTF-8 first") from error
