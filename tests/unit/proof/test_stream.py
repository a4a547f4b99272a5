"""Facts from the events of a run: counts, commands, and a tool call without an end."""

import json

import pytest

from builders import NOON
from fleet.core.event import Event, Kind
from fleet.proof.stream import StreamEvidence, stream_of
from fleet.supervisor.task_folder import event_line


def shown(*events: Event) -> StreamEvidence:
    return stream_of(json.dumps(event_line(event, NOON), ensure_ascii=False).encode() for event in events)


def use(key: str = "1", **data: object) -> Event:
    return Event(kind=Kind.TOOL_USE, tool="Bash", tool_id=key, data=dict(data) or {"command": "ls"})


def result(key: str = "1", *, ok: bool = True) -> Event:
    return Event(kind=Kind.TOOL_RESULT, tool_id=key, ok=ok)


TEXT, DONE = Event(kind=Kind.TEXT, text="hm"), Event(kind=Kind.RESULT, ok=True)
USAGE = Event(kind=Kind.USAGE)


def test_tools_results_and_errors_are_counted() -> None:
    found = shown(TEXT, use("1"), result("1"), use("2"), result("2", ok=False), Event(kind=Kind.ERROR, text="x"), DONE)
    assert (found.events, found.uses, found.results, found.errors, found.last) == (7, 2, 2, 2, "session_ended")
    assert found.told and found.whole and not found.delegates


@pytest.mark.parametrize(
    ("events", "tool"),
    [
        ((use("1"), result("1"), use("2"), DONE), "Bash"),
        ((use("1"), result("1"), use("2"), USAGE, DONE), "Bash"),
        ((use("1"), result("1"), use("2"), result("2"), DONE), ""),
        ((use("1"), result("1"), use("2"), TEXT, DONE), ""),
        ((use("1"), use("2"), result("2"), DONE), ""),
        ((use("1"), use("2"), result("1"), DONE), "Bash"),
        ((use("1"), DONE), ""),  # its coder may report no results at all
        ((DONE,), ""),
    ],
)
def test_tool_that_was_running_at_the_end_is_named(events: tuple[Event, ...], tool: str) -> None:
    assert shown(*events).dangling == tool


def test_commands_of_each_coder_are_found() -> None:
    found = shown(use(command="make  check"), use(cmd=["go", "test"]), use(path="a.py"), use(script="x" * 9_000))
    assert found.commands[:2] == ("make  check", "go test") and len(found.commands[2]) == 4_000
    assert found.mentions("a.py") and not found.mentions("b.py")


def test_foreign_lines_are_ignored() -> None:
    junk = [
        b"",
        b"{",
        b"null",
        b'{"kind": "tool_use"',
        b'{"kind": "tool_use", "data": [1]}',
        b'{"kind": "' + b"x" * 999,
    ]
    found = stream_of([*junk, b'{"kind": "tool_result", "tool_id": {"a": 1}}'])
    assert found.uses == 2 and found.results == 1 and not found.dangling
    assert stream_of([]) == StreamEvidence(whole=True)
