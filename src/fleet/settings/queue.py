"""Choice of a home's queue. Its connection string is secret: never shown, logged or passed to agents."""

import os
from collections.abc import Mapping

from fleet.core.errors import BadInput, FleetError, UsageError
from fleet.core.record import Record
from fleet.files import atomic_write
from fleet.home import Home
from fleet.settings.load import load

SQLITE, BEADS, POSTGRES = "sqlite", "beads", "postgresql"
COMMAND_SECONDS = 10
LONGEST = 4096
#: Names of secrets among the parameters of a connection string.
PASSWORDS = {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}


class QueueChoice(Record):
    """A kind of queue and, for PostgreSQL, its connection string."""

    kind: str
    url: str = ""
    lease_seconds: int


def choose_queue(home: Home, env: Mapping[str, str], *, said: str | None = None) -> QueueChoice:
    """Return the queue to use: `said`, FLEET_QUEUE, the settings, or the queue recorded at a supervisor start.

    Raises BadInput or FleetError, whose messages never contain a connection string.
    """
    # If the settings are invalid and nothing records the queue, a new queue would be created beside the old one.
    is_known = os.path.exists(home.good_settings) or os.path.exists(home.database)  # noqa: PTH110
    settings = load(home, env=env, lenient=is_known)
    name = said or settings.queue or ""
    if not name and settings.queue_command:
        name = _read_program_output(settings.queue_command, home)
    name = name or _read_recorded_queue(home) or (BEADS if home.is_only_beads else "")
    return QueueChoice(
        kind=kind_of(name), url=name if "://" in name else "", lease_seconds=settings.supervisor.claim_seconds
    )


def kind_of(name: str) -> str:
    """Return the kind of queue that a setting names. Raises BadInput."""
    if name in ("", SQLITE):
        return SQLITE
    if name == BEADS:
        return BEADS
    if name.startswith(("postgresql://", "postgres://")):
        return POSTGRES
    hint = 'use "sqlite", "beads", or postgresql://user:password@host:5432/database'
    raise BadInput("the given name is not the name of a queue", hint=hint)


def refuse_password(said: str, *, hint: str) -> None:
    """Raise UsageError if a connection string from the command line contains a password or an equivalent secret."""
    from urllib.parse import unquote

    words = said.partition("?")[2].replace("?", "&").split("&")
    keys = {unquote(word.partition("=")[0]).strip().lower() for word in words}
    if keys & PASSWORDS or ("@" in said and ":" in said.partition("://")[2].partition("@")[0]):
        raise UsageError("a password on the command line is visible to every user of this machine", hint=hint)


def record_queue(home: Home, env: Mapping[str, str]) -> None:
    """Record the queue of a starting supervisor for this home's programs, because agents get no FLEET_QUEUE.

    The file is readable by this user only, like runtime.toml. A later start with another FLEET_QUEUE replaces the
    record. A start without FLEET_QUEUE removes it if the settings name a queue.
    """
    said = env.get("FLEET_QUEUE", "")
    if said and said != _read_recorded_queue(home):
        atomic_write(home.kept_queue, said.encode(), 0o600)
    elif not said and load(home, env={}, lenient=True).queue is not None:  # the file already names the queue
        try:
            os.unlink(home.kept_queue)  # noqa: PTH108 - paths of the home are strings
        except FileNotFoundError:
            return


def _read_recorded_queue(home: Home) -> str:
    try:
        with open(home.kept_queue, encoding="utf-8") as file:  # noqa: PTH123
            return file.read(LONGEST).strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise FleetError(
            f"cannot read {home.kept_queue}", hint="run `fleet run` with FLEET_QUEUE set to write it again"
        ) from error


def _read_program_output(words: tuple[str, ...], home: Home) -> str:
    """Return the first line that a program prints. Raises FleetError if it fails or prints nothing."""
    import subprocess

    hint = "run the program of `queue_command` manually; it must print only the connection string"
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, cwd=home.root, timeout=COMMAND_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise FleetError(f"queue_command took longer than {COMMAND_SECONDS} s", hint=hint) from None
    except OSError as error:
        raise FleetError(f"cannot start queue_command: {error.strerror}", hint=hint) from error
    if done.returncode:
        raise FleetError(f"queue_command failed with exit code {done.returncode}", hint=hint)
    line = done.stdout[:LONGEST].decode("utf-8", "replace").partition("\n")[0].strip()
    if not line:
        raise FleetError("queue_command printed nothing", hint=hint)
    return line
