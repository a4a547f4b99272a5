"""`fleet gc`: remove raw output of old runs, unneeded worktrees, and old saved work."""

import click

from fleet.actions.worktrees import gc as collecting
from fleet.actions.worktrees.gc import Old
from fleet.assembly import open_fleet
from fleet.cli import person
from fleet.cli.bd.text import clean
from fleet.core.jsontext import encode_printable
from fleet.home import find


@click.command()
@click.option("--dry-run", is_flag=True, help="Report what would be removed; change nothing.")
@click.option("--finished", is_flag=True, help="Include worktrees of finished tasks that are not merged.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def gc(dry_run: bool, finished: bool, as_json: bool) -> int:
    """Remove old data that fleet keeps for a limited time.

    fleet removes raw output of runs that ended more than supervisor.raw_days ago. It removes worktrees of finished
    tasks whose work is merged, after saving work that exists only there. It also removes saved work, and kept tips of
    deleted branches, after saving.days.
    """
    with open_fleet(find()) as fleet:
        done = collecting.gc(fleet, dry_run=dry_run, finished=finished, caller=person.caller(fleet))
    removed = done.removed
    if as_json:
        click.echo(encode_printable(done.view(), 2))
    elif removed.files:
        word = "would remove" if dry_run else "removed"
        click.echo(f"{word} the raw output of {removed.runs} runs: {removed.files} files, {_size(removed.bytes)}")
    else:
        click.echo(f"nothing to remove: raw output is kept for {done.raw_days} days")
    if not as_json:
        _tell(done.old, dry_run=dry_run)
    if removed.failed:
        told = "could not be removed: a link or folder stands there, or it is not yours to change"
        click.echo(f"{removed.failed} {told}; see {find().tasks}", err=True)
    return 1 if removed.failed else 0


def _tell(old: list[Old], *, dry_run: bool) -> None:
    for each in old:
        name = clean(each.name)
        if not each.goes:
            click.echo(f"kept {each.what} {name}: {clean(each.why)}; `fleet kill {name}` or --finished removes it")
        elif dry_run or each.removed:
            click.echo(f"{'would remove' if dry_run else 'removed'} {each.what} {name}: {clean(each.why)}")
        else:
            click.echo(f"not removed: {each.what} {name}: {clean(each.why)}", err=True)
        for command in each.commands:
            click.echo(f"  saved: {clean(command)}")


def _size(count: int) -> str:
    """Return a size such as 512 bytes or 12.3 MB."""
    for unit, least in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= least:
            return f"{count / least:.1f} {unit}"
    return f"{count} bytes"
