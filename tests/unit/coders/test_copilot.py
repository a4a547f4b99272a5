"""Copilot: its options, and the parts of its stream that no recording contains."""

import json
from fnmatch import fnmatch
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest

from builders import a_task
from contract.coder_recordings import lines_of
from fleet.coders.base import RESUME, SAME_CWD, Order
from fleet.coders.copilot import CopilotCoder
from fleet.core.event import Event, Kind, Limit, Usage

COPILOT = CopilotCoder()
SESSION = "26582444-eecb-4612-a570-5867ec959cb3"


def an_order(**changes: Any) -> Order:
    return Order(**{"task": a_task(), "prompt": "mend it\n", **changes})


def said(type: str, **data: Any) -> list[Event]:
    return list(COPILOT.parse(json.dumps({"type": type, "data": data})))


def kept(type: str, **data: Any) -> list[Event]:
    return list(COPILOT.parse_transcript(json.dumps({"type": type, "data": data})))


def test_prompt_is_passed_by_stdin_and_questions_are_disabled() -> None:
    command = COPILOT.command(an_order())
    assert command.argv == ("copilot", "--output-format=json", "--no-ask-user", "--no-auto-update")
    assert command.stdin == "mend it\n"


def test_model_and_session_cannot_become_options_and_user_options_come_last() -> None:
    flags = ("--allow-tool", "a", "b")
    argv = COPILOT.command(an_order(model="-x", session="--y", permissions="skip", flags=flags)).argv
    assert argv[4:] == ("--model=-x", "--resume=--y", "--allow-all", *flags)


def test_copilot_resumes_its_session_and_is_stopped_by_sigterm() -> None:
    assert (COPILOT.steering, COPILOT.resumes, COPILOT.stop_steps) == (RESUME, SAME_CWD, (SIGTERM,))


def test_account_has_its_own_folder_and_its_tokens_reach_the_program() -> None:
    assert COPILOT.config_env("/accounts/a") == {"COPILOT_HOME": "/accounts/a"}
    signs = COPILOT.login_signs({"HOME": "/home/user"})
    assert "/home/user/.copilot/config.json" in signs
    assert "/accounts/a/config.json" in COPILOT.login_signs(COPILOT.config_env("/accounts/a"))
    for name in (sign for sign in signs if not sign.startswith("/")):
        assert any(fnmatch(name, pattern) for pattern in COPILOT.reads_env), name


def test_text_and_context_of_a_sub_agent_are_not_those_of_the_agent() -> None:
    assert said("assistant.message", content="found it", parentToolCallId="call_1") == []
    line = {"type": "assistant.message", "agentId": "a-1", "data": {"content": "found it"}}
    assert list(COPILOT.parse(json.dumps(line))) == []
    metrics = {"metrics": {"context_current_tokens": 900, "context_token_limit": 1000}}
    (its,) = said("tool.execution_complete", success=True, toolTelemetry=metrics, parentToolCallId="call_1")
    (own,) = said("tool.execution_complete", success=True, toolTelemetry=metrics)
    assert (its.context, its.window) == (None, None)
    assert (own.context, own.window) == (900, 1000)


def test_thoughts_are_reported_before_text() -> None:
    assert said("assistant.message", content="so", reasoningText="hm") == [
        Event(kind=Kind.THINKING, text="hm"),
        Event(kind=Kind.TEXT, text="so"),
    ]


@pytest.mark.parametrize(
    ("properties", "tool"),
    [({"shell_error_category": "permission_denied"}, "shell"), ({"command": "create"}, "create"), ({}, "a tool")],
)
def test_tool_is_denied_when_no_user_could_allow_it(properties: dict[str, str], tool: str) -> None:
    error = {"code": "denied", "message": "Permission denied because no interactive user response was available."}
    result, denied = said(
        "tool.execution_complete", success=False, error=error, toolTelemetry={"properties": properties}
    )
    assert (result.kind, result.ok, result.text) == (Kind.TOOL_RESULT, False, error["message"])
    assert denied == Event(kind=Kind.DENIED, tool=tool)


def test_tool_forbidden_by_user_rules_is_not_reported_as_denied() -> None:
    error = {"code": "denied", "message": "Permission to run this tool was denied due to the following rules: `shell`"}
    (result,) = said("tool.execution_complete", success=False, error=error)
    assert (result.kind, result.ok) == (Kind.TOOL_RESULT, False)


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        ({"errorType": "rate_limit", "statusCode": 429}, "rate"),
        ({"errorType": "rate_limit", "statusCode": 429, "errorCode": "user_model_rate_limited"}, "rate"),
        ({"errorType": "rate_limit", "statusCode": 429, "errorCode": "user_weekly_rate_limited"}, "plan"),
        ({"errorType": "rate_limit", "statusCode": 429, "errorCode": "user_global_rate_limited"}, "plan"),
        ({"errorType": "quota", "errorCode": "quota_exceeded"}, "plan"),
        ({"errorType": "authentication"}, "auth"),
        ({"errorType": "authorization"}, "auth"),
        ({"errorType": "query", "statusCode": 503}, "overload"),
    ],
)
def test_session_error_is_reported_as_a_limit(data: dict[str, Any], kind: str) -> None:
    assert said("session.error", message="sorry", **data) == [
        Event(kind=Kind.LIMIT, text="sorry", limit=Limit(kind=kind, text="sorry"))
    ]


def test_full_context_differs_from_other_errors() -> None:
    assert said("session.error", errorType="context_limit", message="full") == [
        Event(kind=Kind.CONTEXT_FULL, text="full")
    ]
    assert said("session.error", errorType="query", message="bad") == [Event(kind=Kind.ERROR, text="bad")]


def test_refused_request_is_reported_with_the_message_of_the_provider() -> None:
    message = json.dumps({"message": "slow down", "code": "rate_limit_exceeded"})
    assert said("model.call_failure", statusCode=429, errorMessage=message) == [
        Event(kind=Kind.LIMIT, text="slow down", limit=Limit(kind="rate", text="slow down"))
    ]
    assert said("model.call_failure", statusCode=418) == [Event(kind=Kind.ERROR, text="HTTP status 418")]


def test_idle_is_no_last_word_and_an_interruption_is_a_bad_one() -> None:
    assert said("assistant.idle") == []
    assert COPILOT.result_needs_exit_0, "for the result that follows is a good one all the same"
    assert said("assistant.idle", aborted=True) == [Event(kind=Kind.RESULT, ok=False, text="it was interrupted")]


@pytest.mark.parametrize("code", [None, "0", False, 0.0, [], 10**30])
def test_only_exit_code_0_is_a_good_last_word(code: object) -> None:
    words = COPILOT.parse(json.dumps({"type": "result", "sessionId": SESSION, "exitCode": code}))
    assert not any(event.ok for event in words)
    assert list(COPILOT.parse('{"type": "result"}')) == []


def test_each_session_has_its_own_folder(tmp_path: Path) -> None:
    file = tmp_path / "session-state" / SESSION / "events.jsonl"
    file.parent.mkdir(parents=True)
    file.touch()
    pattern = COPILOT.transcript(SESSION, "/srv/app", {"COPILOT_HOME": str(tmp_path)})
    assert list(tmp_path.glob(str(Path(pattern).relative_to(tmp_path)))) == [file]
    assert COPILOT.transcript("../*", "/srv/app", {"HOME": "/home/user"}) == ""


def test_session_file_reports_tokens_of_all_models() -> None:
    fast = {"usage": {"inputTokens": 1120, "outputTokens": 30, "cacheReadTokens": 1000, "cacheWriteTokens": 20}}
    slow = {"usage": {"inputTokens": 10, "outputTokens": 5}}
    assert kept("session.shutdown", modelMetrics={"fast": fast, "slow": slow, "odd": 5}) == [
        Event(kind=Kind.USAGE, usage=Usage(input=110, output=35, cache_read=1000, cache_write=20, total=True))
    ]
    assert kept("session.shutdown") == []


def test_session_file_reports_the_context_of_the_main_agent() -> None:
    told = {"inputTokens": 1100, "maxPromptTokens": 128_000}
    assert kept("session.usage_record", usage=told) == [Event(kind=Kind.USAGE, context=1100, window=128_000)]
    assert kept("session.usage_record", usage={**told, "parentToolCallId": "call_1"}) == []


def test_session_file_repeats_no_event_of_the_stream() -> None:
    assert [event for line in lines_of("copilot", "ok") for event in COPILOT.parse_transcript(line)] == []
    assert list(COPILOT.parse_transcript("{")) == []


def test_missing_login_is_explained_from_stderr() -> None:
    stderr = "Error: No authentication information found.\n\n  • Start 'copilot' and run the '/login' command\n"
    limit = COPILOT.explain(1, stderr)
    assert limit is not None and limit.limit is not None and limit.limit.kind == "auth"
    assert COPILOT.explain(1, "error: unexpected argument '--z' found\n") == Event(
        kind=Kind.ERROR, text="error: unexpected argument '--z' found"
    )
    assert COPILOT.explain(0, stderr) is None and COPILOT.explain(1, "") is None
