"""The demo coder parses its own stream, and garbage gives no event."""

import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.coders.demo.adapter import DemoCoder
from fleet.core.event import Event, Kind, Limit, Usage

parse = DemoCoder().parse

STREAM: dict[str, tuple[dict[str, Any], Event]] = {
    "init": (
        {"type": "init", "session": "s-1", "model": "demo-1", "cwd": "/x"},
        Event(kind=Kind.SESSION_STARTED, session="s-1", data={"model": "demo-1", "cwd": "/x"}),
    ),
    "text": ({"type": "text", "text": "hello"}, Event(kind=Kind.TEXT, text="hello")),
    "tool_use": (
        {"type": "tool_use", "id": "t", "tool": "write", "input": {"path": "a", "n": [1, None, 2.5]}},
        Event(kind=Kind.TOOL_USE, tool="write", tool_id="t", data={"path": "a", "n": [1, None, 2.5]}),
    ),
    "tool_result": (
        {"type": "tool_result", "id": "t", "tool": "write", "ok": True, "text": "done"},
        Event(kind=Kind.TOOL_RESULT, tool="write", tool_id="t", ok=True, text="done"),
    ),
    "usage": (
        {"type": "usage", "tokens": {"input": 3, "output": 2}, "cost_usd": 0.5, "context": 90, "window": 100},
        Event(kind=Kind.USAGE, usage=Usage(input=3, output=2, total=True), cost_usd=0.5, context=90, window=100),
    ),
    "limit": (
        {"type": "limit", "kind": "rate", "resets_at": "2026-03-01T12:00:00+02:00", "text": "wait"},
        Event(
            kind=Kind.LIMIT,
            text="wait",
            limit=Limit(kind="rate", resets_at=datetime(2026, 3, 1, 10, tzinfo=UTC), text="wait"),
        ),
    ),
    "error": ({"type": "error", "text": "oh"}, Event(kind=Kind.ERROR, text="oh")),
    "result": ({"type": "result", "ok": False, "text": "no"}, Event(kind=Kind.RESULT, ok=False, text="no")),
}


@pytest.mark.parametrize("kind", STREAM)
def test_each_kind_of_line_gives_its_event(kind: str) -> None:
    line, event = STREAM[kind]
    assert list(parse(json.dumps(line))) == [event]


def test_turn_gives_one_event_per_part() -> None:
    parts = [line for line, _ in STREAM.values()]
    assert list(parse(json.dumps({"type": "turn", "parts": parts}))) == [event for _, event in STREAM.values()]


def test_reset_may_be_given_in_seconds() -> None:
    (event,) = parse('{"type": "limit", "resets_at": 1772359200}')
    assert event.limit == Limit(kind="rate", resets_at=datetime(2026, 3, 1, 10, tzinfo=UTC))


GARBAGE = (
    *("", "\n", "null", "5", '"text"', "[]", "{}", "{", '{"type": "text", "text": "half', "\x00\x01", "ÿþ", "NaN"),
    *('{"type": 5}', '{"type": []}', '{"type": {}}', '{"type": "unknown"}', '{"type": "text", "text": 5}'),
    *('{"type": "turn"}', '{"type": "turn", "parts": 5}', '{"type": "turn", "parts": [5]}', "[" * 100_000),
    *('{"type": "turn", "parts": [{"type": "turn", "parts": []}]}', '{"a":' * 100_000, '{"type": "result"}'),
    *('{"type": "result", "ok": "yes"}', '{"type": "result", "ok": 1}', '{"type": "usage"}'),
    *('{"type": "usage", "tokens": {"input": -1}}', '{"type": "usage", "tokens": {"input": 1e300}}'),
    *('{"type": "usage", "tokens": {"input": ' + "9" * 4000 + "}}", '{"type": "usage", "tokens": {"input": true}}'),
    *('{"type": "usage", "tokens": {}, "cost_usd": NaN}', '{"type": "usage", "tokens": {}, "cost_usd": 1e400}'),
    *('{"type": "usage", "tokens": {}, "context": 1.5}', '{"type": "usage", "tokens": 5}'),
    *('{"type": "limit", "resets_at": "soon"}', '{"type": "limit", "resets_at": 1e15}'),
    *('{"type": "limit", "resets_at": "0001-01-01T00:00:00+14:00"}', '{"type": "limit", "kind": "odd"}'),
    *('{"type": "tool_use", "input": []}', '{"type": "tool_use", "input": {"x": 1e999}}'),
    *('{"type": "tool_use", "input": {"x": ' + "[" * 50 + "]" * 50 + "}}", '{"type": "tool_use", "input": null}'),
    '{"type": "tool_use", "input": {"x": ' + "9" * 5000 + "}}",
)


def test_garbage_gives_no_event() -> None:
    assert {line: found for line in GARBAGE if (found := list(parse(line)))} == {}


def test_half_surrogate_pairs_and_nuls_are_removed() -> None:
    (event,) = parse('{"type": "text", "text": "a\\ud800\\u0000b\\n"}')
    assert event.text == "a?b\n"
    (event,) = parse('{"type": "tool_use", "tool": "x", "input": {"\\ud800": ["\\udfff"]}}')
    assert event.data == {"?": ["?"]}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """Draw a line of the stream with changes: values swapped, bytes flipped, text cut, doubled or joined."""
    line = dict(draw(st.sampled_from([line for line, _ in STREAM.values()])))
    for key in draw(st.lists(st.sampled_from(sorted(line)), max_size=2)):
        line[key] = draw(VALUES)
    if draw(st.booleans()):
        line = {"type": "turn", "parts": [line, draw(VALUES)][: draw(st.integers(0, 2))]}
    text = json.dumps(line)
    choose = random.Random(draw(st.integers()))
    for _ in range(draw(st.integers(0, 3))):
        at = choose.randrange(len(text) + 1)
        text = choose.choice(
            (text[:at], text[at:], text[:at] + chr(choose.randrange(0xD800)) + text[at + 1 :], text * 2)
        )
    return text


@settings(max_examples=1000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
def test_mutated_line_never_raises_and_its_events_can_be_stored(line: str) -> None:
    for event in parse(line):
        json.dumps({**event.as_dict(), "usage": None, "limit": None}, allow_nan=False).encode()
        event.text.encode()
        assert event.usage is None or 0 <= event.usage.input < 2**63
