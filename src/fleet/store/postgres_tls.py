"""Encryption of PostgreSQL connections: what fleet requires by default, and what is in force."""

from __future__ import annotations

import ipaddress
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from psycopg import pq

from fleet.core.health import State, Vital

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    import psycopg

HINT = (
    "fleet verifies servers on other machines: let `sslrootcert=FILE` in the connection string name the CA, or say "
    "otherwise by `sslmode=…` there."
)
#: libpq's default sslmode, which accepts whatever the server offers.
UNSAID = "prefer"
#: The first libpq version that can verify by the system's CAs.
SYSTEM_CAS = 160000
REMEDY = "set `sslmode=verify-full` in the connection string, and `sslrootcert` if the CA is your own."


def required(said: Mapping[str, Any]) -> dict[str, str]:
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


def in_force(link: psycopg.Connection[Any]) -> Vital:
    """Return a health check of this connection's encryption."""
    options = {each.keyword: (each.val or b"").decode() for each in link.pgconn.info}
    is_here = link.info.host.startswith(("/", "@")) or _is_loopback(link.info.hostaddr)
    return describe(options.get(b"sslmode", ""), has_tls=bool(link.pgconn.ssl_in_use), is_here=is_here)


def describe(mode: str, *, has_tls: bool, is_here: bool) -> Vital:
    """Return a health check for a connection with this encryption."""
    state, remedy = State.OK, ""
    if has_tls and mode == "verify-full":
        fact = "TLS, with the server's certificate and name verified"
    elif is_here:
        fact = f"{'TLS' if has_tls else 'no TLS'}; the server is on this machine"
    else:
        state, remedy = State.WARNING, REMEDY
        if has_tls and mode == "verify-ca":
            fact = "TLS, with the server's certificate verified, but not its name"
        else:
            what = "TLS, but the server is not verified" if has_tls else "no TLS"
            fact = f"{what} (sslmode={mode}): the network can read and change tasks"
    return Vital(name="encryption", state=state, fact=fact, remedy=remedy)


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
