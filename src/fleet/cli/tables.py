"""Tables and amounts on the terminal: plain columns, durations, tokens, money and times."""

import os
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import zip_longest
from typing import NamedTuple

from fleet.cli import lazy_click as click
from fleet.cli.text import clean
from fleet.core.run import COMPUTED, UNKNOWN, Ending, Run

GAP = "  "
INDENT = "    "  # of a line below a row
#: Open and leave the alternate screen without a cursor, and begin a frame on it.
ENTER, BEGIN, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[H\x1b[2J", "\x1b[?25h\x1b[?1049l"
LEAST = 6  # minimum width of a column that shrinks
LEAST_FLEXIBLE = 16  # minimum width of such a column while others can still be left out


class StyledText(NamedTuple):
    """A cell with a style, which only a terminal shows."""

    text: str
    fg: str | None = None
    bold: bool = False
    dim: bool = False


def show(
    heads: Sequence[str],
    rows: Sequence[Sequence[str | StyledText]],
    *,
    right: Sequence[str] = (),
    cut: Sequence[str] = (),
    fold: Sequence[str] = (),
    drop: Sequence[str] = (),
    below: Sequence[str] = (),
) -> None:
    """Print rows under their heads.

    On a narrow screen, first the columns in `drop` are left out. Then those in `cut` are shortened, and then those in
    `fold` continue on the next line. Each list is used in order. `below` has a text for each row, which is printed
    under the row if it is not empty.
    """
    if left_out := _too_many(heads, rows, drop, {*cut, *fold}):
        kept = [number for number, head in enumerate(heads) if head not in left_out]
        heads, rows = [heads[number] for number in kept], [[row[number] for number in kept] for row in rows]
        right, cut, fold = ([head for head in some if head in heads] for some in (right, cut, fold))
    lines = [[StyledText(head, bold=True) for head in heads], *([_cell(cell) for cell in row] for row in rows)]
    widths = [max(text_width(line[at].text) for line in lines) for at in range(len(heads))]
    over = sum(widths) + len(GAP) * (len(widths) - 1) - screen() if screen() else 0
    for at in [list(heads).index(name) for name in (*cut, *fold)]:
        given = max(0, min(over, widths[at] - LEAST))
        widths[at], over = widths[at] - given, over - given
    for number, line in enumerate(lines):
        cells = zip(line, widths, heads, strict=True)
        columns = [_folded(cell, width) if head in fold else [cell] for cell, width, head in cells]
        for part in zip_longest(*columns, fillvalue=StyledText("")):
            drawn = (_drawn(cell, width, head in right) for cell, width, head in zip(part, widths, heads, strict=True))
            click.echo(GAP.join(drawn).rstrip())
        for text in wrapped(clean(below[number - 1]), INDENT) if below and number else ():
            click.echo(text)


def wrapped(text: str, indent: str = "") -> list[str]:
    """Return the lines of a text that fit the screen, each with this indent. Only a longer word is broken."""
    if not text or not screen():
        return [f"{indent}{text}"] if text else []
    from textwrap import wrap

    return wrap(text, screen(), initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _too_many(
    heads: Sequence[str], rows: Sequence[Sequence[str | StyledText]], drop: Sequence[str], flexible: set[str]
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


def differing(values: Sequence[str]) -> list[StyledText]:
    """Return cells side by side: bold if the values differ, dim if they are the same."""
    differ = len(set(values)) > 1
    return [StyledText(value, bold=differ, dim=not differ) for value in values]


def _cell(given: str | StyledText) -> StyledText:
    return given._replace(text=clean(given.text)) if isinstance(given, StyledText) else StyledText(clean(given))


def _folded(cell: StyledText, width: int) -> list[StyledText]:
    from textwrap import wrap

    return [cell._replace(text=part) for part in wrap(cell.text, max(1, width))]


def _drawn(cell: StyledText, width: int, right: bool) -> str:
    text = _padded(cell.text, width, right)
    has_style = has_color() and (cell.fg or cell.bold or cell.dim)
    if not has_style:
        return text
    from click import style

    return style(text, fg=cell.fg, bold=cell.bold or None, dim=cell.dim or None)


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


@contextmanager
def live_view(is_on: bool) -> Iterator[Callable[[], None]]:
    """Show the frames of a view that refreshes on the terminal's alternate screen. Yield a function that begins one."""
    is_on = is_on and sys.stdout.isatty()
    click.echo(ENTER if is_on else "", nl=False)
    try:
        yield lambda: click.echo(BEGIN if is_on else "", nl=False)
    finally:
        click.echo(LEAVE if is_on else "", nl=False)


def has_color() -> bool:
    """Return True if the output goes to a terminal that shows colors."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


NOTHING = "–"
#: The marks before costs.
MARKS = {
    "≈": "computed from tokens and prices",
    "≥": "at least: some of it has no known cost",
    NOTHING: "no known cost",
}


def duration(seconds: float | None) -> str:
    """Return a duration such as 4s, 3m12s, 2h05m, 3d04h."""
    if seconds is None:
        return NOTHING
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d{whole % 86_400 // 3600:02}h"


def planned_stop(run: Run, now: datetime) -> str:
    """Return when the silent agent of a run will be stopped. Return "" if that is unknown or not planned."""
    if run.planned_stop is None:
        return ""
    at, ending = run.planned_stop
    words = "" if ending == Ending.TIMED_OUT else " unless it works"
    return f"stopped in {duration(max(0.0, (at - now).total_seconds()))}{words}"


def count(number: int | None) -> str:
    """Return a count such as 950, 12.3k, 4.5M."""
    if number is None:
        return NOTHING
    if number < 1000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 999_950 else f"{number / 1_000_000:.1f}M"


def money(dollars: float | None) -> str:
    """Return an amount such as $0.0042 or $12.30."""
    if dollars is None:
        return NOTHING
    return f"${dollars:.2f}" if dollars >= 1 else f"${dollars:.4f}"


def cost(dollars: float | None, basis: str = "") -> str:
    """Return a cost: $0.0042 if reported, ≈$0.0042 if computed by fleet, ≥$0.0042 if partly unknown, or –."""
    if dollars is None:
        return NOTHING
    return {COMPUTED: "≈", UNKNOWN: "≥"}.get(basis.partition(":")[0], "") + money(dollars)


def explained(costs: Iterable[str]) -> str:
    """Return the meaning of the marks before these costs. Return "" if they have none."""
    shown = {text[:1] for text in costs}
    return ", ".join(f"{mark} {words}" for mark, words in MARKS.items() if mark in shown)


def percent(number: float | None, *, estimated: bool = False) -> str:
    """Return a percentage such as 37%, or ≈37%."""
    return NOTHING if number is None else f"{'≈' if estimated else ''}{number:.0f}%"


def instant(moment: datetime | None) -> str:
    """Return the local time, with the date if it is another day."""
    if moment is None:
        return NOTHING
    here = moment.astimezone()
    today = datetime.now().astimezone().date()
    return f"{here:%H:%M:%S}" if here.date() == today else f"{here:%Y-%m-%d %H:%M}"
