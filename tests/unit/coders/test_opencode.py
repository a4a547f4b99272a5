"""OpenCode: a stream without a last word, steps that add up, and refusals that only stderr reports in time."""

import json
import signal
from fnmatch import fnmatchcase
from typing import Any

import pytest

from builders import a_task
from contract.coder_recordings import expectations, lines_of
from fleet.coders.base import RESUME, SAME_CWD, Order
from fleet.coders.opencode import OpencodeCoder
from fleet.core.event import Event, Kind, Usage

OPENCODE = OpencodeCoder()


def an_order(**changes: Any) -> Order:
    return Order(**{"task": a_task(), "prompt": "mend it\n", **changes})


def said(kind: str, **rest: Any) -> list[Event]:
    return OPENCODE.parse(json.dumps({"type": kind, "sessionID": "ses_1", **rest}))


def a_tool(**state: Any) -> list[Event]:
    return said("tool_use", part={"type": "tool", "tool": "bash", "callID": "c", "state": state})


def failed(name: str, **data: Any) -> list[Event]:
    return said("error", error={"name": name, "data": data})


def test_prompt_is_passed_by_stdin_and_sessions_resume_in_their_directory() -> None:
    command = OPENCODE.command(an_order(session="ses_1", model="-x", flags=("--file", "a", "b")))
    options = ("--format=json", "--model=-x", "--session=ses_1")
    assert command.argv == ("opencode", "run", "--file", "a", "b", *options), "the next option ends the user's list"
    assert (command.stdin, command.keep_stdin) == ("mend it\n", False)
    assert (OPENCODE.steering, OPENCODE.resumes) == (RESUME, SAME_CWD)


def test_skipping_permissions_leaves_the_user_config_unchanged() -> None:
    skipping, asking = OPENCODE.command(an_order(permissions="skip")), OPENCODE.command(an_order(permissions="user"))
    assert "--auto" in skipping.argv and "--auto" not in asking.argv
    assert skipping.env == asking.env
    assert not {"OPENCODE_CONFIG_CONTENT", "OPENCODE_PERMISSION", "OPENCODE_CONFIG"} & skipping.env.keys()


def test_errors_are_logged_to_stderr_and_updates_disabled() -> None:
    env = OPENCODE.command(an_order()).env
    assert (env["OPENCODE_PRINT_LOGS"], env["OPENCODE_LOG_LEVEL"]) == ("1", "ERROR")
    assert env["OPENCODE_DISABLE_AUTOUPDATE"] == "1"


def test_opencode_gets_three_signals_before_it_is_killed() -> None:
    assert OPENCODE.stop_steps == (signal.SIGINT, signal.SIGTERM, signal.SIGTERM)


def test_each_step_reports_its_tokens_cost_and_context() -> None:
    tokens = {"total": 1131, "input": 101, "output": 20, "reasoning": 10, "cache": {"write": 7, "read": 1000}}
    (used,) = said("step_finish", part={"reason": "tool-calls", "tokens": tokens, "cost": 0.5})
    assert used.usage == Usage(input=101, output=30, cache_read=1000, cache_write=7)
    assert (used.cost_added, used.cost_usd, used.context) == (0.5, None, 1108)


def test_stop_step_is_the_last_word_and_an_interrupted_step_is_not() -> None:
    assert [event.ok for event in said("step_finish", part={"reason": "stop"})] == [None, True]
    for reason in ("tool-calls", "length", "error", "unknown", None, True):
        assert Kind.RESULT not in [event.kind for event in said("step_finish", part={"reason": reason})]
    _, complaint = said("step_finish", part={"reason": "length"})
    assert (complaint.kind, complaint.text) == (Kind.ERROR, "the model's answer broke off: length")


def test_stop_before_an_automatic_message_is_not_the_end() -> None:
    told = [event for line in lines_of("opencode", "compaction") for event in OPENCODE.parse(line)]
    stops = [number for number, event in enumerate(told) if event.kind == Kind.RESULT]
    assert len(stops) == 2
    assert told[stops[0] + 1].kind == Kind.SESSION_STARTED
    assert not any("Continue if you have next steps" in event.text for event in told), "no word of the model's"


def test_tool_call_is_reported_at_its_end_and_counted_once() -> None:
    use, result = a_tool(status="completed", input={"command": "ls"}, output="a\n", metadata={"exit": 0})
    assert (use.kind, use.tool, use.tool_id, use.data) == (Kind.TOOL_USE, "bash", "c", {"command": "ls"})
    assert (result.kind, result.tool_id, result.text, result.ok) == (Kind.TOOL_RESULT, "c", "a\n", True)
    assert use.session == "ses_1", "no line before the first step tells it"
    assert [event.ok for event in a_tool(status="completed", metadata={"exit": 2})] == [None, False]
    assert [event.ok for event in a_tool(status="error", error="no such file")] == [None, False]


@pytest.mark.parametrize(
    "why",
    [
        "The user rejected permission to use this specific tool call.",
        "The user has specified a rule which prevents you from using this specific tool call. Here are some",
    ],
)
def test_rejected_tool_is_denied(why: str) -> None:
    _, result, denied = a_tool(status="error", error=why)
    assert (result.ok, result.text) == (False, why)
    assert (denied.kind, denied.tool) == (Kind.DENIED, "bash")
    assert len(a_tool(status="error", error=f"cat: {why}")) == 2


REFUSALS: dict[str, tuple[str, dict[str, Any]]] = {
    "rate": ("APIError", {"message": "Please try again in 20s.", "statusCode": 429}),
    "overload": ("APIError", {"message": "fake error", "statusCode": 529}),
    "auth": ("ProviderAuthError", {"message": "no key", "providerID": "x"}),
    "plan": ("APIError", {"message": "Insufficient credits", "statusCode": 402}),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_refused_request_reports_its_limit_before_its_end(kind: str) -> None:
    name, data = REFUSALS[kind]
    limited, last = failed(name, **data)
    assert limited.limit is not None and (limited.limit.kind, limited.limit.text) == (kind, data["message"])
    assert (last.kind, last.ok, last.text, last.session) == (Kind.RESULT, False, data["message"], "ses_1")


def test_full_context_differs_from_other_errors() -> None:
    assert [event.kind for event in failed("ContextOverflowError", message="x")] == [
        Kind.CONTEXT_FULL,
        Kind.RESULT,
    ]
    assert [event.text for event in failed("MessageAbortedError")] == ["MessageAbortedError"]
    assert [event.text for event in said("error", error={"_tag": "BadRequest"})] == ["BadRequest"]
    assert [event.text for event in said("error", error=None)] == ["no details"]


def a_complaint(words: str, session: str = "ses_2") -> str:
    return (
        f'timestamp=2026-11-16T02:22:51.967Z level=ERROR run=1 message="stream error" providerID=p '
        f'session.id={session} small=false error.error="AI_APICallError: {words}"\n'
    )


@pytest.mark.parametrize(
    ("words", "kind"),
    [("Rate limit reached. Please try again in 20s.", "rate"), ("Overloaded", "overload"), ("no such thing", None)],
)
def test_run_stopped_while_waiting_reports_its_last_complaint(words: str, kind: str | None) -> None:
    event = OPENCODE.explain(None, a_complaint("Bad Gateway", "ses_1") + a_complaint(words))
    assert event is not None and (event.limit.kind if event.limit else None) == kind
    assert event.session == "ses_2", "its stream had not told it yet"
    assert words in event.text


def test_refusal_does_not_explain_the_end_when_work_continued() -> None:
    assert OPENCODE.explain(1, a_complaint("Rate limit reached") + "panic: out of memory\n") is None


def test_recorded_stderr_is_understood() -> None:
    event = OPENCODE.explain(None, expectations("opencode")["429-term"]["stderr"])
    assert event is not None and event.session == "ses_e1dd5ed85ffe6cFnq6IAXbanaq"


def test_missing_session_is_explained() -> None:
    gone = OPENCODE.explain(1, "\x1b[91m\x1b[1mError: \x1b[0mSession not found\n")
    assert gone is not None and "restart the task with a new session" in gone.text
    assert OPENCODE.explain(1, "") is None and OPENCODE.explain(None, 'session.id= error.error="' * 9999) is None
    odd = OPENCODE.explain(None, 'message="stream error" session.id= ' * 9999)
    assert odd is not None and (odd.kind, odd.session, len(odd.text)) == (Kind.ERROR, "", 300)


def test_account_has_its_own_login_settings_and_sessions() -> None:
    assert OPENCODE.config_env("/a") == {
        "XDG_DATA_HOME": "/a/data",
        "XDG_CONFIG_HOME": "/a/config",
        "XDG_STATE_HOME": "/a/state",
    }
    assert OPENCODE.login_signs({"HOME": "/h"}) == ()


def test_agents_get_only_the_variables_that_opencode_reads() -> None:
    def passed(name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in OPENCODE.reads_env)

    assert all(map(passed, ("OPENAI_API_KEY", "OPENCODE_CONFIG_CONTENT", "OPENCODE_DISABLE_SHARE")))
    assert not any(map(passed, ("OPENCODE", "OPENCODE_PID", "AWS_SECRET_ACCESS_KEY")))


@pytest.mark.parametrize("words", ["SQLiteError: database is locked", "Failed query:  CREATE TABLE `session`"])
def test_concurrent_first_starts_count_as_no_failure(words: str) -> None:
    event = OPENCODE.explain(1, f"Performing one time database migration\n{words}\n")
    assert event is not None and event.limit is not None and event.limit.kind == "overload"
    assert OPENCODE.explain(None, words) is None, "one that still runs got over it"
