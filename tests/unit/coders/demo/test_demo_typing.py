"""Keys and pastes at the demo agent's terminal, in chunks of any size."""

import random

import pytest

from fleet.coders.demo.terminal import INTERRUPT, LEAVE, LONGEST, KeyboardReader

ON, OFF = b"\x1b[200~", b"\x1b[201~"


def typed(*pieces: bytes) -> tuple[list[str], str]:
    typing = KeyboardReader()
    said = [message for piece in pieces for message in typing.feed(piece)]
    return said, typing.text


@pytest.mark.parametrize(
    ("data", "said", "rest"),
    [
        (b"hello\r", ["hello"], ""),
        (b"hello\n", ["hello"], ""),
        (b"hel", [], "hel"),
        (b"helpo\x7f\x7flo\r", ["hello"], ""),
        (b"\x1b[A\x1bOPa\x1b[1;5Cb\r", ["ab"], ""),
        (b"a\x01\x0fb\r", ["ab"], ""),
        (ON + b"two\nlines" + OFF + b"\r", ["two\nlines"], ""),
        (ON + b"two\rlines\r\nmore" + OFF + b"\r", ["two\nlines\nmore"], ""),
        (ON + b"not sent\r" + OFF, [], "not sent\n"),
        (b"be" + ON + b"tween" + OFF + b"!\r", ["between!"], ""),
        (ON + b"\x03\x04" + OFF + b"\r", ["\x03\x04"], ""),
        (b"abc\x03", [INTERRUPT], ""),
        (b"\x04", [LEAVE], ""),
        (b"abc\x04", [], "abc"),
        ("ö😀\r".encode(), ["ö😀"], ""),
        (b"\xff\r", ["\ufffd"], ""),
    ],
)
def test_typed_input_becomes_messages_in_any_chunks(data: bytes, said: list[str], rest: str) -> None:
    assert typed(data) == (said, rest)
    assert typed(*(bytes([byte]) for byte in data)) == (said, rest)
    choose = random.Random(data)
    for _ in range(20):
        cuts = sorted(choose.randrange(len(data) + 1) for _ in range(3))
        pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        assert typed(*pieces) == (said, rest)


def test_paste_without_an_end_is_bounded() -> None:
    assert typed(ON, *[b"x" * 100_000] * 12) == ([], "x" * LONGEST)
