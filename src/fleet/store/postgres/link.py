"""One connection to a PostgreSQL server: address, encryption, limits on each wait, and errors in plain words."""

from __future__ import annotations

import ipaddress
import logging
import os
import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors, pq
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import TransactionStatus
from psycopg.types.string import StrDumper

from fleet.core.errors import BadInput, QueueMoved, StoreAway, StoreFault, StoreHindered
from fleet.core.health import HealthCheck, HealthState

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta


TLS_HINT = (
    "fleet verifies servers on other machines: let `sslrootcert=FILE` in the connection string name the CA, or say "
    "otherwise by `sslmode=…` there"
)
#: libpq's default sslmode, which accepts whatever the server offers.
UNSAID = "prefer"
#: The first libpq version that can verify by the system's CAs.
SYSTEM_CAS = 160000
REMEDY = "set `sslmode=verify-full` in the connection string, and `sslrootcert` for your own CA"


def choose_parameters(said: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters to add to a connection string, so that a server on another machine must prove its identity.

    Nothing is added if the string, PGSSLMODE or the service of PGSERVICE sets the mode. The same applies if the server
    is on this machine.
    """
    unsaid = _defaults()
    if said.get("sslmode") or "PGSSLMODE" in os.environ or unsaid.get("sslmode", UNSAID) != UNSAID:
        return {}
    host, address = ((str(said.get(name) or unsaid.get(name) or "")) for name in ("host", "hostaddr"))
    if not said.get("service"):  # a service could name any server
        if host == "localhost" and not address:
            found = _addresses(host)
            if found and all(map(_is_loopback, found)):
                # Use these addresses: a second lookup by libpq could lead to another host.
                names, ports = [host] * len(found), [str(said.get("port") or unsaid.get("port") or "")] * len(found)
                return {"host": ",".join(names), "hostaddr": ",".join(found), "port": ",".join(ports)}
        elif all(map(_is_here, (address or host).split(","))):
            return {}
    wanted = {"sslmode": "verify-full"}
    own_cas = (
        said.get("sslrootcert") or unsaid.get("sslrootcert") or Path("~/.postgresql/root.crt").expanduser().exists()
    )
    if not own_cas and not said.get("service") and pq.version() >= SYSTEM_CAS:
        wanted["sslrootcert"] = "system"
    return wanted


def check_encryption(link: psycopg.Connection[Any]) -> HealthCheck:
    """Return a health check of this connection's encryption."""
    options = {each.keyword: (each.val or b"").decode() for each in link.pgconn.info}
    is_here = link.info.host.startswith(("/", "@")) or _is_loopback(link.info.hostaddr)
    return describe(options.get(b"sslmode", ""), has_tls=bool(link.pgconn.ssl_in_use), is_here=is_here)


def describe(mode: str, *, has_tls: bool, is_here: bool) -> HealthCheck:
    """Return a health check for a connection with this encryption."""
    state, remedy = HealthState.OK, ""
    if has_tls and mode == "verify-full":
        fact = "TLS, with the server's certificate and name verified"
    elif is_here:
        fact = f"{'TLS' if has_tls else 'no TLS'}; the server is on this machine"
    else:
        state, remedy = HealthState.WARNING, REMEDY
        if has_tls and mode == "verify-ca":
            fact = "TLS, with the server's certificate verified, but not its name"
        else:
            what = "TLS, but the server is not verified" if has_tls else "no TLS"
            fact = f"{what} (sslmode={mode}): the network can read and change tasks"
    return HealthCheck(name="encryption", state=state, fact=fact, remedy=remedy)


def _defaults() -> dict[str, str]:
    """Return libpq's defaults from the environment, from the service that PGSERVICE names, or built in."""
    try:
        found = pq.Conninfo.get_defaults()
    except MemoryError:  # psycopg raises this for an unknown service
        return {}
    return {each.keyword.decode(): each.val.decode() for each in found if each.val}


def _addresses(name: str) -> list[str]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _is_here(host: str) -> bool:
    """Return True for a socket of this machine or a loopback address. An empty host means the local socket."""
    return not host or host.startswith(("/", "@")) or _is_loopback(host)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


HINT = (
    "write it like postgresql://user:password@host:5432/database, with `%` codes for special characters: %40 for `@`, "
    "%2F for `/`"
)
#: A host name or an address with an optional interface. Empty means the default host.
_HOST = re.compile(r"[\w.:-]*(%[\w.-]+)?")
_PORT = re.compile(r"[0-9]*")
NO_TLS = "the encrypted connection failed"
#: Patterns for messages of the driver, libpq and the server. The first match in a line counts.
_CAUSES = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"resolve host|translate host name|parse network address|idna", "unknown host name"),
        (r"password authentication failed|authentication failed for user", "wrong user or password"),
        (r"no password supplied|empty password", "the server requires a password"),
        (r"pg_hba\.conf", "the server refuses that user from this host"),
        (r"role .* does not exist|not permitted to log in", "no such user, or the user may not log in"),
        (r"database .* does not exist", "no such database"),
        (r"not currently accepting connections", "that database accepts no connections"),
        (r"permission denied for database", "the user has no permission for the database"),
        (r"too many (clients|connections)|connection slots", "the server has too many connections"),
        (r"starting up|shutting down|recovery mode|not yet accepting", "the server is starting, or stopping"),
        (r"on socket .*(No such file|Connection refused)", "no server listens at its socket"),
        (r"Connection refused", "no server listens at its host and port"),
        (r"timeout expired|timed out", "the server did not answer in time"),
        (r"unreachable|No route to host", "its host is unreachable"),
        (r"of service|service file", "the service that it names is not defined"),
        (
            r"invalid .*(value|port|connection option|argument|SCRAM)|port numbers|unrecognized configuration|too long|"
            r"authentication method requirement|requirepeer",
            "invalid value in the connection string",
        ),
        (r"standby|session is|primary", "the server is not of the requested type"),
        (r"SSL|TLS|certificate|private key|channel binding|GSS", NO_TLS),
        (r"closed the connection|reset by peer|Broken pipe|receive data", "the connection was closed"),
        (r"Permission denied", "no permission for its socket or a file that it names"),
    )
)

# psycopg's debug log quotes the connection string.
logging.getLogger("psycopg").setLevel(logging.WARNING)


def parse_url(url: str) -> dict[str, Any]:
    """Return the parts of a connection string. Raises BadInput without repeating it, since it may hold a password.

    Also refuses strings that libpq would split at an `@` or a `/` inside the password.
    """
    try:
        found = dict(conninfo_to_dict(url))
    except (psycopg.ProgrammingError, UnicodeError):
        raise _unreadable() from None
    before, at, after = url.partition("://")[2].partition("@")
    misread = "@" in after or (at and "/" in before)
    hosts, ports = (str(found.get(name) or "").split(",") for name in ("host", "port"))
    if misread or not all(map(_is_host, hosts)) or not all(map(_PORT.fullmatch, ports)):
        raise _unreadable()
    return found


def explain_refusal(error: Exception) -> str:
    """Return why a connection failed. If several hosts were tried, each reason appears once."""
    told: dict[str, None] = {}
    for line in str(error).splitlines():
        words = next((words for pattern, words in _CAUSES if pattern.search(line)), None)
        if words is not None:
            told[words] = None
    return "; ".join(told) or "run `psql` with the same connection string to see why; its output may show the password"


def _unreadable() -> BadInput:
    return BadInput("invalid connection string in `queue`", hint=HINT)


def _is_host(text: str) -> bool:
    """Return True if the text is a host name, an address or the folder of a socket."""
    return text.startswith("/") or _HOST.fullmatch(text) is not None


AGAIN = "check the server and the network; a supervisor tries again automatically"
#: Errors of a reachable server that is busy with other clients. The call can be retried.
_BUSY = (errors.LockNotAvailable, errors.QueryCanceled, errors.DeadlockDetected, errors.SerializationFailure)
#: SQLSTATEs of a connection that is no longer usable. Either we were silent in a transaction for too long, for example
#: asleep, or another server took over and this one became read-only.
_CUT_OFF = ("25P03", "25P04", "25006")
#: The message that triggers of a moved queue raise on writes.
_SEALED = "the queue was moved"
#: Share of the patience after which the network itself gives up. The rest is for noticing that.
NETWORK_SHARE = 0.8


class PostgresLink(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose waits all have a limit, even if the server's machine answers and the server does not."""

    patience: float | None = None

    def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        """Wait for the server. A connection that waited too long is closed. Raises OperationalError."""
        try:
            return super().wait(gen, interval, self.patience if timeout is None else timeout)
        except psycopg.OperationalError:
            if timeout is None and self.info.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()  # a late answer would be taken as the answer to another statement
            raise

    @property
    def is_at_rest(self) -> bool:
        """Return True if the next call can use the connection: it is open and in no transaction."""
        return not self.closed and self.info.transaction_status == TransactionStatus.IDLE


def connect(url: str, patience: timedelta) -> PostgresLink:
    """Return a new connection. Raises BadInput for an unreadable string and StoreAway if the server cannot be reached.

    A network that drops all packets is noticed within `patience`, whatever the connection string sets. No message
    repeats any part of the string.
    """
    seconds = patience.total_seconds()
    said = parse_url(url)
    protection = choose_parameters(said)
    limits = {"connect_timeout": max(2, round(seconds)), "tcp_user_timeout": int(seconds * 1000 * NETWORK_SHARE)}
    wishes = {
        "application_name": "fleet",
        "keepalives_idle": max(1, int(seconds / 3)),
        "keepalives_interval": max(1, int(seconds / 3)),
        "keepalives_count": 2,
    }
    try:
        link = PostgresLink.connect(
            **{
                **wishes,
                **said,
                **protection,
                **{name: _cap_limit(said.get(name), most) for name, most in limits.items()},
            },
            autocommit=True,
        )
    except (psycopg.Error, UnicodeError) as error:  # a name that no host can have causes an encoding error
        why = explain_refusal(error)
        hint = TLS_HINT if "sslmode" in protection and NO_TLS in why else AGAIN
        raise StoreAway(f"the database cannot be reached: {why}", hint=hint) from None
    link.patience = seconds
    link.adapters.register_dumper(str, StrDumper)
    return link


def _cap_limit(said: Any, most: int) -> int:
    """Return the configured limit, at most `most`. libpq treats an absent or zero limit as infinite."""
    wanted = int(said) if str(said).isdigit() else 0
    return min(wanted or most, most)


def translate_error(error: psycopg.Error) -> StoreFault:
    """Return the error of a server that was reached, in plain words."""
    if isinstance(error, errors.RaiseException) and _SEALED in (error.diag.message_primary or ""):
        return QueueMoved()
    words = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, _BUSY):
        return StoreAway(f"the database is too busy: {words}", hint="try again: other processes hold locks")
    if isinstance(error, errors.DiskFull):
        return StoreHindered(
            "no room left on the disk of the database", hint="free some space there; nothing was changed"
        )
    if isinstance(error, errors.InsufficientPrivilege | errors.InvalidAuthorizationSpecification):
        return StoreFault(f"the database refused: {words}", hint="check the permissions of the user in the database")
    if isinstance(error, psycopg.OperationalError | psycopg.InterfaceError) or error.sqlstate in _CUT_OFF:
        return StoreAway(f"the database cannot be reached: {words}", hint=AGAIN)
    return StoreFault(f"the database refused: {words}")
