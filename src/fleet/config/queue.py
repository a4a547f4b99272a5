"""Which queue a home has. Its connection string is a secret: never shown, never logged, and no agent is given it."""

import os
from collections.abc import Mapping

from fleet.config.load import load
from fleet.core.errors import BadInput, FleetError, Usage
from fleet.core.record import Record
from fleet.files import atomic_write
from fleet.home import Home

SQLITE, BEADS, POSTGRES = "sqlite", "beads", "postgresql"
COMMAND_SECONDS = 10
LONGEST = 4096
#: What a connection string may call them behind its question mark.
PASSWORDS = {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}


class Choice(Record):
    """A kind of queue, and for PostgreSQL how to reach it."""

    kind: str
    url: str = ""
    lease_seconds: int


def chosen(home: Home, env: Mapping[str, str], *, said: str | None = None) -> Choice:
    """The queue that holds here: FLEET_QUEUE, else the settings, else what the supervisor was last started with.

    Raises BadInput, FleetError, without ever repeating a connection string.
    """
    # With broken settings, and nothing that tells where the tasks were, a new queue would be begun beside them.
    is_known = os.path.exists(home.good_settings) or os.path.exists(home.database)  # noqa: PTH110
    settings = load(home, env=env, lenient=is_known)
    name = said or settings.queue or ""
    if not name and settings.queue_command:
        name = _printed(settings.queue_command, home)
    name = name or _kept(home) or (BEADS if home.is_only_beads else "")
    return Choice(
        kind=kind_of(name), url=name if "://" in name else "", lease_seconds=settings.supervisor.claim_seconds
    )


def kind_of(name: str) -> str:
    """The kind of queue that a setting names. Raises BadInput."""
    if name in ("", SQLITE):
        return SQLITE
    if name == BEADS:
        return BEADS
    if name.startswith(("postgresql://", "postgres://")):
        return POSTGRES
    hint = 'it is "sqlite", "beads", or postgresql://user:password@host:5432/database.'
    raise BadInput("there is no queue of the name that was given", hint=hint)


def refuse_password(said: str, *, hint: str) -> None:
    """See that a connection string which was typed holds no password, nor what does as well as one. Raises Usage."""
    from urllib.parse import unquote

    words = said.partition("?")[2].replace("?", "&").split("&")
    keys = {unquote(word.partition("=")[0]).strip().lower() for word in words}
    if keys & PASSWORDS or ("@" in said and ":" in said.partition("://")[2].partition("@")[0]):
        raise Usage("a password on the command line can be read by every user of this machine", hint=hint)


def keep(home: Home, env: Mapping[str, str]) -> None:
    """Have this home's programs find the queue that a supervisor is started with, though agents get no FLEET_QUEUE.

    It is kept in a file for this user alone, as it would be in runtime.toml, until the next supervisor is started.
    """
    said = env.get("FLEET_QUEUE", "")
    if said and said != _kept(home):
        atomic_write(home.kept_queue, said.encode(), 0o600)
    elif not said and load(home, env={}, lenient=True).queue is not None:  # the file says where the tasks are
        try:
            os.unlink(home.kept_queue)  # noqa: PTH108 - paths of the home are strings
        except FileNotFoundError:
            return


def _kept(home: Home) -> str:
    try:
        with open(home.kept_queue, encoding="utf-8") as file:  # noqa: PTH123
            return file.read(LONGEST).strip()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise FleetError(f"cannot read {home.kept_queue}", hint="`fleet run` with FLEET_QUEUE writes it.") from error


def _printed(words: tuple[str, ...], home: Home) -> str:
    """The first line that a program prints."""
    import subprocess

    hint = "try the program of `queue_command` by hand; it must print the connection string, and nothing else."
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, cwd=home.root, timeout=COMMAND_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        raise FleetError(f"queue_command took longer than {COMMAND_SECONDS} s", hint=hint) from None
    except OSError as error:
        raise FleetError(f"queue_command cannot be started: {error.strerror}", hint=hint) from error
    if done.returncode:
        raise FleetError(f"queue_command failed with exit code {done.returncode}", hint=hint)
    line = done.stdout[:LONGEST].decode("utf-8", "replace").partition("\n")[0].strip()
    if not line:
        raise FleetError("queue_command printed nothing", hint=hint)
    return line
