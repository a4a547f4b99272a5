"""Codex: its options, the gaps of its stream, and the session file that fills them."""

import glob
import json
import signal
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from builders import a_task
from contract.coder_recordings import lines_of
from fleet.coders.base import ANYWHERE, RESUME, Order
from fleet.coders.codex.adapter import PLAIN_SHELL, CodexCoder
from fleet.core.event import Event, Kind, Limit, Usage

CODEX = CodexCoder()
SESSION = "01a1e21e-24d6-7fc2-8ea8-926b90ce8aeb"
OPTIONS = ("--json", "--skip-git-repo-check")
SKIP = "--dangerously-bypass-approvals-and-sandbox"
MISPLACED: tuple[Any, ...] = (None, True, -1, 10**30, "x", [], [[]], {}, {"a": 1}, 1e300)


def an_order(**changes: Any) -> Order:
    return Order(**{"task": a_task(), "prompt": "mend it\n", **changes})


def said(**line: Any) -> list[Event]:
    return CODEX.parse(json.dumps(line))


def kept(**payload: Any) -> list[Event]:
    return CODEX.parse_transcript(json.dumps({"type": "event_msg", "payload": payload}))


def used(percent: Any, minutes: int = 300, resets_at: Any = 1794797988) -> dict[str, Any]:
    return {"used_percent": percent, "window_minutes": minutes, "resets_at": resets_at}


def test_prompt_is_passed_by_stdin_and_sessions_resume_from_any_directory() -> None:
    command = CODEX.command(an_order(permissions="skip"))
    assert command.argv == ("codex", "exec", *PLAIN_SHELL, *OPTIONS, SKIP, "--", "-")
    assert (command.stdin, command.keep_stdin) == ("mend it\n", False)
    assert (CODEX.steering, CODEX.resumes) == (RESUME, ANYWHERE)


def test_session_and_model_cannot_become_options() -> None:
    argv = CODEX.command(an_order(session="--last", model="-x", permissions="user")).argv
    assert argv == ("codex", "exec", *PLAIN_SHELL, *OPTIONS, "--model=-x", "resume", "--", "--last", "-")


def test_user_option_with_many_values_takes_none_of_fleet() -> None:
    flags = ("-c", "a=1", "--image", "a.png")
    argv = CODEX.command(an_order(flags=flags, session=SESSION)).argv
    assert argv[2:9] == (*PLAIN_SHELL, *flags, "--json"), "the next option ends the list"
    assert argv[-4:] == ("resume", "--", SESSION, "-")


def test_codex_is_interrupted_before_it_is_terminated() -> None:
    assert CODEX.stop_steps == (signal.SIGINT, signal.SIGTERM)


def test_tool_call_is_reported_once_at_its_start_and_once_at_its_end() -> None:
    told = [event for line in lines_of("codex", "ok") for event in CODEX.parse(line)]
    calls = [event for event in told if event.kind in (Kind.TOOL_USE, Kind.TOOL_RESULT)]
    command = "/bin/bash -lc 'echo hello > hello.txt && echo wrote-hello'"
    assert calls == [
        Event(kind=Kind.TOOL_USE, tool="command_execution", tool_id="item_2", data={"command": command}),
        Event(kind=Kind.TOOL_RESULT, tool="command_execution", tool_id="item_2", text="wrote-hello\n", ok=True),
    ]


def test_tool_input_and_outcome_are_reported() -> None:
    mcp = {"id": "i", "type": "mcp_tool_call", "server": "fleet", "tool": "ask", "arguments": {"q": 1}}
    (asked,) = said(type="item.started", item=mcp)
    assert (asked.tool, asked.data) == ("mcp__fleet__ask", {"q": 1})
    (failed,) = said(type="item.completed", item=mcp | {"status": "failed", "error": {"message": "gone"}})
    assert (failed.ok, failed.text) == (False, "gone")
    change = {"id": "i", "type": "file_change", "changes": [{"path": "/a", "kind": "add"}], "status": "in_progress"}
    (changed,) = said(type="item.started", item=change)
    assert changed.data == {"changes": [{"path": "/a", "kind": "add"}]}
    ran = {"id": "i", "type": "command_execution", "status": "completed", "exit_code": 3}
    assert [event.ok for event in said(type="item.completed", item=ran)] == [False]
    searched = {"id": "i", "type": "web_search", "query": "x"}
    assert [event.ok for event in said(type="item.completed", item=searched)] == [True]


def test_todo_list_is_no_tool_call() -> None:
    todo = {"id": "i", "type": "todo_list", "items": [{"text": "x", "completed": False}]}
    assert said(type="item.started", item=todo) == said(type="item.completed", item=todo) == []


def test_declined_command_is_a_denied_tool() -> None:
    item = {"id": "i", "type": "command_execution", "status": "declined", "exit_code": None}
    result, denied = said(type="item.completed", item=item)
    assert result.ok is False
    assert (denied.kind, denied.tool) == (Kind.DENIED, "command_execution")


def test_cached_tokens_are_not_counted_as_input() -> None:
    told = {"input_tokens": 500, "cached_input_tokens": 300, "cache_write_input_tokens": 50, "output_tokens": 9}
    (last,) = said(type="turn.completed", usage=told)
    assert last.usage == Usage(input=150, output=9, cache_read=300, cache_write=50, total=True, session=True)
    (odd,) = said(type="turn.completed", usage={"input_tokens": 1, "cached_input_tokens": 5})
    assert odd.usage is not None and odd.usage.input == 0


REFUSALS = {
    "Reconnecting... 1/5 (exceeded retry limit, last status: 429 Too Many Requests)": "rate",
    "Reconnecting... 1/5 (unexpected status 401 Unauthorized: x, url: http://h/429)": "auth",
    "Reconnecting... waiting for network (Connection failed: error sending request)": "overload",
    "Reconnecting... 2/5 (stream disconnected before completion: x)": "overload",
    "Selected model is at capacity. Please try a different model.": "overload",
    "unexpected status 502 Bad Gateway: x": "overload",
    "You’ve hit your usage limit. Try again at 6:47 PM.": "plan",
    "Missing environment variable: `KEY`.": "auth",
}


@pytest.mark.parametrize("text", REFUSALS)
def test_refused_request_reports_its_limit_and_no_end(text: str) -> None:
    limit = Limit(kind=REFUSALS[text], text=text)
    assert said(type="error", message=text) == [Event(kind=Kind.LIMIT, text=text, limit=limit)]


@pytest.mark.parametrize("text", REFUSALS)
def test_failed_turn_reports_its_limit_before_its_end(text: str) -> None:
    limited, last = said(type="turn.failed", error={"message": text})
    assert limited.limit is not None and limited.limit.kind == REFUSALS[text]
    assert (last.kind, last.ok, last.text) == (Kind.RESULT, False, text)


def test_other_error_is_a_complaint_without_a_limit() -> None:
    assert [event.kind for event in said(type="error", message="unexpected status 404 Not Found")] == [Kind.ERROR]
    assert said(type="item.completed", item={"type": "error", "message": "old model"}) == [
        Event(kind=Kind.ERROR, text="old model")
    ]
    assert said(type="turn.failed", error=None) == [Event(kind=Kind.RESULT, ok=False, text="the turn failed")]


def test_session_file_is_found_below_the_day_it_began(tmp_path: Path) -> None:
    home = tmp_path / "odd [name]*"
    file = home / "sessions" / "2026" / "11" / "16" / f"rollout-2026-11-16T02-09-48-{SESSION}.jsonl"
    file.parent.mkdir(parents=True)
    file.touch()
    pattern = CODEX.transcript(SESSION, "/x", {"CODEX_HOME": str(home), "HOME": "/h"})
    assert glob.glob(pattern) == [str(file)]  # noqa: PTH207 - a pattern is what is promised
    assert CODEX.transcript(SESSION, "/x", {"HOME": "/h"}).startswith("/h/.codex/sessions/")
    for hostile in ("", "../../etc", "*", "a/b"):
        assert CODEX.transcript(hostile, "/x", {"HOME": "/h"}) == ""


def test_session_file_reports_the_context() -> None:
    last = {"input_tokens": 1121, "cached_input_tokens": 1000, "output_tokens": 30, "total_tokens": 1151}
    total = {"input_tokens": 9000, "cached_input_tokens": 8000, "output_tokens": 60}
    so_far = Usage(input=1000, output=60, cache_read=8000, total=True, session=True)
    info = {"last_token_usage": last, "total_token_usage": total, "model_context_window": 258400}
    assert kept(type="token_count", info=info, rate_limits=None) == [
        Event(kind=Kind.USAGE, context=1151, window=258400, usage=so_far)
    ]
    assert kept(type="token_count", info={"last_token_usage": {"input_tokens": 7}}) == [
        Event(kind=Kind.USAGE, context=7)
    ]
    record = {"type": "token_usage_record", "payload": {"usage": last, "thread_token_usage": total}}
    assert CODEX.parse_transcript(json.dumps(record)) == [Event(kind=Kind.USAGE, context=1151, usage=so_far)]
    assert kept(type="task_started", model_context_window=258400) == [Event(kind=Kind.USAGE, window=258400)]


@pytest.mark.parametrize(("percent", "kind"), [(89.9, None), (90, "warning"), (93.0, "warning"), (100.0, "plan")])
def test_session_file_reports_account_usage(percent: float, kind: str | None) -> None:
    told = kept(type="token_count", info=None, rate_limits={"primary": used(percent), "secondary": used(40.0)})
    assert [event.limit and event.limit.kind for event in told] == [kind]
    assert [(each.window, each.used_pct) for each in told[0].gauges] == [("5h", percent), ("5h", 40.0)]
    if kind:
        assert told[0].limit is not None
        assert told[0].limit.resets_at == datetime(2026, 11, 16, 2, 59, 48, tzinfo=UTC)
        assert told[0].text == f"the limit of 300 minutes is used to {percent:.0f}%"


def test_quota_windows_are_named_by_length_and_missing_values_not_guessed() -> None:
    limits = {"primary": used(7.0, 10080), "secondary": used(61.5, 299), "limit_id": "codex"}
    told = kept(type="token_count", info=None, rate_limits=limits)
    assert [(each.window, each.used_pct) for each in told[0].gauges] == [("7d", 7.0), ("5h", 61.5)]
    other = {"primary": used(None, 10080), "secondary": None, "limit_id": "codex_spark"}
    told = kept(type="token_count", info=None, rate_limits=other)
    assert [(each.window, each.used_pct) for each in told[0].gauges] == [("7d codex_spark", None)]
    assert kept(type="token_count", info=None, rate_limits={"primary": used(5.0, 0), "secondary": None}) == []


def test_limit_with_the_latest_reset_is_reported() -> None:
    week = used(100.0, 10080, 1795194988)
    for limits in ({"primary": used(100.0), "secondary": week}, {"primary": week, "secondary": used(100.0)}):
        (told,) = kept(type="token_count", rate_limits=limits)
        assert told.text == "the limit of 10080 minutes is used to 100%"
    (told,) = kept(type="token_count", rate_limits={"primary": used(100.0), "secondary": used(95, 10080, 1795194988)})
    assert told.limit is not None and told.limit.kind == "plan", "one that is used up comes before one that nearly is"


def test_declined_patch_is_reported_from_the_session_file() -> None:
    refused = "patch rejected: writing is blocked by read-only sandbox; rejected by user approval settings"
    (told,) = kept(type="custom_tool_call_output", call_id="c", output=refused)
    assert (told.kind, told.tool) == (Kind.DENIED, "apply_patch")
    assert kept(type="function_call_output", call_id="c", output=f"$ cat log\n{refused}") == []


@pytest.mark.parametrize("value", MISPLACED, ids=repr)
def test_session_file_with_invalid_values_gives_no_event(value: Any) -> None:
    for payload in (
        {"type": "token_count", "info": {"last_token_usage": value, "model_context_window": value}},
        {"type": "token_count", "rate_limits": {"primary": value, "secondary": used(value, resets_at=value)}},
        {"type": "task_started", "model_context_window": value},
        {"type": "custom_tool_call_output", "output": value},
        {"type": value},
    ):
        assert kept(**payload) == []
    record = {"type": "token_usage_record", "payload": {"usage": value, "thread_token_usage": value}}
    assert CODEX.parse_transcript(json.dumps(record)) == []
    (told,) = kept(type="token_count", rate_limits={"primary": used(100, resets_at=[value])})
    assert told.limit is not None and told.limit.resets_at is None
    assert CODEX.parse_transcript("{") == CODEX.parse_transcript(json.dumps(value)) == []


def test_end_before_the_first_turn_is_explained() -> None:
    gone = CODEX.explain(1, "Error: thread/resume failed: no rollout found for thread id x")
    assert gone is not None and "restart the task with a new session" in gone.text
    flags = CODEX.explain(2, "error: unexpected argument '--nope' found")
    assert flags is not None and "check the coder's flags" in flags.text
    assert CODEX.explain(1, "WARNING: proceeding") is None
    assert CODEX.explain(None, "last status: 429 Too Many Requests") is None, "it was stopped, not refused"


def test_api_key_for_other_programs_is_no_login() -> None:
    signs = CODEX.login_signs({"HOME": "/h"})
    assert signs == ("CODEX_API_KEY", "/h/.codex/auth.json")
    assert "/a/auth.json" in CODEX.login_signs(CODEX.config_env("/a"))


def test_agents_get_only_the_variables_that_codex_reads() -> None:
    def passed(name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in CODEX.reads_env)

    assert all(map(passed, ("CODEX_HOME", "CODEX_API_KEY", "OPENAI_BASE_URL")))
    assert not any(map(passed, ("CODEX_THREAD_ID", "CODEX_SANDBOX", "GEMINI_API_KEY")))


def test_workers_and_stages_hand_in_by_a_schema() -> None:
    order = an_order(task=a_task(origin="workflow"), folder="/run")
    command = CODEX.command(order)
    assert command.argv == (
        "codex",
        "exec",
        *PLAIN_SHELL,
        *OPTIONS,
        "--output-schema=/run/result_schema.json",
        "--",
        "-",
    )
    schema = json.loads(command.files["result_schema.json"])
    assert set(schema["required"]) == set(schema["properties"]), "it takes no other schema"
    assert schema["additionalProperties"] is schema["properties"]["tests"]["items"]["additionalProperties"] is False
    assert "--output-schema=/run/result_schema.json" in CODEX.command(order.replace(session=SESSION)).argv
    for other in (an_order(folder="/run"), order.replace(flags=("--output-schema=mine",)), order.replace(folder="")):
        assert "result_schema.json" not in CODEX.command(other).files


@pytest.mark.parametrize("told", ['{"summary": "x"}', '{"summary": 1, "status": "completed"}', "{", "[]", '{"a": {}}'])
def test_only_a_result_that_fits_the_schema_is_handed_in(told: str) -> None:
    (event,) = said(type="item.completed", item={"type": "agent_message", "text": told})
    assert (event.kind, event.text, event.data) == (Kind.TEXT, told, {})
    handed = {"summary": "mended", "status": "blocked", "next_steps": ["ask"]}
    (event,) = said(type="item.completed", item={"type": "agent_message", "text": json.dumps(handed)})
    assert (event.kind, event.text, event.data) == (Kind.TEXT, "mended", {"handed_in": handed})
