"""Tables for commands that are typed all day: plain columns, without rich, which costs more than such a command."""

import os
import shutil
import sys
import unicodedata
from collections.abc import Sequence

import click

from fleet.cli.bd.text import clean

GAP = "  "
LEAST = 8  # a cut column keeps so many characters


def show(heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = (), cut: str = "") -> None:
    """Print rows under their heads; where the screen is too narrow the column `cut` gives way."""
    lines = [list(heads), *([clean(cell) for cell in row] for row in rows)]
    widths = [max(_width(line[at]) for line in lines) for at in range(len(heads))]
    room = _screen()
    if room and cut in heads:
        at = list(heads).index(cut)
        over = sum(widths) + len(GAP) * (len(widths) - 1) - room
        widths[at] = max(LEAST, widths[at] - max(0, over))
    for number, line in enumerate(lines):
        text = GAP.join(
            _padded(cell, width, head in right) for cell, width, head in zip(line, widths, heads, strict=True)
        )
        click.echo(click.style(text.rstrip(), bold=True) if number == 0 and _coloured() else text.rstrip())


def _padded(text: str, width: int, right: bool) -> str:
    if _width(text) > width:
        while text and _width(text) > width - 1:
            text = text[:-1]
        text += "…"
    space = " " * (width - _width(text))
    return space + text if right else text + space


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def _screen() -> int:
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS"):
        return 0  # where nobody looks at a screen, nothing is cut off
    return shutil.get_terminal_size().columns


def _coloured() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
