"""`fleet gc`: removes the raw output of runs that ended long ago."""

import click

from fleet.actions import gc as collecting
from fleet.assembly import open_fleet
from fleet.cli import person
from fleet.core.jsontext import encode
from fleet.home import find


@click.command()
@click.option("--dry-run", is_flag=True, help="Say what would go, remove nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def gc(dry_run: bool, as_json: bool) -> int:
    """Remove the raw output of runs that ended more than supervisor.raw_days ago; everything else stays."""
    with open_fleet(find()) as fleet:
        done = collecting.gc(fleet, dry_run=dry_run, caller=person.caller(fleet))
    removed = done.removed
    if as_json:
        click.echo(encode(done.view(), 2))
    elif removed.files:
        word = "would remove" if dry_run else "removed"
        click.echo(f"{word} the raw output of {removed.runs} runs: {removed.files} files, {_size(removed.bytes)}")
    else:
        click.echo(f"nothing to remove: raw output is kept for {done.raw_days} days")
    if removed.failed:
        told = "could not be removed: a link or folder stands there, or it is not yours to change"
        click.echo(f"{removed.failed} {told}; see {find().tasks}", err=True)
    return 1 if removed.failed else 0


def _size(count: int) -> str:
    """Like 512 bytes, 12.3 MB."""
    for unit, least in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= least:
            return f"{count / least:.1f} {unit}"
    return f"{count} bytes"
