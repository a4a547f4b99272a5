"""Strict parsing of PostgreSQL connection strings, without repeating any part of them in messages.

In a malformed string, libpq may take a part of the password for the host, the user or the port. Its errors quote these
parts. So fleet reports connection failures in its own words.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING

import psycopg
from psycopg.conninfo import conninfo_to_dict

from fleet.core.errors import BadInput

if TYPE_CHECKING:
    from typing import Any

HINT = (
    "it looks like postgresql://user:password@host:5432/database, with `%` codes for special characters: %40 for `@`, "
    "%2F for `/`."
)
#: A host name or an address with an optional interface. Empty means the default host.
_HOST = re.compile(r"[\w.:-]*(%[\w.-]+)?")
_PORT = re.compile(r"[0-9]*")
NO_TLS = "an encrypted connection did not come about"
#: Patterns for messages of the driver, libpq and the server. The first match in a line counts.
_CAUSES = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"resolve host|translate host name|parse network address|idna", "the name of its host is not known"),
        (r"password authentication failed|authentication failed for user", "its user or password is wrong"),
        (r"no password supplied|empty password", "the server wants a password"),
        (r"pg_hba\.conf", "the server lets nobody in from here as that user"),
        (r"role .* does not exist|not permitted to log in", "there is no such user, or it may not log in"),
        (r"database .* does not exist", "there is no such database"),
        (r"not currently accepting connections", "that database takes no connections"),
        (r"permission denied for database", "that user has no right to that database"),
        (r"too many (clients|connections)|connection slots", "the server has as many connections as it allows"),
        (r"starting up|shutting down|recovery mode|not yet accepting", "the server is starting, or stopping"),
        (r"on socket .*(No such file|Connection refused)", "nobody listens at its socket"),
        (r"Connection refused", "nobody listens at its host and port"),
        (r"timeout expired|timed out", "nobody answered in time"),
        (r"unreachable|No route to host", "no network leads to its host"),
        (r"of service|service file", "the service that it names is described nowhere"),
        (
            r"invalid .*(value|port|connection option|argument|SCRAM)|port numbers|unrecognized configuration|too long|"
            r"authentication method requirement|requirepeer",
            "a value in the connection string is not taken",
        ),
        (r"standby|session is|primary", "the server is not of the sort that is asked for"),
        (r"SSL|TLS|certificate|private key|channel binding|GSS", NO_TLS),
        (r"closed the connection|reset by peer|Broken pipe|receive data", "the connection was cut off"),
        (r"Permission denied", "this user may not use its socket, or a file that it names"),
    )
)

# psycopg's debug log quotes the connection string.
logging.getLogger("psycopg").setLevel(logging.WARNING)


def parsed(url: str) -> dict[str, Any]:
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


def why_not(error: Exception) -> str:
    """Return why a connection failed. If several hosts were tried, each reason appears once."""
    told: dict[str, None] = {}
    for line in str(error).splitlines():
        words = next((words for pattern, words in _CAUSES if pattern.search(line)), None)
        if words is not None:
            told[words] = None
    return "; ".join(told) or "`psql` with the same connection string says why, in words that may repeat it"


def _unreadable() -> BadInput:
    return BadInput("the connection string in `queue` cannot be read", hint=HINT)


def _is_host(text: str) -> bool:
    """Return True if the text is a host name, an address or the folder of a socket."""
    return text.startswith("/") or _HOST.fullmatch(text) is not None
