"""What is said on the socket of warm commands: anything goes through whole, and nonsense is known for what it is."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.warm.wire import Garbled, pack, unpack


@given(st.lists(st.binary(max_size=200), max_size=20))
def test_what_is_packed_comes_out_again(parts: list[bytes]) -> None:
    packed = pack(parts)
    assert int.from_bytes(packed[:4], "big") == len(packed) - 4
    assert unpack(packed[4:]) == parts


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=5), st.data())
def test_what_was_cut_short_is_refused_or_less(parts: list[bytes], data: st.DataObject) -> None:
    body = pack(parts)[4:]
    cut = data.draw(st.integers(0, len(body) - 1))
    with contextlib.suppress(Garbled):
        found = unpack(body[:cut])
        assert found == parts[: len(found)] and len(found) < len(parts)


@pytest.mark.parametrize("body", [b":", b"x:y", b"-1:y", b"5:four", b"1", b"99999999999:x", "²:ab".encode()])
def test_nonsense_is_refused(body: bytes) -> None:
    with pytest.raises(Garbled):
        unpack(body)
