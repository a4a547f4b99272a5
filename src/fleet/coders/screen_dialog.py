"""The dialog on a coder's screen: its text, its numbered options, and the keys that choose each.

claude, codex and gemini draw numbered options below a text. A digit chooses an option at once. Everything that is read
here may be drawn by an agent, so texts are bounded and cleaned, and only the keys of recognized options are typed.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from fleet.coders.base import QUESTION
from fleet.core.quoting import clean
from fleet.core.record import Record

if TYPE_CHECKING:
    from fleet.coders.base import Coder

#: Lines examined, counted from the end of the screen.
LOOKED_AT = 60
LONGEST_LINE, LONGEST_LABEL = 400, 200
#: Options above this number have no key.
MOST_KEYS = 9
#: Blank lines that separate a dialog without a border from the text above it.
APART = 3

_BORDER = re.compile(r"\s*[│┃]\s?|\s*[│┃]\s*$")
_OPTION = re.compile(r"(\s*)([❯›●>]?)(\s*)(\d{1,2})\.\s+(\S.*)")
_YES_NO = re.compile(r"(.*\S)\s*\(y/n\)")
#: The top of a dialog: a rule, the corner of a box, or the last line of the agent's output.
_TOP = re.compile(r"\s*[─━]{10}[─━\s\w]*|\s?[╭┌].*|[•◦■✔✗›●⏺✻❯⚠] ?.*")
_DECORATION = re.compile(r"[\s─━╌│┃╭╮╰╯┌┐└┘]+")
_KEY_HINT = re.compile(r"\s*\((?:[a-z]|esc|shift\+tab)\)$")
#: An option whose line takes words that are typed.
_TAKES_WORDS = re.compile(r"Type something\.?")
#: An option after which the agent waits for a message.
_DECLINES = re.compile(r"No, (?:and tell .{1,40} what to do differently|suggest changes)")
#: The keys of a dialog in which a bare "No" does the same.
_AMENDS = re.compile(r"\bTab to amend\b")
#: The keys of a dialog in which a digit only moves the mark.
_CONFIRMS = re.compile(r"\s*enter continue\b.*")


class Option(Record):
    """A choice in a dialog."""

    number: int
    label: str
    detail: str = ""
    key: str = ""  # the key that chooses it; empty if none does

    @property
    def text(self) -> str:
        return f"{self.label} – {self.detail}" if self.detail else self.label


class Dialog(Record):
    """A dialog that waits for a choice."""

    text: str  # lines without control characters
    options: tuple[Option, ...]
    marked: int = 0  # number of the option with the cursor
    words: int = 0  # number of the option that takes typed words; 0 if none does
    declines: int = 0  # number of the option after which the agent waits for a message; 0 if none does
    confirms: bool = False  # a digit only moves the cursor; Enter chooses

    @property
    def digest(self) -> str:
        """Return what identifies the dialog, wherever its cursor is."""
        told = "".join("".join([self.text, *(each.text for each in self.options)]).split())  # wrapped at any width
        return hashlib.sha256(told.encode("utf-8", "replace")).hexdigest()[:8]

    @property
    def gist(self) -> str:
        """Return the text on one line."""
        return " · ".join(line.strip() for line in self.text.split("\n") if line.strip())

    def find(self, text: str) -> list[Option]:
        """Return the options that a number or text names: those with this label, else those that begin with it."""
        wanted = text.strip().casefold()
        if wanted.isdecimal():
            return [each for each in self.options if str(each.number) == wanted]
        labels = {each.number: each.label.casefold() for each in self.options}
        same = [each for each in self.options if labels[each.number] == wanted]
        return same or [each for each in self.options if re.match(rf"{re.escape(wanted)}\b", labels[each.number])]


def dialog_on(coder: Coder, screen: str) -> Dialog | None:
    """Return the dialog that a captured screen of this coder shows. Return None if fleet recognizes none."""
    return read_dialog(screen) if coder.look(screen) == QUESTION else None


def read_dialog(screen: str) -> Dialog | None:
    """Return the last dialog on a screen: numbered options in one column, or a question that y or n answers."""
    lines = [_plain(line[:LONGEST_LINE]) for line in screen.rstrip().split("\n")[-LOOKED_AT:]]
    if found := _YES_NO.fullmatch(lines[-1].strip()):
        yes, no = Option(number=1, label="Yes", key="y"), Option(number=2, label="No", key="n")
        return Dialog(text=clean(found[1]), options=(yes, no))
    places = _places(lines)
    if not places:
        return None
    below = lines[places[-1] + 1 :]
    options = tuple(_option(lines, start, end) for start, end in zip(places, _ends(lines, places), strict=True))
    labels = {each.number: each.label for each in options}
    amends = any(_AMENDS.search(line) for line in below)
    return Dialog(
        text=_text(lines[: places[0]]),
        options=options,
        marked=next((number for number, start in enumerate(places, 1) if _match(lines[start])[2]), 0),
        words=next((number for number, label in labels.items() if _TAKES_WORDS.fullmatch(label)), 0),
        declines=next(
            (key for key, label in labels.items() if _DECLINES.match(label) or (amends and label == "No")), 0
        ),
        confirms=any(_CONFIRMS.fullmatch(line) for line in below),
    )


def _plain(line: str) -> str:
    """Return a line without the border of its box."""
    return _BORDER.sub(" ", line).rstrip() if line.lstrip()[:1] in ("│", "┃") else line.rstrip()


def _match(line: str) -> re.Match[str]:
    found = _OPTION.fullmatch(line)
    assert found is not None
    return found


def _places(lines: list[str]) -> list[int]:
    """Return the line numbers of the last options, which count from 1 in one column. Empty if there are none.

    Lines between two options belong to the upper one, so they are indented more.
    """
    found: list[int] = []
    wanted = column = 0
    for place in range(len(lines) - 1, -1, -1):
        match = _OPTION.fullmatch(lines[place])
        if not found:
            if match:
                found, wanted, column = [place], int(match[4]) - 1, match.start(4)
        elif match and int(match[4]) == wanted and match.start(4) in (column, column + 1):
            found, wanted = [place, *found], wanted - 1
        elif lines[place].strip() and not _DECORATION.fullmatch(lines[place]) and _indent(lines[place]) <= column:
            return []
        if found and wanted == 0:
            return found
    return []


def _ends(lines: list[str], places: list[int]) -> list[int]:
    """Return the line number after each option. The last one ends at a blank line or a shallower indentation."""
    end, column = places[-1] + 1, _match(lines[places[-1]]).start(4)
    while end < len(lines) and lines[end].strip() and _indent(lines[end]) > column:
        end += 1
    return [*places[1:], end]


def _option(lines: list[str], start: int, end: int) -> Option:
    match = _match(lines[start])
    label, _, detail = re.sub(r"\s{2,}", "\n", match[5].strip()).partition("\n")
    more = [line.strip() for line in lines[start + 1 : end] if line.strip() and not _DECORATION.fullmatch(line)]
    number = int(match[4])
    return Option(
        number=number,
        label=clean(_KEY_HINT.sub("", label))[:LONGEST_LABEL],
        detail=clean(" ".join([*detail.split("\n"), *more]).strip())[:LONGEST_LABEL],
        key=str(number) if number <= MOST_KEYS else "",
    )


def _text(lines: list[str]) -> str:
    """Return the text of a dialog whose options follow these lines."""
    found: list[str] = []
    for line in reversed(lines):
        if _TOP.fullmatch(line) or (found and len(found) > APART and not any(map(str.strip, found[-APART:]))):
            break
        found.append(line)
    kept = [clean(line.expandtabs()) for line in reversed(found) if not line.strip() or not _DECORATION.fullmatch(line)]
    text = re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in kept)).strip("\n")
    margin = min((_indent(line) for line in text.split("\n") if line), default=0)
    return "\n".join(line[margin:] for line in text.split("\n"))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
