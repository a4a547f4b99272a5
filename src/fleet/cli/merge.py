"""`fleet merge`, `conflicts` and `pr`: bring the work of tasks into a branch."""

import sys
from typing import Any

import click

from fleet.actions.merge import merge as merging
from fleet.actions.merge.choice import Chosen, choose
from fleet.actions.merge.merge import MergeOptions, MergeResult
from fleet.actions.merge.requests import PullRequest, PullRequestOutcome, RequestOptions
from fleet.actions.merge.requests import request as make_request
from fleet.actions.worktrees.conflicts import CollidingBranch, Conflict, conflicts
from fleet.assembly import Fleet, open_fleet
from fleet.cli import person
from fleet.cli.confirmation import is_sure, see_to_supervisor
from fleet.cli.options import Option, complete, with_all_projects, with_json, with_yes
from fleet.cli.tables import instant
from fleet.cli.text import clean, shown
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


@click.command("conflicts")
@with_all_projects
@with_json
def show_conflicts(all_projects: bool, as_json: bool) -> None:
    """Show branches that git could not merge with each other as they are now, and in which files they conflict.

    Only commits count: fleet does not compare uncommitted changes. The earlier branch comes first. `fleet list` marks
    the affected agents. With merge.tell, fleet notifies the later agent.
    """
    with open_fleet(find()) as fleet:
        found = conflicts(fleet, person.scope(all_projects=all_projects))
    for sentence in found.unsure:
        click.echo(f"fleet: {clean(sentence)}", err=True)
    if as_json:
        click.echo(encode_printable([each.view() for each in found.conflicts], 2))
    elif not found.conflicts:
        click.echo("no branches collide", err=True)
    else:
        click.echo("\n\n".join("\n".join(_lines(each)) for each in found.conflicts))


def _lines(found: Conflict) -> list[str]:
    head = f"{_named(found.first)} and {_named(found.second)} collide, seen since {instant(found.collision.seen_at)}"
    told = ["  the later agent was informed"] if found.collision.told_at else []
    return [head, *told, *(f"  {clean(path)}" for path in found.collision.files)]


def _named(side: CollidingBranch) -> str:
    state = side.task.status if side.task else "deleted"
    return f"{clean(side.workspace.branch)} ({side.workspace.task_id}, {state})"


@click.command("pr")
@click.argument("name", metavar="NAME", shell_complete=complete("names"))
@click.option("--draft", is_flag=True, help="Open the pull request as a draft, even while the agent is working.")
@click.option(
    *("--into", "base"),
    cls=Option,
    former=["--base"],
    default="",
    metavar="BRANCH",
    shell_complete=complete("refs"),
    help="Merge into BRANCH. [default: merge.into, or the branch that the work started from]",
)
@click.option("--remote", default="", metavar="NAME", help="Push to remote NAME. [default: origin, or the only remote]")
@click.option("--output", is_flag=True, help="Quote the end of the verify command's output.")
@click.option("--dry-run", is_flag=True, help="Show the text of the pull request; push and open nothing.")
@with_json
def request(name: str, draft: bool, base: str, remote: str, output: bool, dry_run: bool, as_json: bool) -> None:
    """Push the branch of a task and open a pull request with its receipt as the text.

    NAME is a task or a branch. If a pull request is already open, fleet adds each newer receipt once, as a comment.
    This needs `gh`. Without `gh`, fleet pushes the branch and prints the command to run. fleet runs no hooks and
    overwrites no commits on the remote.
    """
    wish = RequestOptions(base=base, remote=remote, draft=draft, dry_run=dry_run, output=output)
    with open_fleet(find()) as fleet:
        made = make_request(
            fleet, name, wish, by=person.name(), caller=person.caller(fleet), scope=person.scope(all_projects=False)
        )
    if as_json:
        click.echo(encode_printable(made.view(), 2))
        return
    for line in made.said:
        click.echo(f"{clean(made.request.remote)}: {clean(line)}", err=True)
    click.echo(_sentence(made))
    if made.did == PullRequestOutcome.PREPARED:
        click.echo(clean(made.command))
    elif made.did == PullRequestOutcome.WOULD:
        click.echo(f"\n{clean(made.request.title)}\n\n{shown(made.request.text)}", nl=False)


def _sentence(made: PullRequest) -> str:
    asked = made.request
    where = clean(f"{asked.remote}/{asked.branch}")
    pushed = f"pushed {asked.commit[:12]} to {where} ({asked.finding or 'no finding'})"
    match made.did:
        case PullRequestOutcome.OPENED:
            return f"{pushed} and opened {clean(made.url) or 'a pull request'}"
        case PullRequestOutcome.COMMENTED:
            return f"{pushed} and commented on {clean(made.url)}"
        case PullRequestOutcome.UNCHANGED:
            return f"{pushed}; {clean(made.url)} is already up to date"
        case PullRequestOutcome.PREPARED:
            return f"{pushed}; gh is not installed: open the request yourself, or run this on a machine with gh:"
        case _:
            into = f" into {clean(asked.base)}" if asked.base else ""
            return f"would push {asked.commit[:12]} to {where}, and open this{into} or say it in a comment:"
