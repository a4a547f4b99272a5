"""`fleet gc`: remove raw output of old runs, unneeded worktrees, and old saved work."""

import sys

import click

from fleet.actions.worktrees import gc as collecting
from fleet.actions.worktrees.gc import CollectedData
from fleet.assembly import open_fleet
from fleet.cli import person
from fleet.cli.asking import agreed
from fleet.cli.bd.text import clean
from fleet.cli.options import with_dry_run, with_json, with_yes
from fleet.core.errors import UsageError
from fleet.core.jsontext import encode_printable
from fleet.home import find


@click.command()
@click.option("--finished", is_flag=True, help="Include worktrees of finished tasks that are not merged.")
@with_yes
@with_dry_run
@with_json
def gc(finished: bool, sure: bool, dry_run: bool, as_json: bool) -> int:
    """Remove old data that fleet keeps for a limited time. fleet lists everything and asks first.

    fleet removes raw output of runs that ended more than supervisor.raw_days ago. It removes worktrees of finished
    tasks whose work is merged, after saving work that exists only there. It also removes saved work, and kept tips of
    deleted branches, after saving.days, and remains of worktrees and checkouts that killed processes left. Branches
    stay.
    """
    with open_fleet(find()) as fleet:
        caller = person.caller(fleet)
        found = collecting.gc(fleet, dry_run=True, finished=finished, caller=caller)
        if not dry_run:
            if found.removes and not sure and not _is_sure(found, as_json=as_json):
                return 1
            found = collecting.gc(fleet, finished=finished, caller=caller)
    if as_json:
        click.echo(encode_printable(found.view(), 2))
    else:
        _tell(found, "would remove" if dry_run else "removed")
    if found.removed.failed:
        told = "could not be removed: a link or folder stands there, or it is not yours to change"
        click.echo(f"{found.removed.failed} {told}; see {find().tasks}", err=True)
    return 1 if found.removed.failed else 0


def _is_sure(found: CollectedData, *, as_json: bool) -> bool:
    """Show what would be removed, and ask. Raises Usage without a terminal."""
    if as_json or not sys.stdin.isatty():
        raise UsageError(
            "nothing was removed: cannot ask without a terminal", hint="pass --yes, or --dry-run to see the list."
        )
    _tell(found, "would remove", err=True)
    return agreed("Remove all of this?", "nothing was removed")


def _tell(found: CollectedData, word: str, *, err: bool = False) -> None:
    removed = found.removed
    if removed.files:
        runs = f"{removed.runs} run{'s' * (removed.runs != 1)}"
        click.echo(f"{word} the raw output of {runs}: {removed.files} files, {_size(removed.bytes)}", err=err)
    else:
        click.echo(f"no raw output to remove: fleet keeps it for {found.raw_days} days", err=err)
    for each in found.old:
        name = clean(each.name)
        if not each.goes:
            click.echo(
                f"kept {each.what} {name}: {clean(each.why)}; `fleet kill {name}` or --finished removes it", err=err
            )
        elif found.dry_run or each.removed:
            click.echo(f"{word} {each.what} {name}: {clean(each.why)}", err=err)
        else:
            click.echo(f"not removed: {each.what} {name}: {clean(each.why)}", err=True)
        for command in each.commands:
            click.echo(f"  saved: {clean(command)}", err=err)


def _size(count: int) -> str:
    """Return a size such as 512 bytes or 12.3 MB."""
    for unit, least in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= least:
            return f"{count / least:.1f} {unit}"
    return f"{count} bytes"
