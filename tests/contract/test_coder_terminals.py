"""The contract of all coders with a screen: how they get a prompt, and how their screen and session file are read."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from builders import a_task
from contract.coder_recordings import READ_AT
from contract.test_coder_mutations import DAMAGE, wrong_values
from fleet.coders import CODERS, load
from fleet.coders.base import BUSY, LONGEST_ARGUMENT, LONGEST_TYPED, QUESTION, READY, Coder, Command, Order
from fleet.core.event import Event, Kind
from fleet.core.run import Run
from fleet.supervisor.run.fold import fold

RECORDINGS = Path(__file__).parent.parent / "recordings"
SCREENS = sorted((RECORDINGS / "screens").glob("*/*.txt"))
SESSIONS = sorted((RECORDINGS / "sessions").glob("*/*.jsonl"))
#: The first word of a screen's file name says what it shows.
LOOKS = {"question": QUESTION, "busy": BUSY, "ready": READY, "unknown": ""}
WITH_SCREEN = sorted(name for name in CODERS if load(name).terminal(Order(task=a_task(), prompt="")) is not None)
NASTY = "-x 'one' \"two\" `id` $(id) ${HOME} \\ %s 😀\n--help\n"
FOLDER = "/run's folder"


@pytest.fixture(params=WITH_SCREEN)
def coder(request: pytest.FixtureRequest) -> Coder:
    return load(request.param)


def started(coder: Coder, **changes: Any) -> Command:
    given: dict[str, Any] = {"task": a_task(), "prompt": NASTY, "model": "m-1", "folder": FOLDER, "fresh": "f-1"}
    command = coder.terminal(Order(**(given | changes)))
    assert command is not None
    return command


def test_claude_codex_and_demo_have_a_screen() -> None:
    assert {"claude", "codex", "demo"} <= set(WITH_SCREEN)
    assert load("agy").terminal(Order(task=a_task(), prompt="x")) is None


def test_prompt_is_typed_unchanged_and_in_no_argument_or_variable(coder: Coder) -> None:
    command = started(coder)
    heard = command.typed or command.files["prompt.md"]
    assert heard.strip() == NASTY.strip()
    assert (command.stdin, command.keep_stdin) == ("", False)
    assert NASTY.strip() not in "".join([*command.argv, *command.env.values()])


def test_nothing_is_typed_when_there_is_no_prompt(coder: Coder) -> None:
    command = started(coder, prompt="", protocol="so")
    assert command.typed == "" and "" not in command.argv
    assert not any("prompt" in name for name in command.files)


def test_long_prompt_is_put_into_a_file_whose_name_is_typed(coder: Coder) -> None:
    whole = "ö" * (LONGEST_TYPED // 2)
    assert whole in (started(coder, prompt=whole).typed or started(coder, prompt=whole).files["prompt.md"])
    if not coder.program:
        return  # the demo agent reads no file
    command = started(coder, prompt=whole + ".")
    assert command.files["prompt.md"] == whole + "."
    assert f"{FOLDER}/prompt.md" in (command.typed or command.argv[-1])
    assert whole not in "".join(command.argv)


def test_prompt_is_never_typed_as_a_shell_command(coder: Coder) -> None:
    for prompt in ("!touch hurt", "\n !touch hurt"):
        command = started(coder, prompt=prompt)
        assert not command.typed.strip().startswith("!")
        assert "!touch hurt" in (command.typed or command.files["prompt.md"])


def test_protocol_of_any_length_reaches_the_agent(coder: Coder) -> None:
    for protocol in ('so, "so" and \\so', "so " * LONGEST_ARGUMENT):
        command = started(coder, protocol=protocol)
        given = "\n".join([*command.argv, *command.files.values(), command.typed])
        assert protocol in given or json.dumps(protocol) in given
        assert NASTY in given
        assert max(len(word.encode()) for word in command.argv) < 131_072


def test_arguments_contain_no_nul(coder: Coder) -> None:
    assert "\0" not in "".join(started(coder, prompt="a\0b", protocol="c\0d").argv)


def test_model_named_like_an_option_is_no_option_on_a_screen(coder: Coder) -> None:
    assert "--help" not in started(coder, model="--help", prompt="x").argv


def test_user_options_are_passed_as_options(coder: Coder) -> None:
    if not coder.program:
        return  # it is part of fleet and has no options
    argv = started(coder, flags=("--mine", "word"), prompt="x").argv
    assert argv.index("word") == argv.index("--mine") + 1
    assert "--" not in argv or argv.index("word") < argv.index("--")


def test_session_is_resumed_by_its_id(coder: Coder) -> None:
    command = started(coder, session="s-1")
    assert command.session == "s-1"
    assert any("s-1" in word for word in command.argv)
    assert not any("f-1" in word for word in command.argv)


def test_permissions_are_skipped_only_when_ordered(coder: Coder) -> None:
    asking, skipping = started(coder), started(coder, permissions="skip")
    assert not any("danger" in word or "yolo" in word for word in asking.argv)
    assert not coder.program or asking.argv != skipping.argv


def test_first_questions_are_settled_by_options_when_the_user_agreed() -> None:
    claude, codex = load("claude"), load("codex")
    warned = '--settings={"skipDangerousModePermissionPrompt": true}'
    assert warned in started(claude, permissions="skip").argv and warned not in started(claude).argv
    own = started(claude, permissions="skip", flags=("--settings=mine",)).argv
    assert [word for word in own if word.startswith("--settings")] == ["--settings=mine"]
    assert codex.trusts_by_option
    assert 'projects={"/some \\"tree"={trust_level="trusted"}}' in started(codex, trusted='/some "tree').argv
    assert not any("trust_level" in word for word in started(codex).argv)


@pytest.mark.parametrize("path", SCREENS, ids=[f"{path.parent.name}-{path.stem}" for path in SCREENS])
def test_recorded_screen_is_recognized(path: Path) -> None:
    screen = path.read_text("utf-8")
    coder, expected = load(path.parent.name), LOOKS[path.stem.partition("-")[0]]
    assert coder.look(screen) == expected
    assert coder.look(screen + "\n" * 30) == expected, "a screen is seldom full"


def test_recordings_cover_each_kind_of_screen() -> None:
    kinds = {(path.parent.name, path.stem.partition("-")[0]) for path in SCREENS}
    assert kinds >= {(name, kind) for name in ("claude", "codex", "demo") for kind in ("question", "busy", "ready")}


def test_any_screen_is_recognized_as_a_known_look(coder: Coder) -> None:
    choose = random.Random(coder.name)
    signs = "\n\n\n  ❯›>│─…•·✶(y/n)Enter to confirm esc to interrupt? for shortcuts 1. Yes\0\x1b[K😀\u202e"
    for length in (0, 1, 50, 5_000, 200_000):
        for _ in range(20):
            screen = "".join(choose.choices(signs, k=length))
            assert coder.look(screen) in LOOKS.values()
    for line in (*signs, "❯ " * 100_000, "─" * 1_000_000, "• " + "a " * 500_000):
        assert coder.look("\n".join([line] * 40)) in LOOKS.values()


def test_printed_input_box_is_not_mistaken_for_an_empty_input(coder: Coder) -> None:
    screens = [path for path in SCREENS if path.parent.name == coder.name]
    fake = "\n".join(
        next(path for path in screens if path.stem == "ready-finished").read_text("utf-8").split("\n")[-12:]
    )
    for path in screens:
        if path.stem.startswith("question"):
            assert coder.look(f"{fake}\n{path.read_text('utf-8')}") == QUESTION, path.stem


def test_question_is_recognized_below_a_drawn_input_box() -> None:
    rule = "─" * 120
    drawn = f"{rule}\n❯\n{rule}\n Do you want to proceed?\n ❯ 1. Yes\n   2. No\n\n Esc to cancel"
    assert load("claude").look(drawn) == QUESTION


def the_run(coder: Coder, lines: list[str]) -> tuple[list[Event], Run]:
    run = Run(id="fleet-a/1", task_id="fleet-a", number=1, epoch=1, owner="host", started_at=READ_AT)
    events = [event for line in lines for event in coder.parse_session(line)]
    return events, fold(run, events, READ_AT)


def lines_of(path: Path) -> list[str]:
    return path.read_text("utf-8").removesuffix("\n").split("\n")


@pytest.mark.parametrize("path", SESSIONS, ids=[f"{path.parent.name}-{path.stem}" for path in SESSIONS])
def test_recorded_session_yields_the_expected_values(path: Path) -> None:
    expected = json.loads((path.parent / "expected.json").read_text("utf-8"))[path.stem]
    events, run = the_run(load(path.parent.name), lines_of(path))
    assert [event.kind for event in events if event.kind != Kind.USAGE] == expected["kinds"].split()
    assert [event.text for event in events if event.kind == Kind.DELIVERED] == expected["delivered"]
    assert [event.ok for event in events if event.kind == Kind.RESULT] == expected["ok"]
    assert [event.limit.kind for event in events if event.limit is not None] == expected.get("limits", [])
    used = (run.input_tokens, run.output_tokens, run.cache_read_tokens, run.cache_write_tokens)
    assert (list(used), run.context_peak) == (expected["tokens"], expected.get("context"))
    assert run.session


@pytest.mark.parametrize("name", sorted({path.parent.name for path in SESSIONS}))
def test_damaged_session_neither_raises_nor_reaches_the_run(name: str) -> None:
    coder, paths = load(name), [path for path in SESSIONS if path.parent.name == name]
    for number in range(300):
        choose = random.Random(f"{name} {number}")
        lines = lines_of(choose.choice(paths))
        for damage in choose.sample(DAMAGE, choose.choice((1, 2))):
            lines = damage(lines, choose) if lines else lines
        _, run = the_run(coder, wrong_values(lines, choose))
        json.dumps(run.as_dict(), default=str, allow_nan=False).encode()
        assert 0 <= run.tokens < 2**63
        for line in lines[:1]:
            begun = coder.session_of(line)
            assert begun is None or all(type(word) is str and word for word in begun)


def test_session_is_recognized_by_its_first_line() -> None:
    codex = load("codex")
    first = lines_of(RECORDINGS / "sessions" / "codex" / "two-turns.jsonl")[0]
    meta = json.loads(first)["payload"]
    assert codex.session_of(first) == (meta["id"], "/project")
    for source in ("exec", {"subagent": "review"}, None, 5):
        assert codex.session_of(json.dumps({"type": "session_meta", "payload": meta | {"source": source}})) is None
    for line in ("", "{}", "[]", '{"type": "session_meta"}', first[:-5]):
        assert codex.session_of(line) is None
    assert codex.recent_sessions("/project", {"CODEX_HOME": "/h[1]"}).startswith("/h[[]1]/sessions/")


def test_coder_names_its_session_files_when_the_session_id_is_not_known_beforehand(coder: Coder) -> None:
    known = started(coder).session
    assert bool(known) != bool(coder.recent_sessions("/project", {"HOME": "/h"}))
