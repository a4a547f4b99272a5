"""`fleet doctor`, `gc`, `backup`, `restore` and `update`: keep a home and its installation in order."""

import os
import shlex
import sys
from pathlib import Path

import click

from fleet import __version__
from fleet.actions.control import backup as backing_up
from fleet.actions.control import restore as restoring
from fleet.actions.control import update as updates
from fleet.actions.control.doctor import OK, WRONG, examine
from fleet.actions.tasks.rights import refuse_agents
from fleet.actions.worktrees import gc as collecting
from fleet.actions.worktrees.gc import CollectedData
from fleet.assembly import open_fleet
from fleet.cli import person
from fleet.cli.confirmation import agreed
from fleet.cli.options import with_dry_run, with_json, with_yes
from fleet.cli.text import clean
from fleet.core.errors import FleetError, UsageError
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


@click.command()
@click.option("--check", is_flag=True, help="Show the commands without running them.")
@with_yes
def update(check: bool, sure: bool) -> None:
    """Update fleet with the installer that installed it: uv, pipx or pip.

    fleet shows the installer's commands, asks, and runs them. If fleet runs from a clone, these commands pull the clone
    and install it again with the same extras. fleet refuses to update if the installed distribution is not
    fleet-agents.
    """
    caller = person.calling(find())
    how = updates.installation()
    argvs = updates.commands(how)
    click.echo(f"fleet {__version__} was installed by {how.by}{f' from {clean(how.clone)}' if how.clone else ''}:")
    for argv in argvs:
        click.echo(f"  {clean(shlex.join(argv))}")
    if check:
        return
    refuse_agents(caller, "update fleet")
    if not sure:
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise FleetError("nothing was updated: there is no terminal to ask on", hint="pass --yes")
        click.confirm("Run this?", abort=True, err=True)
    now = updates.run(argvs)
    if now == __version__:
        again = "was installed again, still as" if how.clone or how.source else "is unchanged:"
        click.echo(f"fleet {again} {__version__}")
        return
    click.echo(f"fleet {__version__} was updated to {clean(now)}")
    click.echo("A running supervisor still uses the old version: run `fleet run restart`.", err=True)


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


NAMED = 5


@click.command()
@click.argument("file")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def backup(file: str, as_json: bool) -> int:
    """Write the database, settings, task folders and unmerged branches to FILE.

    The supervisor may keep running. FILE is a tar.gz that only you can read, and contains the output of agents.
    Uncommitted files in worktrees are not included. Exit code 1 if the work of a repository could not be included.
    """
    done = backing_up.backup(find(), file, tell=_print_report, caller=person.calling(find()))
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
    done = restoring.restore(find(), file, tell=_print_report, caller=person.calling(find()))
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


def _print_report(line: str) -> None:
    click.echo(clean(line), err=True)
