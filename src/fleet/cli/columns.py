"""Tables on the terminal: plain columns."""

import os
import sys
import unicodedata
from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

import click

from fleet.cli.bd.text import clean

GAP = "  "
LEAST = 6  # minimum width of a column that shrinks
LEAST_FLEXIBLE = 16  # minimum width of such a column while others can still be left out


class Styled(NamedTuple):
    """A cell with a style, which only a terminal shows."""

    text: str
    fg: str | None = None
    bold: bool = False
    dim: bool = False


def show(
    heads: Sequence[str],
    rows: Sequence[Sequence[str | Styled]],
    *,
    right: Sequence[str] = (),
    cut: Sequence[str] = (),
    fold: Sequence[str] = (),
    drop: Sequence[str] = (),
) -> None:
    """Print rows under their heads.

    On a narrow screen, first the columns in `drop` are left out. Then those in `cut` are shortened, and then those in
    `fold` continue on the next line. Each list is used in order.
    """
    if left_out := _too_many(heads, rows, drop, {*cut, *fold}):
        kept = [number for number, head in enumerate(heads) if head not in left_out]
        heads, rows = [heads[number] for number in kept], [[row[number] for number in kept] for row in rows]
        right, cut, fold = ([head for head in some if head in heads] for some in (right, cut, fold))
    lines = [[Styled(head, bold=True) for head in heads], *([_cell(cell) for cell in row] for row in rows)]
    widths = [max(text_width(line[at].text) for line in lines) for at in range(len(heads))]
    over = sum(widths) + len(GAP) * (len(widths) - 1) - screen() if screen() else 0
    for at in [list(heads).index(name) for name in (*cut, *fold)]:
        given = max(0, min(over, widths[at] - LEAST))
        widths[at], over = widths[at] - given, over - given
    for line in lines:
        cells = zip(line, widths, heads, strict=True)
        columns = [_folded(cell, width) if head in fold else [cell] for cell, width, head in cells]
        for part in zip_longest(*columns, fillvalue=Styled("")):
            drawn = (_drawn(cell, width, head in right) for cell, width, head in zip(part, widths, heads, strict=True))
            click.echo(GAP.join(drawn).rstrip())


def _too_many(
    heads: Sequence[str], rows: Sequence[Sequence[str | Styled]], drop: Sequence[str], flexible: set[str]
) -> set[str]:
    """Return the columns in `drop` to leave out, in order, so that the others fit on the screen."""
    widths = {}
    for at, head in enumerate(heads):
        wide = max(text_width(text) for text in (head, *(_cell(row[at]).text for row in rows)))
        widths[head] = min(wide, LEAST_FLEXIBLE) if head in flexible else wide
    left_out: set[str] = set()
    for head in drop:
        kept = [width for name, width in widths.items() if name not in left_out]
        if not screen() or sum(kept) + len(GAP) * (len(kept) - 1) <= screen():
            break
        left_out.add(head)
    return left_out


def differing(values: Sequence[str]) -> list[Styled]:
    """Return cells side by side: bold if the values differ, dim if they are the same."""
    differ = len(set(values)) > 1
    return [Styled(value, bold=differ, dim=not differ) for value in values]


def _cell(given: str | Styled) -> Styled:
    return given._replace(text=clean(given.text)) if isinstance(given, Styled) else Styled(clean(given))


def _folded(cell: Styled, width: int) -> list[Styled]:
    from textwrap import wrap

    return [cell._replace(text=part) for part in wrap(cell.text, max(1, width))]


def _drawn(cell: Styled, width: int, right: bool) -> str:
    text = _padded(cell.text, width, right)
    has_style = has_color() and (cell.fg or cell.bold or cell.dim)
    return click.style(text, fg=cell.fg, bold=cell.bold or None, dim=cell.dim or None) if has_style else text


def _padded(text: str, width: int, right: bool) -> str:
    if text_width(text) > width:
        while text and text_width(text) > width - 1:
            text = text[:-1]
        text += "…"
    space = " " * (width - text_width(text))
    return space + text if right else text + space


def text_width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def screen() -> int:
    """Return the width of the screen. Return 0 without a terminal."""
    if not sys.stdout.isatty() and not os.environ.get("COLUMNS"):
        return 0
    from shutil import get_terminal_size

    return get_terminal_size().columns


def has_color() -> bool:
    """Return True if the output goes to a terminal that shows colors."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
