"""The explanations that fleet gives when a real server refuses a connection."""

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from fleet.core.errors import StoreAway
from fleet.store.postgres.link import connect
from postgres import Server, server

#: The users that the server accepts, and how they authenticate.
RULES = """
local all all trust
host all fleet,Ghost77,Locked77,Full77 127.0.0.1/32 trust
host all Rejected77 127.0.0.1/32 reject
host all Ada77 127.0.0.1/32 scram-sha-256
"""
MADE = (
    "create role \"Ada77\" login password 'right'",
    'create role "Locked77" nologin',
    'create role "Full77" login connection limit 0',
    'create database "Closed77" allow_connections false',
    'create database "Barred77"',
    'revoke connect on database "Barred77" from public',
)
UNTAKEN = "invalid value in the connection string"
CASES = [
    ("Ada77:Wrong77@HERE/postgres", "wrong user or password"),
    ("Ada77@HERE/postgres", "the server requires a password"),
    ("Ghost77@HERE/postgres", "no such user, or the user may not log in"),
    ("Locked77@HERE/postgres", "no such user, or the user may not log in"),
    ("Rejected77@HERE/postgres", "the server refuses that user from this host"),
    ("Unlisted77@HERE/postgres", "the server refuses that user from this host"),
    ("Full77@HERE/postgres", "the server has too many connections"),
    ("fleet@HERE/Nowhere77", "no such database"),
    ("fleet@HERE/Closed77", "that database accepts no connections"),
    ("Ada77:right@HERE/Barred77", "the user has no permission for the database"),
    ("fleet@127.0.0.1:1/Secret77", "no server listens at its host and port"),
    ("fleet@secret77.invalid/x", "unknown host name"),
    ("fleet@x/x?hostaddr=Secret77", "unknown host name"),
    ("fleet@/x?host=/nowhere/Secret77", "no server listens at its socket"),
    ("fleet@HERE/x?sslmode=require&sslkey=/Secret77", "the encrypted connection failed"),
    ("fleet@HERE/x?channel_binding=require", "the encrypted connection failed"),
    ("fleet@HERE/x?gssencmode=require", "the encrypted connection failed"),
    ("fleet@HERE/x?service=Secret77", "the service that it names is not defined"),
    ("fleet@HERE/postgres?target_session_attrs=standby", "the server is not of the requested type"),
    *(
        (f"fleet@HERE/postgres?{each}", UNTAKEN)
        for each in (
            *("sslmode=Secret77", "options=-c%20Secret77%3D1", "options=-Secret77", "target_session_attrs=Secret77"),
            *("channel_binding=Secret77", "gssencmode=Secret77", "require_auth=Secret77", "sslcertmode=Secret77"),
            *("load_balance_hosts=Secret77", "keepalives=Secret77", "sslnegotiation=Secret77", "port=99999"),
            *("client_encoding=Secret77", "replication=Secret77", "ssl_min_protocol_version=Secret77"),
        )
    ),
    ("Ada77:right@HERE/x?require_auth=md5", UNTAKEN),
    ("fleet@127.0.0.1,127.0.0.1/x?port=1,2,3", UNTAKEN),
    (f"fleet@/x?host=/{'Secret77' * 20}", UNTAKEN),
]


@pytest.fixture(scope="module")
def here() -> Iterator[str]:
    server()  # skip without PostgreSQL
    made = Server(tcp=True)
    with psycopg.connect(made.url(), autocommit=True) as link:
        for statement in MADE:
            link.execute(statement.encode())
    (made.folder / "data" / "pg_hba.conf").write_text(RULES)
    made.stop()
    made.start()
    yield f"127.0.0.1:{made.port}"
    made.remove()


@pytest.mark.parametrize(("string", "words"), CASES)
def test_refused_connection_is_explained_without_parts_of_the_connection_string(
    here: str, string: str, words: str
) -> None:
    with pytest.raises(StoreAway) as away:
        connect(f"postgresql://{string.replace('HERE', here)}", timedelta(seconds=10))
    assert str(away.value) == f"the database cannot be reached: {words}"
    assert not [piece for piece in ("77", "fleet", "127.0.0.1") if piece in f"{away.value} {away.value.hint}"]
