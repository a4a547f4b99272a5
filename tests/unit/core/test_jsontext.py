"""JSON text: written values survive a round trip, in the format of the json module."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.core.jsontext import decode, encode

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(PLAIN)
def test_encode_writes_the_same_as_the_json_module(value: Any) -> None:
    assert encode(value) == json.dumps(value, ensure_ascii=False)
    assert encode(value, 2) == json.dumps(value, ensure_ascii=False, indent=2)


@given(PLAIN)
def test_encoded_value_decodes_to_itself(value: Any) -> None:
    assert decode(encode(value)) == value


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_value_outside_of_json_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="no JSON form"):
        encode(value)


def test_broken_text_raises_value_error() -> None:
    with pytest.raises(ValueError, match="Expecting"):
        decode("{bad")
