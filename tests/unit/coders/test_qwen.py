"""Qwen: its differences from claude, whose stream format it uses."""

import json
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from builders import a_task
from contract.coder_recordings import lines_of
from fleet.coders.base import RESUME, SAME_CWD, Order
from fleet.coders.qwen import QwenCoder
from fleet.core.event import Event, Kind, Usage

QWEN = QwenCoder()


def an_order(**changes: Any) -> Order:
    return Order(**{"task": a_task(), "prompt": "mend it\n", **changes})


def read(scenario: str) -> list[Event]:
    return [event for line in lines_of("qwen", scenario) for event in QWEN.parse(line)]


def test_prompt_is_passed_by_stdin_and_the_session_resumes_after_a_signal() -> None:
    command = QWEN.command(an_order())
    assert command.argv == ("qwen", "--output-format=stream-json")
    assert (command.stdin, command.keep_stdin) == ("mend it\n", False)
    assert (QWEN.steering, QWEN.resumes) == (RESUME, SAME_CWD)
    assert QWEN.message("x") == QWEN.interruption() == ""


def test_model_and_session_cannot_become_options_and_user_options_come_last() -> None:
    flags = ("--allowed-tools", "a", "b")
    argv = QWEN.command(an_order(model="-x", session="--y", permissions="skip", flags=flags)).argv
    assert argv[2:] == ("--model=-x", "--resume=--y", "--approval-mode=yolo", *flags)


def test_defaults_are_in_the_run_folder_with_lower_priority_than_user_settings() -> None:
    command = QWEN.command(an_order(folder="/runs/1"))
    (name,) = command.files
    assert command.env["QWEN_CODE_SYSTEM_DEFAULTS_PATH"] == f"/runs/1/{name}"
    settings = json.loads(command.files[name])
    assert settings["model"]["generationConfig"]["maxRetries"] == 0
    assert settings["security"]["auth"]["selectedType"] == "openai"
    assert settings["general"]["enableAutoUpdate"] is False
    homeless = QWEN.command(an_order())
    assert homeless.files == {} and "QWEN_CODE_SYSTEM_DEFAULTS_PATH" not in homeless.env


def test_qwen_is_one_process_with_limited_retries() -> None:
    env = QWEN.command(an_order()).env
    assert env["QWEN_CODE_NO_RELAUNCH"] == "true"
    assert env["QWEN_CODE_UNATTENDED_RETRY"] == ""


def test_session_files_are_in_a_folder_named_after_the_directory(tmp_path: Path) -> None:
    file = tmp_path / "projects" / "-srv-my-app" / "chats" / "11-aa.jsonl"
    file.parent.mkdir(parents=True)
    file.touch()
    pattern = QWEN.transcript("11-aa", "/srv/my_app", QWEN.config_env(str(tmp_path)))
    assert list(Path("/").glob(pattern.lstrip("/"))) == [file]
    assert QWEN.transcript("11-aa", "/p", {"HOME": "/h"}) == "/h/.qwen/projects/-p/chats/11-aa.jsonl"
    assert QWEN.transcript("../x", "/p", {"HOME": "/h"}) == ""


def test_api_key_or_login_is_a_login_sign() -> None:
    assert {"OPENAI_API_KEY", "/h/.qwen/oauth_creds.json"} < set(QWEN.login_signs({"HOME": "/h"}))
    assert all(
        any(fnmatchcase(sign, glob) for glob in QWEN.reads_env) for sign in QWEN.login_signs({}) if sign[0] != "/"
    )
    assert "/accounts/two/oauth_creds.json" in QWEN.login_signs(QWEN.config_env("/accounts/two"))


def test_cached_tokens_count_once_and_a_result_covers_the_session() -> None:
    events = read("ok")
    told = [event.usage for event in events if event.kind == Kind.TOOL_USE]
    assert [(each.input, each.output, each.cache_read) for each in told if each] == [(100, 30, 1000)]
    assert [event.context for event in events if event.context] == [1100, 1101]
    assert events[-1].usage == Usage(input=201, output=60, cache_read=2000, total=True, session=True)


@pytest.mark.parametrize(("scenario", "kind"), [("401", "auth"), ("429", "rate"), ("500", "overload")])
def test_error_marked_as_success_is_an_error(scenario: str, kind: str) -> None:
    events = read(scenario)
    assert json.loads(lines_of("qwen", scenario)[-1])["is_error"] is False
    assert (events[-1].kind, events[-1].ok) == (Kind.RESULT, False)
    assert {event.limit.kind for event in events if event.limit} == {kind}
    assert not [event for event in events if event.kind == Kind.TEXT], "the model said nothing"


def test_stderr_explains_the_end() -> None:
    complaint = "Reached max session turns for this session."
    assert QWEN.explain(53, complaint) == Event(kind=Kind.ERROR, text=complaint)
    missing = QWEN.explain(1, "Missing API key for OpenAI-compatible auth.")
    assert missing is not None and missing.limit is not None and missing.limit.kind == "auth"
    assert QWEN.explain(130, "Operation cancelled.") is None
    assert QWEN.explain(0, complaint) is QWEN.explain(None, complaint) is None
