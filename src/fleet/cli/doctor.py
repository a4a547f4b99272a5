"""`fleet doctor`: check everything that could be wrong, and name the remedies."""

import os
from pathlib import Path

import click

from fleet.actions.control.doctor import OK, WRONG, examine
from fleet.cli.bd.text import clean
from fleet.core.jsontext import encode_printable
from fleet.home import find

MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "wrong": ("✗", "red")}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(as_json: bool) -> int:
    """Check for every known problem and suggest fixes. Exit code 1 if there is a problem."""
    checks = examine(find(), cwd=str(Path.cwd()))
    wrong = sum(check.state == WRONG for check in checks)
    if as_json:
        click.echo(encode_printable([check._asdict() for check in checks], 2))
        return 1 if wrong else 0
    for check in checks:
        mark, colour = MARKS[check.state]
        mark = mark if os.environ.get("NO_COLOR") else click.style(mark, fg=colour)  # click ignores NO_COLOR
        click.echo(f"{mark} {check.name}: {clean(check.fact)}")
        if check.state != OK and check.remedy:
            click.echo(f"    {clean(check.remedy)}")
    click.echo(f"{wrong} wrong" if wrong else "nothing is wrong", err=True)
    return 1 if wrong else 0
