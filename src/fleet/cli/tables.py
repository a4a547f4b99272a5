"""Tables on the terminal. Only commands that draw one import this: rich costs as much as the rest together."""

import os
import sys
from collections.abc import Sequence

import click
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from fleet.cli.bd.text import clean

WIDE = 240  # where nobody looks at a screen, nothing is cut off


def console() -> Console:
    """stdout as rich sees it: colours only on a terminal, and never with NO_COLOR."""
    width = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else WIDE
    return Console(width=width, highlight=False, markup=False, emoji=False)


def show(what: RenderableType) -> None:
    """Print something drawn by rich, the way every other output goes."""
    drawn = console()
    with drawn.capture() as capture:
        drawn.print(what)
    click.echo("\n".join(line.rstrip() for line in capture.get().strip("\n").splitlines()))


def table(*columns: str, right: Sequence[str] = (), wide: Sequence[str] = ()) -> Table:
    """An empty table; where the screen is narrow, the `wide` columns give way first."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name in columns:
        made.add_column(name, justify="right" if name in right else "left", no_wrap=name not in wide)
    return made


def cell(text: str, style: str = "", *, cut: bool = False) -> Text:
    """Somebody else's text in a cell: shown, not obeyed; what does not fit is cut, or goes on in the next line."""
    # A column that wraps gives way; a text in it that does not is cut.
    return Text(clean(text), style=style, no_wrap=cut or None, overflow="ellipsis" if cut else "fold")
