"""Claude: its command, its messages, and the lines that no recording contains."""

import json
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from builders import a_task
from contract.coder_recordings import lines_of
from fleet.coders.base import SAME_CWD, STDIN, Order
from fleet.coders.claude.adapter import ClaudeCoder
from fleet.core.event import Event, Gauge, Kind, Limit, Usage

CLAUDE = ClaudeCoder()
QUOTA = Path(__file__).parents[3] / "recordings" / "quota" / "claude.jsonl"
SKIP = "--dangerously-skip-permissions"


def an_order(**changes: Any) -> Order:
    return Order(**{"task": a_task(), "prompt": "mend it", **changes})


def parsed(**said: Any) -> list[Event]:
    return CLAUDE.parse(json.dumps(said))


def a_message(*blocks: Any, **changes: Any) -> dict[str, Any]:
    usage = {"input_tokens": 5, "output_tokens": 1, "cache_read_input_tokens": 70, "cache_creation_input_tokens": 2}
    return {"id": "msg_1", "model": "claude-sonnet-5", "content": list(blocks), "usage": usage, **changes}


def a_result(**changes: Any) -> dict[str, Any]:
    told = {"subtype": "success", "is_error": False, "api_error_status": None, "result": "done", "session_id": "s"}
    return {"type": "result", **told, **changes}


def only(events: list[Event]) -> Event:
    (event,) = events
    return event


def test_claude_runs_with_json_input_and_output() -> None:
    command = CLAUDE.command(an_order())
    assert command.argv == (
        *("claude", "-p", "--verbose", "--output-format=stream-json"),
        *("--input-format=stream-json", "--replay-user-messages"),
    )
    assert command.keep_stdin
    assert (CLAUDE.steering, CLAUDE.resumes) == (STDIN, SAME_CWD)
    assert command.stdin.count("\n") == 1
    assert json.loads(command.stdin)["message"] == {"role": "user", "content": "mend it"}


def test_echoed_message_is_delivered_and_the_prompt_is_not() -> None:
    said = json.loads(CLAUDE.message("look here"))
    assert only(parsed(**said, isReplay=True)) == Event(kind=Kind.DELIVERED, text="look here")
    assert parsed(**json.loads(CLAUDE.command(an_order()).stdin), isReplay=True) == []


def test_retries_are_limited_and_updates_disabled() -> None:
    env = CLAUDE.command(an_order()).env
    assert 0 <= int(env["CLAUDE_CODE_MAX_RETRIES"]) <= 3
    assert env["DISABLE_AUTOUPDATER"] == "1"


def test_model_and_session_cannot_become_options_and_user_options_come_last() -> None:
    flags = ("--allowedTools", "Bash", "Read")
    argv = CLAUDE.command(an_order(model="-x", session="--y", flags=flags, permissions="skip")).argv
    assert argv[-3:] == flags
    assert {"--model=-x", "--resume=--y"} < set(argv)
    assert argv.index(SKIP) < argv.index("--allowedTools")


def test_budget_is_passed_and_a_used_up_budget_is_no_account_limit() -> None:
    assert "--max-budget-usd=0.2500" in CLAUDE.command(an_order(budget_usd=0.25)).argv
    assert not [word for word in CLAUDE.command(an_order()).argv if "budget" in word]
    told, last = parsed(**a_result(subtype="error_max_budget_usd", is_error=True, errors=["Reached maximum budget"]))
    assert told.limit == Limit(kind="budget", text=told.text) and not last.ok


def test_quotas_are_reported_by_window_length_in_any_state() -> None:
    (line,) = [each for each in QUOTA.read_text("utf-8").splitlines() if "rate_limit_event" in each]
    event = only(CLAUDE.parse(line))
    assert (event.kind, event.limit) == (Kind.USAGE, None), "nothing is refused"
    assert event.gauges == (Gauge(window="5h", used_pct=30.0, resets_at=datetime(2026, 11, 19, 2, 12, 14, tzinfo=UTC)),)
    info = {"status": "rejected", "rateLimitType": "seven_day_opus", "utilization": 1.0, "resetsAt": 1795054334}
    event = only(parsed(type="rate_limit_event", rate_limit_info=info))
    assert event.limit is not None and event.limit.kind == "plan"
    assert [(each.window, each.used_pct) for each in event.gauges] == [("7d opus", 100.0)]
    hostile = {f"five_hour_{number}\x1b[31m{'x' * 999}": {"utilization": -1} for number in range(99)}
    event = only(parsed(type="rate_limit_event", rate_limit_info={"status": "allowed", "unifiedWindows": hostile}))
    assert len(event.gauges) == 10 and all(len(each.window) <= 40 for each in event.gauges)


def test_permissions_are_skipped_only_when_ordered_and_also_as_root() -> None:
    skipping, asking = CLAUDE.command(an_order(permissions="skip")), CLAUDE.command(an_order())
    assert SKIP in skipping.argv and skipping.env["IS_SANDBOX"] == "1"
    assert SKIP not in asking.argv and "IS_SANDBOX" not in asking.env


@pytest.mark.parametrize("text", ["a\nb", 'say "hi"', "ü\u2028\udfff", ""])
def test_message_is_one_line_of_json(text: str) -> None:
    line = CLAUDE.message(text)
    assert line.endswith("\n") and line.count("\n") == 1 and line.isascii()
    said = json.loads(line)
    assert said["type"] == said["message"]["role"] == "user"
    assert said["message"]["content"] == [{"type": "text", "text": text}]


def test_interruption_is_one_line_of_json() -> None:
    line = CLAUDE.interruption()
    assert line.endswith("\n")
    assert json.loads(line)["request"] == {"subtype": "interrupt"}
    assert json.loads(line)["request_id"]


def test_message_is_delivered_when_claude_echoes_it() -> None:
    events = [event for line in lines_of("claude", "streamin-mid") for event in CLAUDE.parse(line)]
    texts = [event.text for event in events if event.kind == Kind.DELIVERED]
    assert texts[:2] == ["first task: run five steps", "EXTRA-MID-RUN: also do X"]
    assert len(texts) == 3


def test_session_files_are_in_a_folder_named_after_the_directory(tmp_path: Path) -> None:
    env = {"HOME": "/home/ada", "CLAUDE_CONFIG_DIR": str(tmp_path / "a[1]")}
    file = tmp_path / "a[1]" / "projects" / "-srv-my-app-v1-2" / "11-aa.jsonl"
    file.parent.mkdir(parents=True)
    file.touch()
    pattern = CLAUDE.transcript("11-aa", "/srv/my_app/v1.2", env)
    assert list(Path("/").glob(pattern.lstrip("/"))) == [file]
    assert CLAUDE.transcript("s", "/p", {"HOME": "/home/ada"}) == "/home/ada/.claude/projects/-p/s.jsonl"


def test_session_file_is_found_for_a_long_directory_and_not_for_a_hostile_id() -> None:
    assert CLAUDE.transcript("s", "/" + "a" * 300, {"HOME": "/h"}) == f"/h/.claude/projects/-{'a' * 199}*/s.jsonl"
    for session in ("", "../../etc/passwd", "*", "a/b", "s\n"):
        assert CLAUDE.transcript(session, "/p", {"HOME": "/h"}) == ""


def test_account_has_its_own_config_folder() -> None:
    env = CLAUDE.config_env("/accounts/two")
    assert env == {"CLAUDE_CONFIG_DIR": "/accounts/two"}
    assert "/accounts/two/.credentials.json" in CLAUDE.login_signs(env)
    assert {"/h/.claude/.credentials.json", "ANTHROPIC_API_KEY"} < set(CLAUDE.login_signs({"HOME": "/h"}))


def test_agents_get_only_the_variables_that_claude_reads() -> None:
    def passed(name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in CLAUDE.reads_env)

    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR"):
        assert passed(name), name
    for name in ("CLAUDECODE", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION", "AWS_SECRET_ACCESS_KEY"):
        assert not passed(name), name


def test_context_window_follows_from_the_model_name() -> None:
    assert (CLAUDE.window("claude-opus-4-8[1m]"), CLAUDE.window("claude-sonnet-5")) == (1_000_000, 200_000)


@pytest.mark.parametrize(
    ("stderr", "kind", "words"),
    [
        ("--dangerously-skip-permissions cannot be used with root/sudo privileges", Kind.ERROR, "IS_SANDBOX=1"),
        ("error: unknown option '--nosuch'\n", Kind.ERROR, "'--nosuch'"),
        ("Not logged in · Please run /login", Kind.LIMIT, "Not logged in"),
    ],
)
def test_failed_start_is_explained(stderr: str, kind: str, words: str) -> None:
    event = CLAUDE.explain(1, stderr)
    assert event is not None and event.kind == kind and words in event.text
    assert event.limit is None or event.limit.kind == "auth"


def test_unknown_stderr_is_left_to_the_exit_code() -> None:
    assert CLAUDE.explain(1, "something else") is None
    assert CLAUDE.explain(0, "Not logged in") is None


def test_each_block_is_an_event_and_the_last_one_has_the_usage() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "hi"},
        {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}},
    ]
    events = parsed(type="assistant", message=a_message(*blocks), parent_tool_use_id=None)
    usage = Usage(input=5, output=1, cache_read=70, cache_write=2, message="msg_1", model="claude-sonnet-5")
    assert events == [
        Event(kind=Kind.THINKING, text="hm"),
        Event(kind=Kind.TEXT, text="hi"),
        Event(kind=Kind.TOOL_USE, tool="Bash", tool_id="t1", data={"command": "ls"}, usage=usage, context=77),
    ]


def test_usage_of_a_sub_agent_counts_but_its_context_does_not() -> None:
    event = only(parsed(type="assistant", message=a_message({"type": "text", "text": "x"}), parent_tool_use_id="t1"))
    assert event.usage is not None and event.usage.input == 5
    assert event.context is None


def test_message_without_visible_blocks_still_reports_usage() -> None:
    event = only(parsed(type="assistant", message=a_message({"type": "redacted_thinking", "data": "x"})))
    assert (event.kind, event.context) == (Kind.USAGE, 77)


def test_server_tools_are_reported_as_tools() -> None:
    use, result = {"type": "server_tool_use", "id": "w", "name": "web_search"}, {"type": "web_search_tool_result"}
    events = parsed(type="assistant", message=a_message(use, {**result, "tool_use_id": "w", "content": [{"a": 1}]}))
    assert [(event.kind, event.tool_id, event.ok) for event in events] == [
        (Kind.TOOL_USE, "w", None),
        (Kind.TOOL_RESULT, "w", True),
    ]


@pytest.mark.parametrize(
    ("block", "text", "ok"),
    [
        ({"content": "fine", "is_error": False}, "fine", True),
        ({"content": "fine"}, "fine", True),
        ({"content": "bad", "is_error": True}, "bad", False),
        ({"content": [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]}, "a\nb", True),
        ({"content": 5, "is_error": True}, "", False),
    ],
)
def test_tool_result_may_be_text_or_blocks(block: dict[str, Any], text: str, ok: bool) -> None:
    said = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", **block}]}
    assert parsed(type="user", message=said) == [Event(kind=Kind.TOOL_RESULT, tool_id="t1", text=text, ok=ok)]


@pytest.mark.parametrize(
    "said",
    [
        {"type": "user", "message": {"content": [{"type": "text", "text": "[Request interrupted by user]"}]}},
        {"type": "assistant", "message": a_message({"type": "text", "text": "No response"}, model="<synthetic>")},
        {"type": "stream_event", "event": {"type": "content_block_delta", "delta": {"text": "half"}}},
        {"type": "system", "subtype": "status", "status": "compacting"},
        {"type": "control_response", "response": {"subtype": "success"}},
        {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed", "resetsAt": 1794767563}},
    ],
)
def test_uninformative_line_gives_no_event(said: dict[str, Any]) -> None:
    assert parsed(**said) == []


def test_synthetic_api_error_is_not_reported_as_model_text() -> None:
    refused = a_message({"type": "text", "text": "API Error: 529 Overloaded"}, model="<synthetic>")
    event = only(parsed(type="assistant", message=refused, error="overloaded"))
    assert event.limit == Limit(kind="overload", text="API Error: 529 Overloaded")
    odd = a_message({"type": "text", "text": "too much output"}, model="<synthetic>")
    assert only(parsed(type="assistant", message=odd, error="max_output_tokens")).kind == Kind.ERROR


@pytest.mark.parametrize(
    ("status", "word", "kind"),
    [
        (429, "rate_limit", "rate"),
        (500, "server_error", "overload"),
        (529, "overloaded", "overload"),
        (None, "overloaded", "overload"),
        (401, "authentication_failed", "auth"),
        (403, "oauth_org_not_allowed", "auth"),
        (400, "billing_error", "plan"),
    ],
)
def test_retried_request_reports_a_limit(status: int | None, word: str, kind: str) -> None:
    told = {"attempt": 1, "max_retries": 2, "retry_delay_ms": 20000.5}
    event = only(parsed(type="system", subtype="api_retry", error_status=status, error=word, **told))
    assert event.kind == Kind.LIMIT and event.limit is not None
    assert (event.limit.kind, event.limit.resets_at) == (kind, None)
    assert "attempt 1 of 2" in event.text and "in 20 s" in event.text


def test_request_without_an_answer_reports_no_limit() -> None:
    event = only(parsed(type="system", subtype="api_retry", error_status=None, error="unknown", attempt=1))
    assert (event.kind, event.limit) == (Kind.ERROR, None)


@pytest.mark.parametrize(
    ("told", "kind"),
    [
        ({"status": "rejected"}, "plan"),
        ({"status": "rejected", "rateLimitType": "seven_day"}, "plan"),
        ({"status": "rejected", "isUsingOverage": True}, "warning"),
        ({"status": "allowed_warning", "utilization": 0.93}, "warning"),
    ],
)
def test_subscription_reports_usage_and_reset(told: dict[str, Any], kind: str) -> None:
    event = only(parsed(type="rate_limit_event", rate_limit_info={"resetsAt": 1794768160, **told}))
    assert event.limit is not None
    assert event.limit.kind == kind
    assert event.limit.resets_at == datetime(2026, 11, 15, 18, 42, 40, tzinfo=UTC)
    assert "93%" in event.text or "utilization" not in told


@pytest.mark.parametrize(
    ("text", "status", "kind"),
    [
        ("You've hit your weekly limit · resets Nov 20, 3pm (UTC)", 429, "plan"),
        ("You're out of extra usage · resets 3pm", None, "plan"),
        ("Claude AI usage limit reached|1794768160", None, "plan"),
        ("Credit balance is too low", 400, "plan"),
        ("Your organization has disabled access", 403, "auth"),
        ("Not logged in · Please run /login", None, "auth"),
        ("API Error: Request rejected (429) · try later", None, "rate"),
        ("API Error: 503 no", None, "overload"),
        ("API Error: 418 I am a teapot", 418, ""),
    ],
)
def test_failed_result_is_preceded_by_its_limit(text: str, status: int | None, kind: str) -> None:
    events = CLAUDE.parse(json.dumps(a_result(is_error=True, api_error_status=status, result=text)))
    assert [event.limit.kind for event in events if event.limit] == ([kind] if kind else [])
    assert (events[-1].kind, events[-1].ok, events[-1].text) == (Kind.RESULT, False, text)


@pytest.mark.parametrize("text", ["Prompt is too long · 208310 tokens", "Context limit reached · /compact to continue"])
def test_full_context_is_reported_before_the_result(text: str) -> None:
    events = CLAUDE.parse(json.dumps(a_result(is_error=True, api_error_status=400, result=text)))
    assert [event.kind for event in events] == [Kind.CONTEXT_FULL, Kind.RESULT]


NOT_GOOD: dict[str, tuple[Any, ...]] = {
    "is_error": (True, None, 0, "", "false", []),
    "subtype": ("error_during_execution", None, 5, "Success"),
    "api_error_status": (403, 0, "", False),
    "result": ("API Error: 403 Forbidden", "[API Error: 401 status code (no body)]"),
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in NOT_GOOD.items() for value in values])
def test_result_is_good_only_when_all_fields_say_so(name: str, value: Any) -> None:
    assert only(CLAUDE.parse(json.dumps(a_result()))).ok is True
    assert CLAUDE.parse(json.dumps(a_result(**{name: value})))[-1].ok is False


@pytest.mark.parametrize("name", ["is_error", "subtype"])
def test_result_that_lacks_a_field_is_not_good(name: str) -> None:
    lacking = {key: value for key, value in a_result().items() if key != name}
    assert CLAUDE.parse(json.dumps(lacking))[-1].ok is False


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"subtype": "error_max_turns", "errors": ["Reached maximum number of turns (2)"]}, "Reached maximum"),
        (
            {"subtype": "error_x", "errors": ["[ede_diagnostic] y"], "terminal_reason": "aborted_tools"},
            "error_x: aborted",
        ),
        ({"subtype": "error_max_budget_usd", "errors": 5}, "error_max_budget_usd"),
    ],
)
def test_failed_result_says_why(changes: dict[str, Any], text: str) -> None:
    assert CLAUDE.parse(json.dumps(a_result(is_error=True, result=None, **changes)))[-1].text.startswith(text)


def test_total_usage_sums_all_models_and_the_window_is_that_of_the_only_one() -> None:
    one = {"inputTokens": 1, "outputTokens": 2, "cacheReadInputTokens": 3, "cacheCreationInputTokens": 4}
    told = {"a": {**one, "contextWindow": 200_000}, "b": {**one, "contextWindow": 1_000_000}}
    both = only(CLAUDE.parse(json.dumps(a_result(modelUsage=told, total_cost_usd=0.5))))
    assert both.usage == Usage(input=2, output=4, cache_read=6, cache_write=8, total=True, either=True)
    assert (both.cost_usd, both.window) == (0.5, None)
    assert only(CLAUDE.parse(json.dumps(a_result(modelUsage={"a": told["a"]})))).window == 200_000


def test_each_denied_tool_is_named() -> None:
    denials = [{"tool_name": "Bash", "tool_use_id": "t1", "tool_input": {"command": "rm"}}, {}, 5]
    events = CLAUDE.parse(json.dumps(a_result(permission_denials=denials)))
    assert [(event.kind, event.tool) for event in events] == [
        (Kind.DENIED, "Bash"),
        (Kind.DENIED, "a tool"),
        (Kind.RESULT, ""),
    ]
    assert events[0].data == {"command": "rm"}


def test_line_with_half_a_surrogate_pair_is_parsed() -> None:
    event = only(CLAUDE.parse(json.dumps(a_result(result="grin\ud83d")).replace("\\ud83d", "\\uD83D")))
    assert (event.ok, event.text) == (True, "grin?")
    tool = {"type": "tool_use", "id": "t", "name": "x", "input": {"a\0": ["b\0\ud800"]}}
    assert only(parsed(type="assistant", message=a_message(tool))).data == {"a": ["b?"]}
    assert only(parsed(type="assistant", message=a_message({"type": "text", "text": "a\0b"}))).text == "ab"


GARBAGE = (
    *(
        "",
        "\n",
        "null",
        "5",
        '"text"',
        "[]",
        "{}",
        "{",
        "\x00\x01",
        "NaN",
        "[" * 100_000,
        '{"a":' * 100_000,
        "9" * 5_000,
    ),
    *('{"type": 5}', '{"type": []}', '{"type": {}}', '{"type": "unknown"}', '{"type": "result"', '{"type": "user"}'),
    *('{"type": "user", "message": 5}', '{"type": "user", "message": {"content": {"type": "tool_result"}}}'),
    *('{"type": "system"}', '{"type": "system", "subtype": []}', '{"type": "rate_limit_event"}'),
    *('{"type": "rate_limit_event", "rate_limit_info": []}', '{"type": "user", "message": {"content": [[], 5, null]}}'),
    '{"type": "rate_limit_event", "rate_limit_info": {"status": ["rejected"]}}',
    '{"type": "result", "is_error": false, "x": "\\ud800", "n": NaN}',
)


def test_garbage_gives_no_event() -> None:
    assert {line: found for line in GARBAGE if (found := CLAUDE.parse(line))} == {}


HANDED = {"summary": "mended", "status": "completed", "files_changed": ["a.py"]}


def test_workers_and_stages_hand_in_by_a_schema() -> None:
    for origin in ("mcp", "workflow"):
        (option,) = [each for each in CLAUDE.command(an_order(task=a_task(origin=origin))).argv if "schema" in each]
        schema = json.loads(option.removeprefix("--json-schema="))
        assert set(schema["required"]) == {"summary", "status", "files_changed", "tests", "commits", "next_steps"}
    assert not any("schema" in each for each in CLAUDE.command(an_order()).argv), "others write a file"
    own = an_order(task=a_task(origin="mcp"), flags=("--json-schema", "{}"))
    assert CLAUDE.command(own).argv[-2:] == ("--json-schema", "{}") and len(CLAUDE.command(own).argv) == 8
    told = only(parsed(**a_result(result=json.dumps(HANDED), structured_output=HANDED)))
    assert (told.text, told.ok, told.data) == ("mended", True, {"handed_in": HANDED})
    for wrong in ("text", {"summary": 1, "status": "completed"}, {"summary": "x", "status": "perfect"}, None):
        assert only(parsed(**a_result(structured_output=wrong))).data == {}


def test_handing_in_is_not_reported_as_a_tool_call() -> None:
    block = {"type": "tool_use", "id": "t", "name": "StructuredOutput", "input": HANDED}
    assert [event.kind for event in parsed(type="assistant", message=a_message(block))] == [Kind.USAGE]
