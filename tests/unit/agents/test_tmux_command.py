"""Session names, parsed output of tmux, and the text that may enter a paste."""

import re

import pytest

from fleet.agents.tmux import quoted
from fleet.agents.tmux_command import SessionFacts, attach_argv, pasteable, read_sessions, text_of, tmux_argv
from fleet.core.branch import session_name


@pytest.mark.parametrize("branch", ["fix", "fix-it", "fix_it-A12", "x" * 57])
def test_session_has_the_name_of_a_branch_that_tmux_accepts(branch: str) -> None:
    assert session_name("ai_", branch) == f"ai_{branch}"


@pytest.mark.parametrize(
    "branch", ["feat/login", "v1.2", "a:b", "ünicode", "with space", "#{pid}", "=x", "%1", "@", "x" * 58, "a/" * 500]
)
def test_session_name_is_readable_and_marked_when_tmux_would_change_the_branch(branch: str) -> None:
    name = session_name("ai_", branch)
    assert re.fullmatch(r"ai_[A-Za-z0-9_-]+-[0-9a-f]{8}", name) and len(name) <= 60
    assert name == session_name("ai_", branch)
    assert name[: len(branch) + 3][:50].startswith("ai_" + re.sub(r"[^A-Za-z0-9_-]", "-", branch)[:40])


def test_similar_branches_have_different_sessions() -> None:
    alike = ["a/b", "a-b", "a.b", "a:b", "a b", "a_b", "a/b/", "x" * 100, "x" * 101]
    assert len({session_name("ai_", branch) for branch in alike}) == len(alike)


def test_equal_branches_of_two_repositories_have_different_sessions() -> None:
    names = {session_name("ai_", branch, key) for branch in ("main", "a/b") for key in ("", "one", "two")}
    assert len(names) == 6


def test_session_is_identified_by_its_oldest_pane() -> None:
    text = (
        "%7 1700000000 1 1 70 ai_fix\n"
        "%3 1700000000 1 0 30 ai_fix\n"
        "%12 1700000000 1 1 120 ai_fix\n"
        "%4 1700000001 0 1 40 name with spaces\n"
        "no server running\n%x 1 2 3 4 bad\n%5 1 2\n"
    )
    assert read_sessions(text) == {
        "ai_fix": SessionFacts(created=1700000000, attached=1, dead=False, pane_pid=30),
        "name with spaces": SessionFacts(created=1700000001, attached=0, dead=True, pane_pid=40),
    }


def test_word_ends_a_tmux_command_only_when_intended() -> None:
    assert tmux_argv("s", "a;", ";", "b", ";;")[-4:] == ["a\\;", ";", "b", ";\\;"]


def test_session_is_attached_by_its_exact_name() -> None:
    argv = attach_argv("s", "ai_fix")
    assert argv[argv.index("-L") + 1] == "s" and argv[-3:] == ["attach-session", "-t", "=ai_fix"]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("plain\r\n\ttext\x1b[31m\x03", b"plain\r\n\ttext\x1b[31m\x03"),
        ("a\x1b[201~b", b"ab"),
        ("a\x9b201~b", b"ab"),
        ("\x1b[20\x1b[201~1~rm -rf /", b"rm -rf /"),
        ("\x1b[2\x9b201~01~\x1b[20\x1b[20\x1b[201~1~1~x", b"x"),
        ("\udcff", b"\xff"),
    ],
)
def test_text_cannot_end_its_paste(text: str, left: bytes) -> None:
    assert pasteable(text) == left


def test_shell_path_contains_no_special_characters() -> None:
    assert quoted("/plain/path-1.2_x") == "\"$(printf '/plain/path-1.2_x')\""
    inner = quoted('/it\'s "$(x)" `y` \\ #{z} %H\n\udcff;/stdout').removeprefix("\"$(printf '").removesuffix("')\"")
    assert re.fullmatch(r"(?:[A-Za-z0-9/_.-]|\\[0-7]{3})+", inner)


def test_screen_text_has_no_padding() -> None:
    assert text_of(b"one   \n  two \xff\n\n   \n\n") == "one\n  two \ufffd"


@pytest.mark.parametrize(
    "end", ["Pane is dead", "Pane is dead (status 0, Tue Nov 17 12:00:00 2026)", "Pane is dead (signal 9)"]
)
def test_screen_text_omits_the_exit_message_of_tmux(end: str) -> None:
    assert text_of(f"one\ntwo\n\n\n\n{end}\n".encode()) == "one\ntwo"
    assert text_of(f"{end}\n".encode()) == "" and text_of(f"{end}\none\n".encode()) == f"{end}\none"
