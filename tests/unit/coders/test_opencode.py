"""OpenCode: a stream without a last word, steps that add up, and refusals that only stderr tells in time."""

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


def test_the_prompt_is_its_input_and_its_session_is_gone_on_with_in_its_directory() -> None:
    command = OPENCODE.command(an_order(session="ses_1", model="-x", flags=("--file", "a", "b")))
    options = ("--format=json", "--model=-x", "--session=ses_1")
    assert command.argv == ("opencode", "run", "--file", "a", "b", *options), "the next option ends the user's list"
    assert (command.stdin, command.keep_stdin) == ("mend it\n", False)
    assert (OPENCODE.steering, OPENCODE.resumes) == (RESUME, SAME_CWD)


def test_skipping_permissions_leaves_the_users_own_config_as_it_is() -> None:
    skipping, asking = OPENCODE.command(an_order(permissions="skip")), OPENCODE.command(an_order(permissions="user"))
    assert "--auto" in skipping.argv and "--auto" not in asking.argv
    assert skipping.env == asking.env
    assert not {"OPENCODE_CONFIG_CONTENT", "OPENCODE_PERMISSION", "OPENCODE_CONFIG"} & skipping.env.keys()


def test_its_complaints_reach_stderr_and_it_stays_as_it_is_installed() -> None:
    env = OPENCODE.command(an_order()).env
    assert (env["OPENCODE_PRINT_LOGS"], env["OPENCODE_LOG_LEVEL"]) == ("1", "ERROR")
    assert env["OPENCODE_DISABLE_AUTOUPDATE"] == "1"


def test_it_needs_a_second_signal_so_there_is_a_third_before_the_last_resort() -> None:
    assert OPENCODE.stop_steps == (signal.SIGINT, signal.SIGTERM, signal.SIGTERM)


def test_each_step_adds_its_tokens_and_its_cost_and_tells_the_context() -> None:
    tokens = {"total": 1131, "input": 101, "output": 20, "reasoning": 10, "cache": {"write": 7, "read": 1000}}
    (used,) = said("step_finish", part={"reason": "tool-calls", "tokens": tokens, "cost": 0.5})
    assert used.usage == Usage(input=101, output=30, cache_read=1000, cache_write=7)
    assert (used.cost_added, used.cost_usd, used.context) == (0.5, None, 1108)


def test_a_step_that_stops_is_the_last_word_and_one_that_breaks_off_is_not() -> None:
    assert [event.ok for event in said("step_finish", part={"reason": "stop"})] == [None, True]
    for reason in ("tool-calls", "length", "error", "unknown", None, True):
        assert Kind.RESULT not in [event.kind for event in said("step_finish", part={"reason": reason})]
    _, complaint = said("step_finish", part={"reason": "length"})
    assert (complaint.kind, complaint.text) == (Kind.ERROR, "the model's answer broke off: length")


def test_a_stop_after_which_it_speaks_to_the_model_itself_is_not_the_end() -> None:
    told = [event for line in lines_of("opencode", "compaction") for event in OPENCODE.parse(line)]
    stops = [number for number, event in enumerate(told) if event.kind == Kind.RESULT]
    assert len(stops) == 2
    assert told[stops[0] + 1].kind == Kind.SESSION_STARTED
    assert not any("Continue if you have next steps" in event.text for event in told), "no word of the model's"


def test_a_call_of_a_tool_is_told_at_its_end_and_counts_once() -> None:
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
def test_a_tool_that_was_rejected_was_not_allowed(why: str) -> None:
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
def test_a_refused_request_tells_its_limit_and_then_the_end(kind: str) -> None:
    name, data = REFUSALS[kind]
    limited, last = failed(name, **data)
    assert limited.limit is not None and (limited.limit.kind, limited.limit.text) == (kind, data["message"])
    assert (last.kind, last.ok, last.text, last.session) == (Kind.RESULT, False, data["message"], "ses_1")


def test_a_full_context_is_told_as_such_and_other_errors_as_what_they_are() -> None:
    assert [event.kind for event in failed("ContextOverflowError", message="x")] == [Kind.CONTEXT_FULL, Kind.RESULT]
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
def test_one_that_was_stopped_while_it_waited_met_what_it_complained_of(words: str, kind: str | None) -> None:
    event = OPENCODE.explain(None, a_complaint("Bad Gateway", "ses_1") + a_complaint(words))
    assert event is not None and (event.limit.kind if event.limit else None) == kind
    assert event.session == "ses_2", "its stream had not told it yet"
    assert words in event.text


def test_one_that_went_on_after_a_refusal_did_not_end_for_it() -> None:
    assert OPENCODE.explain(1, a_complaint("Rate limit reached") + "panic: out of memory\n") is None


def test_stderr_as_it_was_recorded_is_understood() -> None:
    event = OPENCODE.explain(None, expectations("opencode")["429-term"]["stderr"])
    assert event is not None and event.session == "ses_e1dd5ed85ffe6cFnq6IAXbanaq"


def test_a_session_that_is_gone_is_explained_and_nothing_is_made_up() -> None:
    gone = OPENCODE.explain(1, "\x1b[91m\x1b[1mError: \x1b[0mSession not found\n")
    assert gone is not None and "start the task afresh" in gone.text
    assert OPENCODE.explain(1, "") is None and OPENCODE.explain(None, 'session.id= error.error="' * 9999) is None
    odd = OPENCODE.explain(None, 'message="stream error" session.id= ' * 9999)
    assert odd is not None and (odd.kind, odd.session, len(odd.text)) == (Kind.ERROR, "", 300)


def test_an_account_has_its_own_login_settings_and_sessions_and_none_is_needed() -> None:
    assert OPENCODE.config_env("/a") == {
        "XDG_DATA_HOME": "/a/data",
        "XDG_CONFIG_HOME": "/a/config",
        "XDG_STATE_HOME": "/a/state",
    }
    assert OPENCODE.login_signs({"HOME": "/h"}) == ()


def test_its_agents_get_what_it_reads_and_nothing_of_one_around_fleet() -> None:
    def passed(name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in OPENCODE.reads_env)

    assert all(map(passed, ("OPENAI_API_KEY", "OPENCODE_CONFIG_CONTENT", "OPENCODE_DISABLE_SHARE")))
    assert not any(map(passed, ("OPENCODE", "OPENCODE_PID", "AWS_SECRET_ACCESS_KEY")))


@pytest.mark.parametrize("words", ["SQLiteError: database is locked", "Failed query:  CREATE TABLE `session`"])
def test_two_that_start_at_once_on_a_new_home_are_nobodys_failure(words: str) -> None:
    event = OPENCODE.explain(1, f"Performing one time database migration\n{words}\n")
    assert event is not None and event.limit is not None and event.limit.kind == "overload"
    assert OPENCODE.explain(None, words) is None, "one that still runs got over it"
