"""Agy: plain text output, and a result file as the only last word."""

from typing import Any

import pytest

from builders import a_task
from fleet.coders.agy import AgyCoder
from fleet.coders.base import NEXT_RUN, Order
from fleet.core.event import Event, Kind

AGY = AgyCoder()


def an_order(**changes: Any) -> Order:
    return Order(**{"task": a_task(), "prompt": "mend it\n", "folder": "/runs/a run", **changes})


def test_prompt_is_written_to_the_run_folder_and_the_agent_gets_its_path() -> None:
    command = AGY.command(an_order())
    (name,) = command.files
    assert command.files[name] == "mend it\n"
    assert command.argv[:2] == ("agy", "-p")
    assert f'"/runs/a run/{name}"' in command.argv[2]
    assert len(command.argv) == 3
    assert command.stdin == ""


def test_arguments_stay_short_for_a_prompt_of_any_length() -> None:
    assert max(map(len, AGY.command(an_order(prompt="x" * 400_000)).argv)) < 200


def test_permissions_are_skipped_only_when_ordered_and_user_options_come_last() -> None:
    argv = AGY.command(an_order(permissions="skip", flags=("--add-dir", "a"))).argv
    assert argv[3:] == ("--dangerously-skip-permissions", "--add-dir", "a")


def test_model_and_session_are_ignored() -> None:
    assert AGY.command(an_order(model="m-1", session="s-1")) == AGY.command(an_order())


def test_agy_promises_no_result_tokens_cost_or_context() -> None:
    assert not (AGY.tells_result or AGY.tells_tokens or AGY.tells_cost or AGY.tells_context)
    assert (AGY.resumes, AGY.steering) == ("", NEXT_RUN)


@pytest.mark.parametrize(
    ("line", "events"),
    [
        ("I read the file.", [Event(kind=Kind.TEXT, text="I read the file.")]),
        ("{ not JSON }", [Event(kind=Kind.TEXT, text="{ not JSON }")]),
        ("half a \0character", [Event(kind=Kind.TEXT, text="half a character")]),
        ("  ", []),
        ('{"type": "message", "content": "done"}', [Event(kind=Kind.TEXT, text="done")]),
        ('{"error": "no such model", "text": "x"}', [Event(kind=Kind.ERROR, text="no such model")]),
        ('{"type": "result", "ok": true, "subtype": "success"}', []),
    ],
)
def test_each_line_is_text_even_when_it_is_json(line: str, events: list[Event]) -> None:
    assert AGY.parse(line) == events


@pytest.mark.parametrize("line", ["429 rate limit reached", "please run /login", "Task finished successfully."])
def test_output_about_limits_and_success_is_only_text(line: str) -> None:
    assert [event.kind for event in AGY.parse(line)] == [Kind.TEXT]


def test_failure_is_explained_by_stderr() -> None:
    limit = AGY.explain(1, "Error: not logged in\n")
    assert limit is not None and limit.limit is not None and limit.limit.kind == "auth"
    assert AGY.explain(2, "x" * 5_000 + " unknown flag --y\n") == Event(
        kind=Kind.ERROR, text=("x" * 300 + " unknown flag --y")[-300:]
    )
    assert AGY.explain(0, "not logged in") is None
    assert AGY.explain(1, " ") is None


def test_settings_file_is_the_login_sign() -> None:
    assert AGY.login_signs({"HOME": "/home/user"}) == ("/home/user/.gemini/antigravity-cli/settings.json",)
