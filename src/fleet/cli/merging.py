"""`fleet merge`: merge the work of tasks into a branch."""

import sys
from typing import Any

import click

from fleet.actions.merge import merge as merging
from fleet.actions.merge.choice import Chosen, choose
from fleet.actions.merge.merge import MergeOptions, MergeResult
from fleet.assembly import Fleet, open_fleet
from fleet.cli import person
from fleet.cli.asking import is_sure, see_to_supervisor
from fleet.cli.bd.text import clean
from fleet.cli.options import complete, with_all_projects, with_json, with_yes
from fleet.core.errors import UsageError
from fleet.core.jsontext import encode_printable
from fleet.home import find

#: The maximum numbers shown: lines of a verify command's output, and file names.
MOST_LINES, MOST_FILES = 12, 8


@click.command()
@click.argument("names", metavar="NAME…", nargs=-1, shell_complete=complete("names"))
@click.option(
    "--into",
    default="",
    metavar="BRANCH",
    shell_complete=complete("refs"),
    help="Merge into BRANCH. [default: merge.into, or the branch of the main checkout]",
)
@click.option(
    "--strategy",
    default="",
    type=click.Choice(["", "squash", "merge", "rebase"]),
    metavar="squash|merge|rebase",
    help="Add one commit per task, a merge commit, or the rebased commits of the task. [default: merge.strategy]",
)
@click.option(
    "--conflicts",
    default="",
    type=click.Choice(["", "agent", "person"]),
    metavar="agent|person",
    help="Choose who resolves branches in conflict. [default: merge.conflicts]",
)
@click.option("--dry-run", is_flag=True, help="Report what would be merged and what conflicts; change nothing.")
@click.option("--unverified", is_flag=True, help="Include unverified work that you name; fleet verifies it first.")
@click.option(
    "--wait",
    default=merging.WAIT_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Wait up to SECONDS for another merge to finish.",
)
@with_yes
@with_all_projects
@with_json
def merge(names: tuple[str, ...], sure: bool, all_projects: bool, as_json: bool, **given: Any) -> int:
    """Verify the work of tasks together and merge it. The branches of the tasks stay.

    NAME is a task id, a branch, a batch or a glob. fleet puts every branch that merges cleanly on the target, oldest
    first, and verifies them together. fleet finds the branches that fail and leaves them out. Then the target and its
    checkout move in one step. If that checkout has changes, the target does not move, and the result waits at
    refs/fleet/merged/BRANCH.
    """
    if not names:
        raise UsageError("nothing to merge", hint="run `fleet list --all` to show the agents and their branches")
    terms = MergeOptions(**given)
    with open_fleet(find()) as fleet:
        chosen = choose(fleet, names, person.scope(all_projects=all_projects))
        if not terms.dry_run:
            terms = _asked(fleet, chosen, terms, sure=sure)
        done = merging.merge(
            fleet,
            chosen.ids,
            terms,
            exact=chosen.exact,
            by=person.name(),
            caller=person.caller(fleet),
            tell=lambda line: click.echo(clean(line), err=True),
        )
        if done.handed:
            see_to_supervisor(fleet.home)
    _tell(done, as_json=as_json)
    return 0 if done.is_whole else 1


def _asked(fleet: Fleet, chosen: Chosen, terms: MergeOptions, *, sure: bool) -> MergeOptions:
    """Ask the user at the terminal, and return the terms that follow from the answer.

    Raises UsageError, and Exit if refused.
    """
    several = [key for key in chosen.ids if key not in chosen.exact]
    if several and not sure and not is_sure(fleet, chosen.fitting, "merge", ", ".join(chosen.ids)):
        raise click.exceptions.Exit(1)
    if terms.unverified or not chosen.exact or not sys.stdin.isatty():
        return terms
    found = merging.unproven(fleet, chosen.ids, terms, exact=chosen.exact)
    for item in found.items:
        click.echo(clean(f"{item.task.branch} ({item.task.id}): {item.asks}"), err=True)
    if not found.items:
        return terms
    if found.can_be_proven:
        commands = ", ".join(f"`{command}`" for command in found.commands)
        click.echo(clean(f"fleet verifies it with {commands} before it moves {found.target}"), err=True)
        is_wanted = sure or click.confirm("verify and merge?", default=True, err=True)
        return terms.replace(verify_first=is_wanted)
    if not found.commands:
        click.echo("there is no verify command: nothing would check the merge", err=True)
    return terms.replace(unverified=click.confirm("merge anyway?", err=True))


def _tell(done: MergeResult, *, as_json: bool) -> None:
    if as_json:
        click.echo(encode_printable(done.view(), 2))
        return
    word = "would be merged" if done.dry_run else "merged"
    for each in done.merged:
        click.echo(clean(f"{word}: {each.branch} ({each.task}) as {each.commit[:10]}"))
    for left in done.left_out:
        click.echo(clean(f"left out: {left.branch or '-'} ({left.task}): {left.why}"), err=True)
        _tell_more(left.files, left.tail)
    for note in done.notes:
        click.echo(clean(note), err=True)
    click.echo(clean(_end(done)))
    if done.waiting:
        click.echo(f"commit the changes there, then run:\n  {clean(done.command)}")


def _end(done: MergeResult) -> str:
    if done.waiting:
        return f"{done.target} was not moved: {done.why_not}"
    if not done.merged:
        return f"nothing was merged: {done.target} is at {done.before[:10]}"
    if done.dry_run:
        return f"nothing was changed: {done.target} is at {done.before[:10]}"
    return f"{done.target} moved from {done.before[:10]} to {done.commit[:10]}"


def _tell_more(files: tuple[str, ...], tail: str) -> None:
    more = f" and {len(files) - MOST_FILES} more" if len(files) > MOST_FILES else ""
    if files:
        click.echo(f"  in conflict: {clean(', '.join(files[:MOST_FILES]))}{more}", err=True)
    for line in tail.splitlines()[-MOST_LINES:]:
        click.echo(f"  | {clean(line)}", err=True)
