"""The contract of all coders: no prompt and no secret in argv, and parsing without side effects."""

import builtins
import copy
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from builders import a_task
from fleet.coders import ALIASES, CODERS, known, load
from fleet.coders.base import Coder, Order
from fleet.coders.prompt import FIELDS, prompt_for
from fleet.core.errors import BadInput, FleetError
from fleet.core.event import Event
from fleet.home import Home

SECRET = "correct-horse-battery-staple"

LINES = (
    *("", "text", "{}", "[]", "null", '{"type": "text", "text": "hi"}', '{"type": "result", "ok": true}', "\x00"),
    *('{"type": "result", "subtype": "success", "is_error": false}', "[" * 100_000, '{"type":', "9" * 5000),
)


@pytest.fixture(params=sorted(CODERS))
def coder(request: pytest.FixtureRequest) -> Coder:
    return load(request.param)


def an_order(**changes: object) -> Order:
    given = {"task": a_task(), "prompt": f"do it with {SECRET}\n-x --y\0", "model": "m-1", "permissions": "skip"}
    return Order(**(given | changes))  # type: ignore[arg-type]


def test_coder_is_found_by_the_name_that_users_type(coder: Coder) -> None:
    assert known(coder.name) == coder.name
    assert re.match(rf"fleet\.coders\.{coder.name}(\.adapter)?:", CODERS[coder.name])


def test_coder_can_be_asked_to_stop(coder: Coder) -> None:
    assert coder.stop_steps
    assert all(isinstance(step, signal.Signals) and step != signal.SIGKILL for step in coder.stop_steps)


def test_prompt_is_passed_by_stdin_or_file_and_not_in_argv(coder: Coder) -> None:
    command = coder.command(an_order())
    assert SECRET in command.stdin + "".join(command.files.values())
    assert SECRET not in " ".join(command.argv)
    assert SECRET not in " ".join(command.env.values())


def test_argv_contains_no_secret_of_the_environment(coder: Coder, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "FLEET_RUN_TOKEN"):
        monkeypatch.setenv(name, SECRET)
    assert SECRET not in " ".join(coder.command(an_order(prompt="x")).argv)


def test_same_order_gives_the_same_command(coder: Coder) -> None:
    order = an_order()
    assert coder.command(order) == coder.command(order)


def test_model_named_like_an_option_stays_a_model(coder: Coder) -> None:
    argv = coder.command(an_order(model="--help")).argv
    assert "--help" not in argv


def test_parsing_is_pure(coder: Coder, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("parse must touch nothing")

    before = copy.deepcopy(vars(coder))
    with monkeypatch.context() as patch:
        patch.setattr(builtins, "open", refuse)
        patch.setattr(os, "open", refuse)
        patch.setattr(subprocess, "Popen", refuse)
        first, second = ([list(coder.parse(line)) for line in LINES] for _ in range(2))
    assert first == second
    assert all(isinstance(event, Event) for events in first for event in events)
    assert vars(coder) == before


def test_custom_coder_is_loaded_by_its_import_string(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(
        "from fleet.coders.base import Coder\nclass Mine(Coder):\n    name = 'mine'\n"
        "    def command(self, order): ...\n    def parse(self, line): return []\n"
        "class Half: name = 'half'\nthing = 5\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert load("mine:Mine").name == "mine:Mine", "the word a user types finds it again"
    with pytest.raises(FleetError, match="is not a coder"):
        load("mine:Half")
    for place, problem in (("mine:None_", "has no class"), ("mine:thing", "has no class"), ("gone.x:Y", "imported")):
        with pytest.raises(FleetError, match=problem):
            load(place)
    for place in (":", "mine:", ":Mine", "..mine:Mine", "a b:C", "os:path.join"):
        with pytest.raises(BadInput, match="not an import string"):
            load(place)


@pytest.mark.parametrize("name", sorted(ALIASES))
def test_alternative_spelling_names_the_same_coder(name: str) -> None:
    assert load(name).name == known(name) == ALIASES[name]


def test_misspelled_coder_gets_a_suggestion() -> None:
    with pytest.raises(BadInput, match="unknown coder 'demoo'") as refused:
        load("demoo")
    assert "did you mean 'demo'?" in refused.value.hint


def test_naming_a_coder_loads_no_coder() -> None:
    look = "import sys; from fleet.coders import known; known('demo'); print('json' in sys.modules, *sys.modules)"
    told = subprocess.run(
        [sys.executable, "-S", "-c", "import sys; sys.path[:0] = " + repr(sys.path) + "; " + look],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert told.startswith("False ")
    assert "fleet.coders.demo.adapter" not in told and "importlib.util" not in told


TASK = a_task(id="fleet-7", title="paint {task_id}", description='use {task_dir} and {"a": {x}}', cwd="/project")


def test_prompt_contains_the_task_and_the_protocol(tmp_path: Path) -> None:
    prompt = prompt_for(Home(str(tmp_path)), TASK, run_number=1)
    assert "fleet-7: paint {task_id}" in prompt
    assert 'use {task_dir} and {"a": {x}}' in prompt, "what a task says in braces is never filled in"
    assert f"{tmp_path}/tasks/fleet-7/artifacts" in prompt
    assert "Invocation directory: /project" in prompt
    for word in (
        "PLAN_AND_STATUS.md",
        "KNOWLEDGE.md",
        "Q&A.md",
        "result.json",
        "## Q:",
        "QUESTION:",
        "completed_no_changes",
    ):
        assert word in prompt
    assert "bd close fleet-7 --reason" in prompt
    assert "bd update fleet-7 --status blocked --notes" in prompt
    assert "run 1" not in prompt
    assert not [
        field for field in FIELDS if "{" + field + "}" in prompt.replace(TASK.title, "").replace("use {task_dir}", "")
    ]


def test_prompt_of_a_later_run_contains_the_reason_and_the_answers(tmp_path: Path) -> None:
    prompt = prompt_for(
        Home(str(tmp_path)),
        TASK,
        run_number=3,
        answers=[("Which colour?", "Blue.")],
        messages=["mind the gap", " "],
        reason="the agent vanished",
    )
    for words in (
        "This is run 3",
        "It runs again because: the agent vanished",
        "Which colour?",
        "Blue.",
        "mind the gap",
    ):
        assert words in prompt


def test_custom_templates_come_first(tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "task.md").write_text(
        "DO {task_title} IN {invocation_line} {not_a_field} {} \xff", "latin-1"
    )
    prompt = prompt_for(Home(str(tmp_path)), TASK.replace(design="draw", acceptance="it is red"))
    assert prompt.startswith("DO paint {task_id} IN Invocation directory: /project {not_a_field} {} �")
    assert "PLAN_AND_STATUS.md" in prompt
    assert "## Acceptance criteria\nit is red" in prompt_for(Home("/nowhere"), TASK.replace(acceptance="it is red"))
