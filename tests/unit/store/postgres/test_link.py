"""Connection strings: parsed before connecting, and never repeated in an error."""

import logging
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import OperationalError

from fleet.core.errors import BadInput, FleetError, StoreAway
from fleet.store.postgres.link import AGAIN, HINT, connect, explain_refusal, parse_url

SECOND = timedelta(seconds=1)
#: Letters that no message contains, and all characters with a meaning in a URL, a shell or their parsers.
MADE_UP = st.text(st.sampled_from("QXZ79" + "@:/?#[]%&=+ ,;'\"\\$!~`*()<>{}|^\n\tÿ\udcff"), min_size=4, max_size=24)


@given(MADE_UP)
@settings(max_examples=400, deadline=None)
def test_errors_contain_no_four_characters_of_a_password(password: str) -> None:
    with pytest.raises(FleetError) as refused:
        connect(f"postgresql://fleet:{password}@127.0.0.1:1/d1", SECOND)
    assert refused.value.hint in (HINT, AGAIN)
    assert refused.value.__cause__ is None and (refused.value.__suppress_context__ or not refused.value.__context__)
    assert not [piece for piece in pieces(password) if piece in str(refused.value)]


def pieces(text: str) -> list[str]:
    return [text[at : at + 4] for at in range(len(text) - 3)]


@pytest.mark.parametrize(
    "string",
    [
        "postgresql://fleet:Hunter@Secret77@127.0.0.1:1/d1",
        "postgresql://fleet:p@ss:w/rd@127.0.0.1:1/d1",
        "postgresql://fleet:Hunter/Secret77@127.0.0.1:1/d1",
        "postgresql://fleet:12/Secret77?user=x@127.0.0.1:1/d1",
        "postgresql://fleet:Hunter22",
        "postgresql://fleet@Hunter%20Secret77/d1",
        "postgresql://fleet@Hunter%40Secret77/d1",
        "postgresql://fleet@127.0.0.1,Sec!ret:1/d1",
        "postgresql://fleet:Secret77%@127.0.0.1:1/d1",
        "postgresql://fleet:Secret\udcff@127.0.0.1:1/d1",
    ],
)
def test_ambiguous_connection_string_is_refused(string: str) -> None:
    with pytest.raises(BadInput, match="invalid connection string in `queue`") as refused:
        connect(string, SECOND)
    assert refused.value.hint == HINT and "% codes" in HINT.replace("`", "")


@pytest.mark.parametrize(
    ("string", "host"),
    [
        ("postgresql://fleet:Hunter%40Secret77@127.0.0.1:1/d1", "127.0.0.1"),
        ("postgresql://fleet:Hun?ter:#[]@db-1.example.org:5432/d1?sslmode=require", "db-1.example.org"),
        ("postgresql://fleet@[fe80::1%25eth0]:5432/d1", "fe80::1%eth0"),
        ("postgresql://fleet@my_host,bücher.example/d1", "my_host,bücher.example"),
        ("postgresql://fleet@/d1?host=/var/run/a%20folder", "/var/run/a folder"),
        ("postgresql:///d1", None),
    ],
)
def test_escaped_connection_string_is_parsed(string: str, host: str | None) -> None:
    assert parse_url(string).get("host") == host


@pytest.mark.parametrize("host", ["a..b", "a" * 70])
def test_impossible_host_name_is_reported_as_unknown(host: str) -> None:
    with pytest.raises(StoreAway, match="unknown host name"):
        connect(f"postgresql://fleet@{host}/d1", SECOND)


def test_each_reason_is_reported_once_for_several_hosts() -> None:
    words = (
        'connection failed: connection to server at "Hunter", port 2 failed: Connection refused\n'
        "\tIs the server running on that host and accepting TCP/IP connections?\n"
        "Multiple connection attempts failed. All failures were:\n"
        "- host: 'Hunter', port: '1', hostaddr: '::1': connection failed: FATAL:  database \"Hunter\" does not exist\n"
        "- host: 'Hunter', port: '2', hostaddr: '::2': connection failed: Connection refused"
    )
    assert explain_refusal(OperationalError(words)) == "no server listens at its host and port; no such database"


def test_unknown_driver_message_is_not_repeated() -> None:
    assert "Hunter" not in explain_refusal(OperationalError("Benutzer »Hunter« gibt es nicht"))


def test_driver_logs_contain_no_connection_details(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(StoreAway):
        connect("postgresql://Hunter22@127.0.0.1:1/Secret77", SECOND)
    assert "127.0.0.1" not in caplog.text and "Secret77" not in caplog.text
