"""Gemini: its options and defaults, its refusals and its exit codes."""

import json
import os
import signal
from fnmatch import fnmatchcase
from typing import Any

import pytest

from builders import a_task
from contract.coder_recordings import lines_of
from fleet.coders.base import RESUME, SAME_CWD, Order
from fleet.coders.gemini import GeminiCoder
from fleet.core.event import Event, Kind, Usage

GEMINI = GeminiCoder()


def an_order(**changes: Any) -> Order:
    return Order(**{"task": a_task(), "prompt": "mend it\n", **changes})


def said(**line: Any) -> list[Event]:
    return GEMINI.parse(json.dumps(line))


def failed(message: str) -> list[Event]:
    return said(type="result", status="error", error={"type": "unknown", "message": message}, stats={})


def test_prompt_is_passed_by_stdin_and_sessions_resume_in_their_directory() -> None:
    command = GEMINI.command(an_order(session="s", model="-x", flags=("--policy", "a", "b")))
    options = ("--output-format=stream-json", "--model=-x", "--resume=s")
    assert command.argv == ("gemini", "--policy", "a", "b", *options), "the next option ends the user's list"
    assert (command.stdin, command.keep_stdin) == ("mend it\n", False)
    assert (GEMINI.steering, GEMINI.resumes) == (RESUME, SAME_CWD)


def test_directory_is_trusted_only_when_permissions_are_skipped() -> None:
    skipping, asking = GEMINI.command(an_order(permissions="skip")), GEMINI.command(an_order(permissions="user"))
    assert "--approval-mode=yolo" in skipping.argv
    assert skipping.env["GEMINI_CLI_TRUST_WORKSPACE"] == "true"
    assert asking.argv == ("gemini", "--output-format=stream-json")
    assert "GEMINI_CLI_TRUST_WORKSPACE" not in asking.env


def test_gemini_is_one_process_so_signals_reach_it() -> None:
    assert GEMINI.command(an_order()).env["GEMINI_CLI_NO_RELAUNCH"] == "true"
    assert GEMINI.stop_steps == (signal.SIGTERM, signal.SIGTERM)


def test_retries_are_limited_by_a_defaults_file_that_only_root_may_provide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    command = GEMINI.command(an_order(folder="/runs/1"))
    ((name, content),) = command.files.items()
    assert command.env["GEMINI_CLI_SYSTEM_DEFAULTS_PATH"] == f"/runs/1/{name}"
    assert json.loads(content) == {"general": {"maxAttempts": 2}}
    assert GEMINI.command(an_order()).files == {}, "there is no folder to put them in"
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    command = GEMINI.command(an_order(folder="/runs/1"))
    assert command.files == {} and "GEMINI_CLI_SYSTEM_DEFAULTS_PATH" not in command.env


def test_text_deltas_are_joined_and_the_prompt_is_not_reported() -> None:
    told = [event for line in lines_of("gemini", "ok") for event in GEMINI.parse(line)]
    assert [(event.text, event.delta) for event in told if event.kind == Kind.TEXT] == [
        ("Working on it.", True),
        ("All done: hello.txt created.", True),
    ]
    assert said(type="message", role="assistant", content="whole") == [Event(kind=Kind.TEXT, text="whole")]


def test_tool_call_and_tool_result_have_the_same_id() -> None:
    told = [event for line in lines_of("gemini", "ok") for event in GEMINI.parse(line)]
    use, result = (event for event in told if event.kind in (Kind.TOOL_USE, Kind.TOOL_RESULT))
    assert (use.tool, use.data["description"]) == ("run_shell_command", "scripted")
    assert (result.tool, result.tool_id, result.ok, result.text) == (use.tool, use.tool_id, True, "wrote-hello")


def a_result(name: str, why: str) -> list[Event]:
    error = {"type": why, "message": "no"}
    return said(type="tool_result", tool_id=f"{name}__{name}_17_0", status="error", output="no", error=error)


def test_unregistered_or_refused_tool_is_denied() -> None:
    for name, why in (("write_file", "tool_not_registered"), ("read_file", "policy_violation")):
        result, denied = a_result(name, why)
        assert (result.kind, result.ok) == (Kind.TOOL_RESULT, False)
        assert (denied.kind, denied.tool) == (Kind.DENIED, name)


def test_failed_or_invented_tool_is_not_denied() -> None:
    for name, why in (("make_coffee", "tool_not_registered"), ("write_file", "permission_denied")):
        assert [event.kind for event in a_result(name, why)] == [Kind.TOOL_RESULT]


def test_thoughts_count_as_output_and_cached_tokens_not_as_input() -> None:
    stats = {"total_tokens": 2281, "input_tokens": 2201, "output_tokens": 60, "cached": 2000, "input": 201}
    (last,) = said(type="result", status="success", stats=stats)
    assert last.usage == Usage(input=201, output=80, cache_read=2000), "of this run alone: no total of the session"
    (bare,) = said(type="result", status="success", stats={"input_tokens": 5, "output_tokens": 3, "cached": 9})
    assert bare.usage == Usage(input=0, output=3, cache_read=5)


REFUSALS = {
    "[API Error: Resource has been exhausted (e.g. check quota).\nSuggested retry after 20s.]": "rate",
    '[API Error: {"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}]': "overload",
    '[API Error: {"error":{"code":403,"message":"x","status":"PERMISSION_DENIED"}}]': "auth",
    "[API Error: You have exhausted your daily quota on this model.]": "plan",
    "You have exhausted your capacity on this model. Your quota will reset after 3h20m5s.": "plan",
}


@pytest.mark.parametrize("text", REFUSALS)
def test_refused_request_reports_its_limit_before_its_end(text: str) -> None:
    limited, last = failed(text)
    assert limited.limit is not None and (limited.limit.kind, limited.limit.text) == (REFUSALS[text], text)
    assert (last.kind, last.ok, last.text) == (Kind.RESULT, False, text)


def test_other_failures_have_no_limit_and_only_success_is_good() -> None:
    assert [event.kind for event in failed("Reached max session turns for this session.")] == [Kind.RESULT]
    for status in ("error", "Success", None, True, ""):
        assert [event.ok for event in said(type="result", status=status)] == [False]
    assert said(type="error", severity="warning", message="loop detected") == [
        Event(kind=Kind.ERROR, text="loop detected")
    ]


@pytest.mark.parametrize(("status", "kind"), [(41, "auth"), (173, "rate"), (244, "overload"), (145, "auth")])
def test_exit_code_gives_the_limit_when_the_stream_did_not(status: int, kind: str) -> None:
    event = GEMINI.explain(status, "\x1b[31mit said so\x1b[0m\n")
    assert event is not None and event.limit is not None
    assert event.limit.kind == kind
    assert event.limit.text.endswith("it said so"), "without its colours"


@pytest.mark.parametrize(("status", "advice"), [(55, "trust it in gemini"), (42, "session"), (53, "maxSessionTurns")])
def test_exit_code_gives_advice(status: int, advice: str) -> None:
    event = GEMINI.explain(status, "so it is")
    assert event is not None and event.kind == Kind.ERROR
    assert advice in event.text and event.text.endswith(": so it is")


WAITING = "Attempt 4 failed: {}. Retrying after 20384ms...\n"


def test_run_stopped_while_waiting_to_retry_reports_a_limit() -> None:
    before = WAITING.format('{"error":{"code":500}}')
    event = GEMINI.explain(0, before + WAITING.format("Resource has been exhausted.\nSuggested retry after 20s."))
    assert event is not None and event.limit is not None
    assert event.limit.kind == "rate" and event.text.count("Attempt") == 1, "the last attempt counts"
    odd = GEMINI.explain(None, WAITING.format("fetch failed"))
    assert odd is not None and odd.kind == Kind.ERROR


def test_recovered_attempt_does_not_explain_the_end() -> None:
    later = WAITING.format("Resource has been exhausted.") + "Error executing tool write_file: no space left\n"
    assert GEMINI.explain(1, later) is None
    assert GEMINI.explain(0, "") is None and GEMINI.explain(None, "x" * 100_000) is None


def test_login_is_in_a_folder_within_the_account_folder() -> None:
    assert "/h/.gemini/oauth_creds.json" in GEMINI.login_signs({"HOME": "/h"})
    signs = GEMINI.login_signs({"HOME": "/h", **GEMINI.config_env("/a")})
    assert "/a/.gemini/oauth_creds.json" in signs and "GEMINI_API_KEY" in signs
    assert not any(sign.startswith("/h") for sign in signs)


def test_agents_get_only_the_variables_that_gemini_reads() -> None:
    def passed(name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in GEMINI.reads_env)

    assert all(map(passed, ("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GEMINI_CLI_HOME")))
    assert not any(map(passed, ("GEMINI_CLI", "GEMINI_CLI_IDE_SERVER_PORT", "OPENAI_API_KEY")))


def test_unavailable_model_is_recognized_from_stderr() -> None:
    trace = "ApiError: got status: 500\n    at throwErrorIfNotOK (file:///cli.js:1:2)\n    at process"
    event = GEMINI.explain(None, f"Attempt 2 failed with status 500. Retrying with backoff... {trace}\n")
    assert event is not None and event.limit is not None and event.limit.kind == "overload"
    assert "throwErrorIfNotOK" not in event.text


def test_context_window_is_known_only_for_gemini_models() -> None:
    assert GEMINI.window("gemini-2.5-flash") == GEMINI.window("") == 1_048_576
    assert GEMINI.window("gemma-3") is None
