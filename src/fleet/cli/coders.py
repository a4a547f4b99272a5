"""`fleet coders`: a table of the coders, and what would keep them from working."""

import os
import sys
from collections.abc import Sequence

import click

from fleet.actions.control import coders as standing
from fleet.actions.control.coders import CoderStatus
from fleet.assembly import open_fleet
from fleet.cli.tables import NOTHING, StyledText, count, show
from fleet.cli.text import clean
from fleet.coders.base import ANYWHERE, NEXT_RUN, RESUME, SAME_CWD, STDIN
from fleet.core.jsontext import encode_printable
from fleet.home import find

COLUMNS = ("Coder", "Version", "Login", "Permissions", "Goes on", "Messages", "Tells", "First request", "Program")
#: Columns that a narrow screen omits, the least important first.
DROP = ("Tells", "First request", "Goes on", "Program", "Messages", "Permissions")
GOES_ON = {SAME_CWD: "same directory", ANYWHERE: "anywhere", "": "no"}
MESSAGES = {STDIN: "while it works", RESUME: "interrupt it", NEXT_RUN: "next run"}


@click.command()
@click.option("--wide", is_flag=True, help="Show all columns, even on a narrow screen.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def coders(wide: bool, as_json: bool) -> None:
    """Show the coders: installation, version, login and abilities.

    "First request" is the number of tokens that the coder's last run began with. The coder itself, its plugins and its
    skills load these tokens before the prompt.
    """
    with open_fleet(find()) as fleet:
        found = standing.coders(fleet, env=os.environ, tell=_progress)
    if as_json:
        click.echo(encode_printable([each.view() for each in found], 2))
        return
    _list(found, () if wide else DROP)
    for each in found:
        for warning in each.warnings:
            click.echo(f"{clean(each.name)}: {clean(warning)}", err=True)


def _list(found: list[CoderStatus], drop: Sequence[str]) -> None:
    rows = []
    for each in found:
        name = f"{each.name} (default)" if each.is_default else each.name
        coder = each.coder
        rows.append(
            (
                StyledText(name, bold=True) if each.is_default else StyledText(name, "cyan"),
                StyledText(_version(each), dim=not each.is_installed),
                StyledText(_login(each), "yellow" if any(login.is_missing for login in each.logins) else None),
                each.permissions,
                GOES_ON.get(coder.resumes, coder.resumes) if coder else NOTHING,
                MESSAGES.get(coder.steering, coder.steering) if coder else NOTHING,
                _tells(each),
                count(each.first_request) if each.first_request is not None else "unknown",
                each.path or (NOTHING if each.program or not coder else "comes along"),
            )
        )
    show(COLUMNS, rows, right=["First request"], fold=("Login", "Program"), drop=drop)


def _version(row: CoderStatus) -> str:
    if not row.is_installed:
        return "not installed"
    return row.version or ("unknown" if row.program else NOTHING)


def _login(row: CoderStatus) -> str:
    if not row.is_installed:
        return NOTHING
    shown = [
        f"{login.account}: " * bool(login.account) + (_short(login.seen) or ("no" if login.signs else "not needed"))
        for login in row.logins
    ]
    return ", ".join(shown)


def _short(sign: str) -> str:
    home = os.environ.get("HOME", "").rstrip("/")
    return f"~{sign.removeprefix(home)}" if home and sign.startswith(f"{home}/") else sign


def _tells(row: CoderStatus) -> str:
    coder = row.coder
    if coder is None:
        return NOTHING
    told = (("tokens", coder.tells_tokens), ("cost", coder.tells_cost), ("context", coder.tells_context))
    return ", ".join(word for word, is_told in told if is_told) or "nothing"


def _progress(done: int, total: int) -> None:
    """Update a progress line on a terminal. Erase it after all programs have answered."""
    if sys.stderr.isatty():
        line = f"asked {done} of {total} programs for their version" if done < total else ""
        click.echo(f"\r\x1b[K{line}", nl=False, err=True)
