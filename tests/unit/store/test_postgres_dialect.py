"""Statements and texts in the form for PostgreSQL."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.store.postgres.connection import escape_values, in_postgres, unescape_rows

TEXTS = st.text(alphabet=st.sampled_from("\0\ufdd001a"), max_size=12)


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("where id = :id", "where id = %(id)s"),
        ("x between :a and :b", "x between %(a)s and %(b)s"),
        ("x::bigint", "x::bigint"),
        ("'external:' || :id", "'external:' || %(id)s"),
        ("a % 2 like '%s'", "a %% 2 like '%%s'"),
        ("in (select value from json_each(:ids))", "in (select value from each_of(%(ids)s))"),
    ],
)
def test_placeholders_are_written_for_psycopg(sql: str, told: str) -> None:
    assert in_postgres(sql) == told.encode()


@given(TEXTS, st.lists(TEXTS))
def test_text_is_encoded_without_nul_and_decodes_to_itself(text: str, texts: list[str]) -> None:
    put = escape_values({"text": text, "texts": texts, "number": 3, "none": None})
    assert "\0" not in put["text"] and not any("\0" in each for each in put["texts"])
    assert unescape_rows([(put["text"], 3, None), tuple(put["texts"])]) == [(text, 3, None), tuple(texts)]


def test_rows_without_encoded_text_are_returned_unchanged() -> None:
    row = ("a", 1, None)
    assert unescape_rows([row])[0] is row


def test_booleans_are_numbers() -> None:
    assert [type(value) for value in escape_values({"a": True, "b": False}).values()] == [int, int]
