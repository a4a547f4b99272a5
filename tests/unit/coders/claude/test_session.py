"""Lines of claude's session file that need an explanation."""

import json
from typing import Any

from fleet.coders import load
from fleet.core.event import Event, Kind

USAGE = {"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}


def told(**line: Any) -> list[Event]:
    return list(load("claude").parse_session(json.dumps(line)))


def user(content: Any, **more: Any) -> list[Event]:
    return told(type="user", message={"role": "user", "content": content}, sessionId="s-1", cwd="/project", **more)


def assistant(stop: str | None, **more: Any) -> list[Event]:
    message = {"id": "m", "model": "claude-x", "stop_reason": stop, "usage": USAGE}
    return told(type="assistant", message=message | {"content": [{"type": "text", "text": "so"}]}, **more)


def test_user_message_begins_a_turn_and_is_delivered() -> None:
    began, said = user("do\nthis")
    assert (began.kind, began.session, began.data) == (Kind.SESSION_STARTED, "s-1", {"cwd": "/project"})
    assert (said.kind, said.text) == (Kind.DELIVERED, "do\nthis")
    assert user([{"type": "text", "text": "in blocks"}])[1].text == "in blocks"


def test_slash_command_is_reported_as_typed() -> None:
    kept = "<command-message>review</command-message>\n<command-name>/review</command-name>\n"
    assert user(f"{kept}<command-args>the 2nd\nfile</command-args>")[1].text == "/review the 2nd\nfile"
    assert user(kept)[1].text == "/review"


def test_internal_message_is_not_reported_as_user_message() -> None:
    assert user("Caveat: …", isMeta=True) == []
    assert user("a task for a helper", isSidechain=True) == []
    assert user("This session is continued from …", isCompactSummary=True) == []
    assert user("<local-command-stdout>Set model</local-command-stdout>") == []
    assert user("") == [] and user(None) == [] and user(5) == []


def test_turn_ends_when_the_model_stops_and_not_while_it_waits_for_a_tool() -> None:
    for stop, ends in (
        ("end_turn", True),
        ("max_tokens", True),
        ("tool_use", False),
        (None, False),
        ("pause_turn", False),
    ):
        kinds = [event.kind for event in assistant(stop)]
        assert kinds == [Kind.TEXT, *([Kind.RESULT] if ends else [])], stop


def test_sub_agent_ends_no_turn_and_has_its_own_context() -> None:
    (said,) = assistant("end_turn", isSidechain=True)
    assert said.context is None and said.usage is not None and said.usage.output == 7


def test_interruption_ends_the_turn_with_a_failure() -> None:
    (end,) = user([{"type": "text", "text": "[Request interrupted by user for tool use]"}])
    assert (end.kind, end.ok) == (Kind.RESULT, False)


def test_only_user_messages_are_delivered_from_the_queue() -> None:
    def queued(**more: Any) -> list[Event]:
        return told(type="attachment", attachment={"type": "queued_command", "prompt": "now this", **more})

    assert [event.text for event in queued(commandMode="prompt")] == ["now this"]
    assert queued(commandMode="task-notification") == []
    assert told(type="attachment", attachment={"type": "skill_listing", "prompt": "x", "commandMode": "prompt"}) == []
