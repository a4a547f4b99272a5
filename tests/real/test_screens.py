"""The real CLIs on real screens: messages arrive, work is reported, and questions are recognized."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.coders.base import BUSY, QUESTION, READY
from fleet.coders.dialogs import trust_folder
from fleet.coders.screen_dialog import dialog_on, read_dialog
from fleet.core.event import Kind
from model_server import ModelServer, Turn
from model_server.network import ClosedNetwork
from real.screens import RealScreen
from real.through_fleet import HELD
from supervised import wait_for

pytestmark = pytest.mark.soak("clis")
CLIS = ("claude", "codex")
DONE = Turn(text="Well done.")
#: Characters with a meaning for a shell, an option parser or a terminal.
NASTY = "-dash 'one' \"two\" `id` $(touch made) ${HOME} \\n %s ünï 😀 !! #x\n--help\n\n\tlast line"

Open = Callable[..., RealScreen]


@pytest.fixture
def opened(network: ClosedNetwork, server: ModelServer, tmp_path: Path) -> Iterator[Open]:
    """Yield a function that opens the screen of a CLI whose model follows these turns. The test closes all screens."""
    made: list[RealScreen] = []

    def open(cli: str, *turns: Turn, base: Path | None = None, **order: Any) -> RealScreen:
        # Each conversation has its own turns, because codex also asks for a title.
        scenario = server.scenario(turns, name=cli, per_conversation=True)
        made.append(RealScreen(network, base or tmp_path / f"{cli}-{len(made)}", cli, scenario, **order))
        return made[-1]

    yield open
    for screen in made:
        screen.__exit__()


def received(screen: RealScreen) -> list[str]:
    """Return all texts that the model got."""
    return [text for request in screen.scenario.turns() for text in request.said]


@pytest.mark.parametrize("cli", CLIS)
def test_screen_works_on_its_prompt_and_its_session_file_reports_everything(cli: str, opened: Open) -> None:
    screen = opened(cli, Turn(text="I begin.", shell="pwd > made && echo fine"), DONE, prompt=NASTY)
    screen.wait(lambda shown: "Well done." in shown, "the last reply")
    screen.until(READY)
    assert (screen.work / "made").read_text().strip() == str(screen.work)
    wait_for(lambda: screen.told(Kind.RESULT), "the turn's end in the file")
    events = screen.events()
    kinds = [event.kind for event in events if event.kind != Kind.USAGE]
    # Claude may write its first reply into the file before the prompt.
    expected = ["session_started", "delivered", "text", "tool_use", "tool_result", "text", "result"]
    assert sorted(kinds) == sorted(expected) and kinds[-3:] == expected[-3:]
    assert [event.session for event in events if event.kind == Kind.SESSION_STARTED] == [screen.session]
    assert screen.told(Kind.DELIVERED) == [NASTY.replace("\t", "    ") if cli == "claude" else NASTY]
    assert screen.told(Kind.TEXT) == ["I begin.", "Well done."]
    (used,) = [event for event in events if event.kind == Kind.TOOL_USE]
    (gave,) = [event for event in events if event.kind == Kind.TOOL_RESULT]
    assert (used.tool, used.tool_id) == ({"claude": "Bash", "codex": "exec_command"}[cli], gave.tool_id)
    assert gave.ok is True and "fine" in gave.text
    assert [event.ok for event in events if event.kind == Kind.RESULT] == [True]
    assert tokens(screen) == {"claude": (200, 60, 2000, 40), "codex": (240, 60, 2000, 0)}[cli]
    assert max(event.context or 0 for event in events) == {"claude": 1120, "codex": 1150}[cli]


def tokens(screen: RealScreen) -> tuple[int, ...]:
    """Return the token counts of the run: the last count of each message, or the last total."""
    names = ("input", "output", "cache_read", "cache_write")
    told = [event.usage for event in screen.events() if event.usage is not None]
    totals = [usage for usage in told if usage.total]
    counted = totals[-1:] or list({usage.message: usage for usage in told}.values())
    return tuple(sum(getattr(usage, name) for usage in counted) for name in names)


@pytest.mark.parametrize("cli", CLIS)
def test_message_arrives_during_work_and_after_it(cli: str, opened: Open) -> None:
    screen = opened(cli, Turn(text="I begin.", shell=HELD), DONE, Turn(text="That too."))
    wait_for(lambda: (screen.work / "begun").exists(), "the tool to run", screen.shown)
    screen.until(BUSY)
    screen.say("in the midst,\n'of' $(work)")
    assert screen.told(Kind.RESULT) == []
    (screen.work / "go").touch()
    screen.wait_delivered("in the midst,\n'of' $(work)")
    screen.until(READY)
    wait_for(lambda: len(screen.told(Kind.RESULT)) == 1, "the first turn's end")
    screen.say("and after it")
    screen.wait_delivered("and after it")
    wait_for(lambda: len(screen.told(Kind.RESULT)) == 2, "the second turn's end")
    screen.until(READY)
    assert screen.told(Kind.TEXT)[-1] == "That too."
    # Claude embeds a message that arrived during its work in a sentence.
    assert any("in the midst,\n'of' $(work)" in text for text in received(screen))
    assert "and after it" in received(screen)


@pytest.mark.parametrize("cli", CLIS)
def test_separate_account_is_asked_nothing_before_the_work(cli: str, opened: Open) -> None:
    asked = opened(cli, DONE, answered=False)
    if cli == "codex":
        asked.until(QUESTION)
    else:
        asked.wait(lambda shown: "Unable to connect" in shown, "claude to want its vendor first")
    answered = opened(cli, DONE)
    answered.wait(lambda shown: "Well done." in shown, "the reply")
    assert received(asked) == []


#: Claude with the login of the user, which is not in a separate folder.
OF_THE_USER = {"CLAUDE_CONFIG_DIR": "", "ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "of-nobody"}


def test_folder_is_trusted_by_a_parent_folder_when_the_login_is_that_of_the_user(opened: Open, tmp_path: Path) -> None:
    for name in ("asked", "trusted"):
        (tmp_path / name / "home").mkdir(parents=True)
        (tmp_path / name / "home" / ".claude.json").write_text('{"hasCompletedOnboarding": true, "mine": 1}')
    own = {"answered": False, "env": OF_THE_USER, "permissions": "user"}
    asked = opened("claude", DONE, base=tmp_path / "asked", **own)
    assert "trust this folder" in asked.until(QUESTION)
    claude, home = asked.coder, tmp_path / "trusted" / "home"
    assert trust_folder(claude, claude.config_folder({"HOME": str(home)}), str(tmp_path / "trusted"))
    trusting = opened("claude", DONE, base=tmp_path / "trusted", **own)
    trusting.say("make it so")
    trusting.wait(lambda shown: "Well done." in shown, "the reply")
    assert '"mine": 1' in (home / ".claude.json").read_text()


@pytest.mark.parametrize("cli", CLIS)
def test_permission_question_is_recognized_and_an_answer_continues_the_work(cli: str, opened: Open) -> None:
    asks = {
        "claude": Turn(text="I begin.", shell="touch made"),
        "codex": Turn(
            tool="exec_command",
            arguments={"cmd": "touch made", "sandbox_permissions": "require_escalated", "justification": "to make it"},
        ),
    }
    flags = {"claude": (), "codex": ("--ask-for-approval=on-request",)}
    screen = opened(cli, asks[cli], DONE, permissions="user", flags=flags[cli])
    assert "touch made" in screen.until(QUESTION)
    assert not (screen.work / "made").exists()
    screen.agree()
    screen.wait(lambda shown: "Well done." in shown, "the reply")
    assert (screen.work / "made").exists()


@pytest.mark.parametrize("cli", CLIS)
def test_number_of_an_option_chooses_it(cli: str, opened: Open) -> None:
    asks = {
        "claude": Turn(text="I begin.", shell="touch made"),
        "codex": Turn(
            tool="exec_command",
            arguments={"cmd": "touch made", "sandbox_permissions": "require_escalated", "justification": "to make it"},
        ),
    }
    flags = {"claude": (), "codex": ("--ask-for-approval=on-request",)}
    screen = opened(cli, asks[cli], DONE, permissions="user", flags=flags[cli])
    found = dialog_on(screen.coder, screen.until(QUESTION))
    assert found and "touch made" in found.text and found.declines == 3
    screen.press(found.options[2].key)
    screen.until(READY)
    assert not (screen.work / "made").exists()


def test_words_are_typed_into_the_choice_that_takes_them(opened: Open) -> None:
    choices = [{"label": "a", "description": "aa"}, {"label": "b", "description": "bb"}]
    asked = {"questions": [{"question": "Which?", "header": "H", "multiSelect": False, "options": choices}]}
    screen = opened("claude", Turn(tool="AskUserQuestion", arguments=asked), DONE, permissions="user")
    found = dialog_on(screen.coder, screen.until(QUESTION))
    assert found and found.words == 3
    screen.press("3")
    screen.wait(lambda shown: (now := read_dialog(shown)) and now.marked == 3, "the mark")
    screen.paste("my own words")
    screen.wait(lambda shown: "3. my own words" in shown, "the words")
    screen.press("Enter")
    screen.wait(lambda shown: "Which? → my own words" in shown, "the answer")


def test_options_settle_the_warning_of_claude_and_the_trust_of_codex(opened: Open, tmp_path: Path) -> None:
    base = tmp_path / "claude-own"
    (base / "home").mkdir(parents=True)
    known = {"hasCompletedOnboarding": True, "projects": {str(base): {"hasTrustDialogAccepted": True}}}
    (base / "home" / ".claude.json").write_text(json.dumps(known))
    claude = opened("claude", DONE, base=base, answered=False, env=OF_THE_USER)
    claude.until(READY)
    codex = opened(
        "codex",
        DONE,
        base=tmp_path / "codex-own",
        answered=False,
        model="gpt-5.4",
        trusted=str(tmp_path / "codex-own" / "work"),
    )
    codex.until(READY)


@pytest.mark.parametrize("cli", CLIS)
def test_prompt_that_is_too_long_for_an_argument_is_read_from_a_file(cli: str, opened: Open) -> None:
    long = "a 'word' or \"two\" $(id)\n" * 8_400
    assert len(long) > 200_000
    screen = opened(cli, Turn(text="I read."), prompt=long)
    screen.wait(lambda shown: "I read." in shown, "the reply")
    place = screen.folder / "prompt.md"
    assert place.read_text() == long
    assert any(str(place) in text for text in received(screen))
    screen.say(long)
    wait_for(lambda: long.strip() in [text.strip() for text in received(screen)], "the long message", screen.shown)


@pytest.mark.parametrize("cli", CLIS)
def test_protocol_is_passed_apart_from_the_prompt(cli: str, opened: Open) -> None:
    protocol = "Here 'work' is \"done\" $(so)\n\\ and so 😀"
    screen = opened(cli, DONE, prompt="make it so", protocol=protocol)
    screen.wait(lambda shown: "Well done." in shown, "the reply")
    assert screen.scenario.turns()[0].holds(protocol)
    assert "make it so" in received(screen)
    wait_for(lambda: screen.told(Kind.DELIVERED) == ["make it so"], "the prompt in its session's file")


@pytest.mark.parametrize("cli", CLIS)
def test_session_resumes_where_it_ended(cli: str, opened: Open, tmp_path: Path) -> None:
    first = opened(cli, DONE, base=tmp_path / "same", prompt="the first words")
    wait_for(lambda: first.told(Kind.RESULT), "the first turn's end")
    pid = first.run("list-panes", "-F", "#{pane_pid}").strip()
    first.run("respawn-pane", "-k", "true")
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), "the first to be gone: it writes its settings as it goes")
    again = opened(cli, Turn(text="I remember."), base=tmp_path / "same", prompt="and more", session=first.session)
    again.wait(lambda shown: "I remember." in shown, "the reply")
    assert again.session == first.session
    assert any(request.holds("the first words") and request.holds("and more") for request in again.scenario.turns())
    wait_for(lambda: again.told(Kind.DELIVERED) == ["the first words", "and more"], "both in one file")


def test_gemini_works_at_a_screen_without_questions_when_its_folder_is_trusted(opened: Open) -> None:
    untrusted = {"permissions": "user", "env": {"GEMINI_CLI_TRUST_WORKSPACE": ""}}
    asked = opened("gemini", DONE, answered=False, **untrusted)
    assert "Do you trust" in asked.until(QUESTION)
    screen = opened(
        "gemini", Turn(text="I begin.", shell="touch made"), DONE, Turn(text="That too."), prompt=NASTY, **untrusted
    )
    assert "Allow execution" in screen.until(QUESTION)
    assert not (screen.work / "made").exists()
    screen.agree()
    screen.wait(lambda shown: "Well done." in shown, "the reply")
    assert (screen.work / "made").exists()
    screen.say("and\nmore")
    screen.wait_delivered("and\nmore")
    screen.wait(lambda shown: "That too." in shown, "the reply")
    kinds = ["session_started", "delivered", "text", "tool_use", "tool_result", "text", "delivered", "text"]
    wait_for(lambda: [event.kind for event in screen.events() if event.kind != Kind.USAGE] == kinds, "all in the file")
    assert screen.events()[0].session == screen.session
    (named, more), asked_for = screen.told(Kind.DELIVERED), received(screen)
    assert f"{screen.folder}/prompt.md" in named and named in asked_for
    assert (screen.folder / "prompt.md").read_text("utf-8") == NASTY
    assert more == "and\nmore" and more in asked_for
    assert tokens(screen) == (360, 90, 3000, 0)
