"""`fleet trust`: look at what a repository would have fleet run, and allow it."""

import sys

import click

from fleet.actions import trusting
from fleet.actions.trusting import Standing
from fleet.assembly import open_fleet
from fleet.cli import person
from fleet.cli.bd.text import clean
from fleet.core.errors import WARNINGS
from fleet.core.jsontext import encode_printable
from fleet.home import find


@click.command()
@click.option("--show", is_flag=True, help="Only show what is trusted and what is not.")
@click.option("--yes", is_flag=True, help="Do not ask on a terminal; for scripts and CI.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: with --show as it is, else as it was before.")
def trust(show: bool, yes: bool, as_json: bool) -> None:
    """Allow what this repository would have fleet run: its project's commands, its git hooks and settings.

    A project file comes with a repository, so fleet runs none of its commands before you have said once that they are
    all right; what changes later is asked for again. On a terminal it shows them and asks. `fleet init` trusts what it
    wrote itself.
    """
    with open_fleet(find()) as fleet:
        cwd = person.current_directory()
        found = trusting.standing(fleet, cwd)
        if not show:
            if not yes and _is_new(found) and sys.stdin.isatty() and sys.stderr.isatty():
                click.echo("\n".join(_shown(found)), err=True)
                click.confirm("Trust all of this?", abort=True, err=True)
            trusting.trust(fleet, cwd, found, by=person.name(), caller=person.caller(fleet))
    WARNINGS.pop(found.file, None)  # what it says is shown here
    if as_json:
        click.echo(encode_printable(found.view(), 2))
        return
    for line in _shown(found) if show else _trusted(found):
        click.echo(line)


def _is_new(found: Standing) -> bool:
    return bool(found.changes) or any(not line.is_trusted for line in found.lines)


def _shown(found: Standing) -> list[str]:
    lines = [f"{'trusted    ' if line.is_trusted else 'not trusted'}  {clean(line.text)}" for line in found.lines]
    none = [f"{clean(found.repository.top)} has no project file that would run anything"]
    return [*(lines or none), *_repository(found)]


def _repository(found: Standing) -> list[str]:
    if not found.is_known:
        return ["git's hooks and settings here: not used yet; they are taken as they are at first use"]
    changes = [f"not trusted  {clean(change)}" for change in found.changes]
    return changes or ["git's hooks and settings here: as they were when they were trusted"]


def _trusted(found: Standing) -> list[str]:
    new = [clean(line.text) for line in found.lines if not line.is_trusted] + [*map(clean, found.changes)]
    if not new and found.is_known:
        return [f"{clean(found.repository.top)}: nothing to trust that was not trusted before"]
    return [f"{clean(found.repository.top)} is trusted as it is now", *(f"  {line}" for line in new)]
