"""The described coder: its command, and the events it reads from any line."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import a_task
from fleet.coders.base import SAME_CWD, Order
from fleet.coders.command import LONGEST_ARGUMENT, CommandCoder
from fleet.core.errors import BadInput, FleetError
from fleet.core.event import Event, Kind, Limit, Usage
from fleet.settings.described_coder import PATHS, SIGNS
from fleet.settings.sections import CoderSettings


def a_coder(argv: Any = ("mycli",), output: dict[str, Any] | None = None, **settings: Any) -> CommandCoder:
    given = {"argv": argv, "output": {"format": "jsonl", **(output or {})}, **settings}
    return CommandCoder("mine", msgspec.convert(given, CoderSettings))


def an_order(**changes: Any) -> Order:
    given: dict[str, Any] = {"task": a_task(), "prompt": "do it", "folder": "/run/1"}
    return Order(**(given | changes))


def line(**said: Any) -> str:
    return msgspec.json.encode(said).decode()


ARGV = ["mycli", "--m={model}", ["--resume", "{session}"], "{folder}/x", '{"a": {b}}']


def test_fields_are_filled_in_and_other_braces_kept() -> None:
    command = a_coder(ARGV).command(an_order(model="big", session="s-1"))
    assert command.argv == ("mycli", "--m=big", "--resume", "s-1", "/run/1/x", '{"a": {b}}')
    assert command.stdin == "do it" and command.files == {}


def test_word_with_an_empty_field_is_dropped_with_its_list() -> None:
    assert a_coder(ARGV).command(an_order()).argv == ("mycli", "/run/1/x", '{"a": {b}}')
    both = ["mycli", ["--in", "{model}", "--of", "{session}"], ["--always"]]
    assert a_coder(both).command(an_order(model="big")).argv == ("mycli", "--always")


def test_resume_command_is_used_for_a_session_when_described() -> None:
    coder = a_coder(["mycli", "new"], resume_argv=["mycli", "resume", "{session}"])
    assert coder.command(an_order()).argv == ("mycli", "new")
    assert coder.command(an_order(session="s-1")).argv == ("mycli", "resume", "s-1")
    assert coder.resumes == SAME_CWD
    assert a_coder(["mycli"]).resumes == ""


def test_user_options_come_last_but_before_two_dashes() -> None:
    settings: Any = {"skip_flags": ["--yolo"]}
    order = an_order(flags=("--a", "b"), permissions="skip")
    assert a_coder(["mycli", "-x"], **settings).command(order).argv == ("mycli", "-x", "--a", "b", "--yolo")
    assert a_coder(["mycli", "--", "y"], **settings).command(order).argv == ("mycli", "--a", "b", "--yolo", "--", "y")
    assert "--yolo" not in a_coder(**settings).command(an_order(permissions="user")).argv


def test_configured_program_replaces_the_first_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert a_coder(["mycli", "-x"], program="/opt/it").command(an_order()).argv == ("/opt/it", "-x")
    assert a_coder(["~/bin/mycli"]).program == "/home/me/bin/mycli"


@pytest.mark.parametrize("session", ["-x", "--help", "a\nb", "a\0b", "x" * 201, "\ud800"], ids=range(6))
def test_hostile_session_id_is_ignored(session: str) -> None:
    assert a_coder(ARGV).command(an_order(session=session)).argv == a_coder(ARGV).command(an_order()).argv
    assert session not in [
        event.session for event in a_coder(output={"session": "s"}).parse(json.dumps({"s": session}))
    ]


def test_model_that_would_become_an_option_is_refused() -> None:
    assert a_coder(["mycli", "--model={model}"]).command(an_order(model="--help")).argv == ("mycli", "--model=--help")
    for argv in (["mycli", ["--model", "{model}"]], ["mycli", "{model}/x"]):
        with pytest.raises(BadInput, match="cannot be given the model '--help'"):
            a_coder(argv).command(an_order(model="--help"))
    with pytest.raises(BadInput, match="cannot be given the model"):
        a_coder(["mycli", "--model={model}"]).command(an_order(model="a\0b"))


def test_prompt_in_a_file_is_in_no_argument() -> None:
    command = a_coder(["mycli", "--file", "{prompt_file}"], prompt="file").command(an_order())
    assert command.argv == ("mycli", "--file", "/run/1/prompt.md")
    assert command.files == {"prompt.md": "do it"} and command.stdin == ""


def test_prompt_argument_is_one_word_and_no_option() -> None:
    coder = a_coder(["mycli", "-p"], prompt="argument")
    assert coder.command(an_order(flags=("-v",))).argv == ("mycli", "-p", "do it", "-v")
    assert coder.command(an_order(prompt="--help\0")).argv == ("mycli", "-p", " --help")
    placed = a_coder(["mycli", "--", "{prompt}", "end"], prompt="argument")
    assert placed.command(an_order()).argv == ("mycli", "--", "do it", "end")
    assert placed.command(an_order()).stdin == ""


def test_prompt_that_is_too_long_for_an_argument_is_refused() -> None:
    coder = a_coder(prompt="argument")
    assert coder.command(an_order(prompt="ü" * (LONGEST_ARGUMENT // 2))).argv[1]
    with pytest.raises(FleetError, match="too many for an argument of coder 'mine'") as refused:
        coder.command(an_order(prompt="ü" * (LONGEST_ARGUMENT // 2) + "x"))
    assert 'coders.mine.prompt to "stdin" or "file"' in refused.value.hint


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"argv": [["mycli"]]}, "coders.mine.argv must start with the name of a program"),
        ({"argv": [""]}, "must start with the name of a program"),
        ({"argv": ["{model}"]}, "must start with the name of a program"),
        ({"argv": ["mycli", "a\0"]}, "coders.mine.argv contains a NUL"),
        ({"argv": ["mycli"], "prompt": "file"}, '"file", and argv does not name {prompt_file}'),
        ({"argv": ["mycli", "{prompt_file}"]}, 'argv names {prompt_file}, so prompt must be "file"'),
        ({"argv": ["mycli", ["{prompt}"]]}, 'argv names {prompt}, so prompt must be "argument"'),
        (
            {"argv": ["mycli", "{prompt_file}"], "resume_argv": ["mycli"], "prompt": "file"},
            "resume_argv does not name {prompt_file}",
        ),
        ({"output": {"format": "text", "tool": "name"}}, 'output.tool is a path, so format must be "jsonl"'),
    ],
)
def test_contradictory_description_is_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        a_coder(**settings)
    assert said in str(refused.value) and "add-a-coder" in refused.value.hint


def test_abilities_of_a_coder_follow_from_its_description() -> None:
    full = a_coder(output={"success": {"ok": True}, "output_tokens": "o", "cost_usd": "c", "context": "x"})
    assert (full.tells_result, full.tells_tokens, full.tells_cost, full.tells_context) == (True,) * 4
    bare = a_coder(output={"failure": {"ok": False}})
    assert (bare.tells_result, bare.tells_tokens, bare.tells_cost, bare.tells_context) == (False,) * 4
    assert a_coder(context_limit=9).window("m") == 9 and bare.window("m") is None
    assert a_coder(pass_env=["MY_KEY"]).reads_env == ("MY_KEY",) and bare.reads_env == ()
    assert a_coder(config_env="MY_HOME").config_env("/a") == {"MY_HOME": "/a"} and bare.config_env("/a") == {}


def test_plain_output_is_agent_text() -> None:
    coder = a_coder(output={"format": "text", "success": {"contains": "ALL DONE"}})
    assert coder.parse("  working") == [Event(kind=Kind.TEXT, text="  working")]
    assert coder.parse('{"type": "x"}') == [Event(kind=Kind.TEXT, text='{"type": "x"}')]
    assert coder.parse("--- ALL DONE ---") == [Event(kind=Kind.RESULT, ok=True, text="--- ALL DONE ---")]
    assert coder.parse(" ") == []


def test_paths_traverse_objects_and_lists() -> None:
    coder = a_coder(output={"text": "m.parts.*.text", "tool": "m.parts.*.name", "error": "errors.0.message"})
    said = line(m={"parts": [{"text": "a"}, {"name": "sh"}, 5, {"text": "b"}, {"text": 7}]})
    assert coder.parse(said) == [
        Event(kind=Kind.TOOL_USE, tool="sh"),
        Event(kind=Kind.TEXT, text="a"),
        Event(kind=Kind.TEXT, text="b"),
    ]
    assert coder.parse(line(errors=[{"message": "ouch"}])) == [Event(kind=Kind.ERROR, text="ouch")]
    assert coder.parse(line(errors=[])) == []


def test_path_applies_only_when_its_condition_holds() -> None:
    coder = a_coder(output={"text": {"path": "t", "when": {"type": ["say", "think"]}}})
    assert coder.parse(line(type="think", t="hm")) == [Event(kind=Kind.TEXT, text="hm")]
    assert coder.parse(line(type="echo", t="hm")) == []


def test_session_is_reported_with_its_line() -> None:
    coder = a_coder(output={"session": "id", "text": "t"})
    assert coder.parse(line(id="s-1")) == [Event(kind=Kind.SESSION_STARTED, session="s-1")]
    assert coder.parse(line(id="s-1", t="hi")) == [Event(kind=Kind.TEXT, text="hi", session="s-1")]


USAGE = {
    **{"input_tokens": "u.in", "output_tokens": "u.out", "cache_read_tokens": "u.cr", "cache_write_tokens": "u.cw"},
    **{"cost_usd": "usd", "context": "ctx", "window": "win"},
}


def test_usage_is_added_or_reported_as_a_total() -> None:
    said = line(u={"in": 1, "out": 2, "cr": 3, "cw": 4}, usd=0.5, ctx=10, win=20)
    tokens: dict[str, Any] = {"input": 1, "output": 2, "cache_read": 3, "cache_write": 4}
    [added] = a_coder(output=USAGE).parse(said)
    assert added == Event(kind=Kind.USAGE, usage=Usage(**tokens), cost_added=0.5, context=10, window=20)
    [total] = a_coder(output={**USAGE, "usage_total": True}).parse(said)
    assert total == Event(kind=Kind.USAGE, usage=Usage(**tokens, total=True), cost_usd=0.5, context=10, window=20)


@pytest.mark.parametrize("value", [-1, True, "5", 1.5, 2**60, None, [], {}])
def test_invalid_count_is_no_usage(value: Any) -> None:
    assert a_coder(output={"input_tokens": "n"}).parse(line(n=value)) == []


@pytest.mark.parametrize("value", [-0.1, True, "5", 1e300, None])
def test_invalid_amount_is_no_cost(value: Any) -> None:
    assert a_coder(output={"cost_usd": "n"}).parse(line(n=value)) == []


RESULTS = {"success": {"type": "end", "ok": True}, "failure": {"type": "end", "ok": False}, "text": "t", "error": "e"}


@pytest.mark.parametrize(
    ("said", "events"),
    [
        ({"type": "end", "ok": True, "t": "done"}, [Event(kind=Kind.RESULT, ok=True, text="done")]),
        ({"type": "end", "ok": True}, [Event(kind=Kind.RESULT, ok=True)]),
        ({"type": "end", "ok": False, "t": "x", "e": "why"}, [Event(kind=Kind.RESULT, ok=False, text="why")]),
        ({"type": "end", "ok": 1}, []),
        ({"type": "end"}, []),
        ({"type": "say", "ok": True, "t": "hi"}, [Event(kind=Kind.TEXT, text="hi")]),
    ],
)
def test_last_word_needs_all_of_its_signs(said: dict[str, Any], events: list[Event]) -> None:
    assert a_coder(output=RESULTS).parse(line(**said)) == events


def test_line_with_success_and_failure_signs_is_a_failure() -> None:
    coder = a_coder(output={"success": {"type": "end"}, "failure": {"type": "end", "ok": False}})
    assert [event.ok for event in coder.parse(line(type="end", ok=False))] == [False]


LIMITS = {
    **{"limit": {"code": [429, 430]}, "auth": {"code": 401}, "overload": {"code": 503}, "context_full": {"code": 413}},
    **{"text": "t", "error": "e", "resets_at": "until", "failure": {"end": True}},
}


@pytest.mark.parametrize(("code", "kind"), [(429, "rate"), (430, "rate"), (401, "auth"), (503, "overload")])
def test_limit_is_reported_as_a_limit_and_not_as_text(code: int, kind: str) -> None:
    said = line(code=code, t="slow down", until="2026-01-01T00:00:00Z")
    limit = Limit(kind=kind, text="slow down", resets_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert a_coder(output=LIMITS).parse(said) == [Event(kind=Kind.LIMIT, text="slow down", limit=limit)]
    [event] = a_coder(output={**LIMITS, "limit_kind": "plan"}).parse(said)
    assert event.limit and event.limit.kind == ("plan" if kind == "rate" else kind)


def test_limit_is_reported_before_the_last_word_with_the_line_as_fallback_text() -> None:
    said = line(code=429, end=True)
    limit, result = a_coder(output=LIMITS).parse(said)
    assert limit.limit == Limit(kind="rate", text=said) and (result.kind, result.ok) == (Kind.RESULT, False)


def test_full_context_is_reported() -> None:
    assert a_coder(output=LIMITS).parse(line(code=413, e="too long")) == [
        Event(kind=Kind.CONTEXT_FULL, text="too long")
    ]


def test_end_of_stderr_explains_an_end_without_a_last_word() -> None:
    coder = a_coder(output={"limit": {"contains": ["Too Many", "rate limit"]}, "auth": {"contains": "log in"}})
    told = coder.explain(1, "rate limit hit\nplease log in\nbye\n")
    assert told and told.limit == Limit(kind="auth", text="please log in")
    assert coder.explain(1, "nothing of interest") is None
    assert coder.explain(1, "log in" + "x" * 100_000) is None, "only its end counts"


def test_omitted_signs_never_match() -> None:
    assert a_coder().parse(line(type="end")) == []
    assert a_coder().explain(1, "anything") is None


EVERYTHING: dict[str, Any] = {**dict.fromkeys(PATHS, "a.*.b"), **{name: {"a": 1, "b.c": "x"} for name in SIGNS}}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["a", "b", "c", "*", "0"]), inner),
    max_leaves=12,
)


@given(said=JSON)
def test_any_object_is_parsed_without_an_error(said: Any) -> None:
    events = a_coder(output=EVERYTHING).parse(msgspec.json.encode(said).decode())
    assert all(isinstance(event, Event) for event in events)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 50_000, '{"a": "\\ud800"}', "\x00", "9" * 10_000, "{", "nul"]
)
def test_garbage_gives_no_event(text: str) -> None:
    assert a_coder(output=EVERYTHING).parse(text) == []


def test_events_of_one_line_are_bounded() -> None:
    coder = a_coder(output={"tool": "a.*.*"})
    assert len(coder.parse(line(a=[["x"] * 100] * 100))) == 1000
    [event] = coder.parse(line(a=[["x" * 10_000]]))
    assert len(event.tool) == 200
