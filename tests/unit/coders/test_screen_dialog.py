"""Dialogs are read from recorded screens, and nothing else on a screen is taken for one."""

from pathlib import Path

import pytest

from fleet.coders import load
from fleet.coders.screen_dialog import Dialog, dialog_on, read_dialog

SCREENS = Path(__file__).parents[2] / "recordings" / "screens"
RULE = "─" * 40
KEYS = "Enter to confirm · Esc to cancel"
#: The first line, the labels, and the numbers of the options that take words and that decline.
RECORDED: dict[str, tuple[str, list[str], int, int]] = {
    "claude/question-api-key": ("Detected a custom API key in your environment", ["Yes", "No (recommended)"], 0, 0),
    "claude/question-bash": (
        *("Bash command", ["Yes", "Yes, and always allow access to work/ from this project", "No"]),
        *(0, 3),
    ),
    "claude/question-bypass": (
        *("WARNING: Claude Code running in Bypass Permissions mode", ["No, exit", "Yes, I accept"]),
        *(0, 0),
    ),
    "claude/question-choice": (" ☐ H", ["a", "b", "Type something.", "Chat about this"], 3, 0),
    "claude/question-trust": ("Accessing workspace:", ["Yes, I trust this folder", "No, exit"], 0, 0),
    "codex/question-edit": (
        "Would you like to make the following edits?",
        ["Yes, proceed", "Yes, and don't ask again for these files", "No, and tell Codex what to do differently"],
        *(0, 3),
    ),
    "codex/question-model": ("Meet GPT-6 Sol", ["Try new model", "Use existing model"], 0, 0),
    "demo/question-write": ("Allow write demo-task.md?", ["Yes", "No"], 0, 0),
    "gemini/question-trust": (
        "Do you trust the files in this folder?",
        ["Trust folder (work)", "Trust parent folder (g1)", "Don't trust"],
        *(0, 0),
    ),
}


def shown(*lines: str) -> Dialog | None:
    return read_dialog("\n".join(lines))


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_dialog_is_read(name: str) -> None:
    text, labels, words, declines = RECORDED[name]
    found = dialog_on(load(name.partition("/")[0]), (SCREENS / f"{name}.txt").read_text("utf-8"))
    assert found is not None
    assert (found.text.split("\n")[0], [each.label for each in found.options]) == (text, labels)
    assert (found.words, found.declines) == (words, declines)
    assert [each.key for each in found.options] == (
        ["y", "n"] if name.startswith("demo") else list("1234"[: len(labels)])
    )


@pytest.mark.parametrize(
    "path", sorted(SCREENS.glob("*/question-*.txt")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_every_recorded_question_has_options(path: Path) -> None:
    assert dialog_on(load(path.parent.name), path.read_text("utf-8")) is not None


@pytest.mark.parametrize(
    "path",
    sorted({*SCREENS.glob("*/*.txt")} - {*SCREENS.glob("*/question-*")}),
    ids=lambda path: f"{path.parent.name}-{path.stem}",
)
def test_screen_without_a_question_has_no_dialog(path: Path) -> None:
    assert dialog_on(load(path.parent.name), path.read_text("utf-8")) is None


def test_dialog_is_the_same_at_another_width_and_with_another_cursor() -> None:
    one = shown(RULE, "Do you want", "to proceed?", "❯ 1. Yes", "  2. No", "", KEYS)
    other = shown(RULE, "Do you want to proceed?", "  1. Yes", "❯ 2. No", "", KEYS)
    third = shown(RULE, "Do you want to proceed?", "  1. Yes", "❯ 2. Never", "", KEYS)
    assert one and other and third
    assert (one.marked, other.marked) == (1, 2) and one.digest == other.digest != third.digest


def test_options_drawn_by_an_agent_above_the_real_ones_are_only_text() -> None:
    found = shown(RULE, " echo '", " ❯ 1. Deny", "   2. Allow '", " Proceed?", " ❯ 1. Yes", "   2. No", "", KEYS)
    assert found and [each.label for each in found.options] == ["Yes", "No"] and "Deny" in found.text


@pytest.mark.parametrize(
    "lines",
    [
        ("Text", "  2. Two", "  3. Three"),  # the first option is not on the screen
        ("Text", "❯ 1. One", "words of the agent", "  2. Two"),
        ("Text", "  1. One", "       2. Two"),  # another column
        ("",),
    ],
)
def test_incomplete_options_are_no_dialog(lines: tuple[str, ...]) -> None:
    assert shown(*lines, "", KEYS) is None


def test_texts_are_bounded_and_without_control_characters() -> None:
    found = shown(RULE, "a\x1b]0;x\x07 " + "w" * 5000, "❯ 1. y\x9b31m" + "z" * 5000, "  2. No", "", KEYS)
    assert found and (found.text + found.options[0].text).isprintable()
    assert len(found.text) < 500 and len(found.options[0].text) <= 200


def test_text_names_an_option_by_number_label_or_beginning() -> None:
    found = shown(RULE, "Go?", "❯ 1. Yes, proceed (y)", "  2. Yes, always (p)", "  3. No, stop (esc)", "", KEYS)
    assert found
    numbers = [[each.number for each in found.find(text)] for text in ("2", "yes, proceed", "no", "yes", "9", "maybe")]
    assert numbers == [[2], [1], [3], [1, 2], [], []]
