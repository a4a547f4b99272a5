"""`fleet backup` and `fleet restore`: write a home to one file, and restore it."""

import click

from fleet.actions.control import backup as backing_up
from fleet.actions.control import restore as restoring
from fleet.cli import person
from fleet.cli.bd.text import clean
from fleet.core.jsontext import encode_printable
from fleet.home import find

NAMED = 5


@click.command()
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def backup(file: str, as_json: bool) -> int:
    """Write the database, settings, task folders and unmerged branches to FILE.

    The supervisor may keep running. FILE is a tar.gz that only you can read, and contains the output of agents.
    Uncommitted files in worktrees are not included. Exit code 1 if the work of a repository could not be included.
    """
    done = backing_up.backup(find(), file, tell=_tell, caller=person.calling(find()))
    code = 1 if any(each.get("failed") for each in done.repositories) else 0
    if as_json:
        click.echo(encode_printable(done.view(), 2))
        return code
    click.echo(f"wrote {clean(done.file)}: {done.files} files, {done.size / 1e6:.1f} MB")
    for each in done.repositories:
        if each.get("why_not"):
            click.echo(f"not included: {clean(each['why_not'])}", err=True)
    for name in done.left_out[:NAMED]:
        click.echo(f"not included: {clean(name)} is a link, a socket or a device", err=True)
    if len(done.left_out) > NAMED:
        click.echo(f"not included: {len(done.left_out) - NAMED} more; --json names all", err=True)
    for line in done.to_do:
        click.echo(f"run this too: {clean(line)}")
    return code


@click.command()
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def restore(file: str, as_json: bool) -> None:
    """Restore the backup that `fleet backup` wrote to FILE.

    Stop the supervisor first. fleet keeps the current database and settings next to the restored ones, with the time
    in their names. Existing task folders, worktrees and branches stay unchanged.
    """
    done = restoring.restore(find(), file, tell=_tell, caller=person.calling(find()))
    if as_json:
        click.echo(encode_printable(done.view(), 2))
        return
    click.echo(f"restored the backup of {clean(done.made_at)}: {done.files} files")
    if done.kept_files:
        click.echo(f"kept {done.kept_files} files of task folders that differ from the backup")
    for place in done.beside:
        click.echo(f"kept beside: {clean(place)}")
    for each in done.repositories:
        if each.get("why_not"):
            click.echo(f"not restored: {clean(each['why_not'])}", err=True)
        for ref, place in each.get("beside", {}).items():
            click.echo(f"{clean(each['path'])}: {clean(ref)} differs and is kept; the backup has {clean(place)}")
        for ref in each.get("missing", ()):
            click.echo(f"{clean(each['path'])}: {clean(ref)} is missing: fetch it, then restore again", err=True)
    for line in done.to_do:
        click.echo(f"run this too: {clean(line)}")
    click.echo("next: run `fleet doctor` to check the home, then `fleet run start` to continue the tasks")


def _tell(line: str) -> None:
    click.echo(clean(line), err=True)
