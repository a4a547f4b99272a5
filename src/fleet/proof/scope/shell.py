"""Parse shell lines as data: split them into simple commands without running anything. Unclear parts are left out.

The time is linear in the length of a line: each character is read once for each level of nesting, and levels are few.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from fleet.proof.scope.bounds import DELETES, WRITES

if TYPE_CHECKING:
    from collections.abc import Iterator


#: The rest of a longer line is not read.
LONGEST = 64 * 1024
#: Maximum number of words and of redirects of a command that are kept.
MOST_WORDS = 500
#: Kinds of pieces of a word: plain text, text in quotes, the value of a variable, the output of a command.
TEXT, QUOTED, VARIABLE, OUTPUT = "text", "quoted", "variable", "output"
#: Operators that redirect into a file, and those that only read.
WRITING = (">", ">>", ">|", "&>", "&>>", ">&", "<>")
READING = ("<", "<<", "<<-", "<<<", "<&")

_CONTROL = re.compile(r"[\x00-\x08]")
_OPERATOR = re.compile(r"&>>|<<<|<<-|&>|&&|\|\||;;|\|&|>>|>\||>&|<<|<&|<>|[;&|()<>\n]")
_PLAIN = re.compile(r"[^\s;&|()<>'\"\\$`#]+")
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9?$!#@*-]")
_IN_QUOTES = re.compile(r'[^"\\$`]+')
_ANSI = re.compile(r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "e": "\x1b", "a": "\a", "b": "\b", "0": ""}


class Piece(NamedTuple):
    """A part of a word."""

    kind: str
    text: str
    quoted: bool = False


Word = tuple[Piece, ...]


class Redirect(NamedTuple):
    """The target of a command's output or the source of its input. `text` holds a here-document."""

    operator: str
    target: Word
    text: str = ""


class Simple(NamedTuple):
    """A command: its words and redirects, and the operator before it."""

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]
    before: str


class Bracket(NamedTuple):
    """A bracket around commands: `(` or `)`."""

    text: str


def parse(line: str) -> Iterator[Simple | Bracket]:
    """Yield the commands of a line in order."""
    reader = _LineReader(_CONTROL.sub("", line[:LONGEST]))
    words: list[Word] = []
    redirects: list[Redirect] = []
    before = ";"
    for token in reader.tokens():
        if isinstance(token, str):
            if words or redirects:
                yield Simple(tuple(words), tuple(redirects), before)
                words, redirects = [], []
            if token in ("(", ")"):
                yield Bracket(token)
            before = token
        elif isinstance(token, Redirect):
            redirects += [token] if len(redirects) < MOST_WORDS else []
        elif len(words) < MOST_WORDS:
            words.append(token)
    if words or redirects:
        yield Simple(tuple(words), tuple(redirects), before)


class _LineReader:
    """A single pass over a line."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._documents: tuple[int, int] | None = None  # end of the line with `<<`, and of its documents

    def tokens(self) -> Iterator[str | Word | Redirect]:
        while self._at < len(self._text):
            char = self._text[self._at]
            if char in " \t\r\v\f":
                self._at += 1
            elif char == "#":
                self._skip_comment()
            elif self._text.startswith(("<(", ">("), self._at):
                self._at += 2
                yield (Piece(OUTPUT, self._read_until_bracket()),)
            elif found := self._read_redirect():
                yield found
            elif match := _OPERATOR.match(self._text, self._at):
                documents, self._at = self._documents, match.end()
                if documents and self._at > documents[0]:
                    self._at, self._documents = documents[1], None
                yield ";" if match[0] == "\n" else match[0]
            else:
                yield self._read_word()

    def _skip_comment(self) -> None:
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end

    def _read_redirect(self) -> Redirect | None:
        start = self._at
        digits = start
        while digits < len(self._text) and self._text[digits].isdigit():
            digits += 1
        match = _OPERATOR.match(self._text, digits)
        if match is None or match[0] not in (*WRITING, *READING) or (digits > start and match[0].startswith("&")):
            return None
        self._at = match.end()
        while self._at < len(self._text) and self._text[self._at] in " \t":
            self._at += 1
        if self._text.startswith(("<(", ">("), self._at):
            self._at += 2
            target: Word = (Piece(OUTPUT, self._read_until_bracket()),)
        else:
            target = self._read_word()
        if match[0] not in ("<<", "<<-"):
            return Redirect(match[0], target)
        end = "".join(piece.text for piece in target)
        return Redirect(match[0], target, self._read_document(end, stripped=match[0] == "<<-"))

    def _read_document(self, end: str, *, stripped: bool) -> str:
        """Return the text of a here-document, which starts after this line or after the previous here-document."""
        line_end = self._documents[0] if self._documents else self._text.find("\n", self._at)
        if line_end < 0:
            return ""
        at = self._documents[1] if self._documents else line_end + 1
        lines = []
        while at < len(self._text):
            stop = self._text.find("\n", at)
            stop = len(self._text) if stop < 0 else stop
            line = self._text[at:stop].lstrip("\t") if stripped else self._text[at:stop]
            at = stop + 1
            if line == end:
                break
            lines.append(line)
        self._documents = (line_end, min(at, len(self._text)))
        return "\n".join(lines)

    def _read_word(self) -> Word:
        pieces: list[Piece] = []
        while self._at < len(self._text):
            char = self._text[self._at]
            if match := _PLAIN.match(self._text, self._at):
                pieces.append(Piece(TEXT, match[0]))
                self._at = match.end()
            elif char == "#" and pieces:
                pieces.append(Piece(TEXT, "#"))
                self._at += 1
            elif char == "'":
                pieces.append(Piece(QUOTED, self._read_until("'")))
            elif char == '"':
                self._at += 1
                pieces += self._read_quoted()
            elif char == "\\":
                pieces += self._read_escape()
            elif char in "$`":
                pieces.append(self._read_dollar(quoted=False))
            else:
                break
        return tuple(pieces)

    def _read_escape(self) -> list[Piece]:
        char = self._text[self._at + 1 : self._at + 2]
        self._at += 2
        return [] if char in ("\n", "") else [Piece(QUOTED, char)]

    def _read_until(self, quote: str) -> str:
        start = self._at + 1
        end = self._text.find(quote, start)
        self._at = len(self._text) if end < 0 else end + 1
        return self._text[start : end if end >= 0 else None]

    def _read_quoted(self) -> Iterator[Piece]:
        empty = True
        while self._at < len(self._text):
            char = self._text[self._at]
            if match := _IN_QUOTES.match(self._text, self._at):
                yield Piece(QUOTED, match[0])
                self._at = match.end()
            elif char == '"':
                self._at += 1
                break
            elif char == "\\":
                following = self._text[self._at + 1 : self._at + 2]
                self._at += 2
                if following != "\n":
                    yield Piece(QUOTED, following if following in '$`"\\' else "\\" + following)
            else:
                yield self._read_dollar(quoted=True)
            empty = False
        if empty:
            yield Piece(QUOTED, "")

    def _read_dollar(self, *, quoted: bool) -> Piece:
        text, at = self._text, self._at
        if text[at] == "`":
            return Piece(OUTPUT, self._read_until("`").replace("\\`", "`"), quoted)
        if text.startswith("$((", at):
            self._at += 3
            self._read_until_bracket()
            self._at += text.startswith(")", self._at)
            return Piece(QUOTED, "0")
        if text.startswith("$(", at):
            self._at += 2
            return Piece(OUTPUT, self._read_until_bracket(), quoted)
        if text.startswith("${", at):
            self._at += 1
            return Piece(VARIABLE, self._read_until("}"), quoted)
        if text.startswith("$'", at) and not quoted:
            self._at += 1
            return Piece(QUOTED, self._read_ansi())
        if match := _NAME.match(text, at + 1):
            self._at = match.end()
            return Piece(VARIABLE, match[0], quoted)
        self._at += 1
        return Piece(QUOTED, "$")

    def _read_ansi(self) -> str:
        start = self._at = self._at + 1
        while self._at < len(self._text) and self._text[self._at] != "'":
            self._at += 2 if self._text[self._at] == "\\" else 1
        inner = self._text[start : self._at]
        self._at = min(self._at + 1, len(self._text))
        return _ANSI.sub(_decode_escape, inner)

    def _read_until_bracket(self) -> str:
        """Return the text up to the matching closing bracket, or the rest if no such bracket exists."""
        start, depth = self._at, 1
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == "'":
                self._read_until("'")
                continue
            if char == "\\":
                self._at += 1
            elif char == '"':
                self._skip_quotes()
                continue
            elif char in "()":
                depth += 1 if char == "(" else -1
            self._at += 1
            if not depth:
                return self._text[start : self._at - 1]
        return self._text[start:]

    def _skip_quotes(self) -> None:
        self._at += 1
        while self._at < len(self._text) and self._text[self._at] != '"':
            self._at += 2 if self._text[self._at] == "\\" else 1
        self._at += 1


def _decode_escape(found: re.Match[str]) -> str:
    code = found[1]
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF).replace("\0", "")
    return _LETTERS.get(code, code)


#: Longer patches are read only up to this length.
LONGEST_PATCH = 1024 * 1024
_FILE = re.compile(r"^\*\*\* (Add|Update|Delete) File: (.{1,4096})$|^\*\*\* Move to: (.{1,4096})$", re.MULTILINE)


def patched(text: str) -> list[tuple[str, str]]:
    """Return the action of a patch on each file."""
    found = []
    for match in _FILE.finditer(text, 0, LONGEST_PATCH):
        path = (match[2] or match[3]).strip()
        found.append((DELETES if match[1] == "Delete" else WRITES, path))
    return found
