"""`fleet pr`: push a branch, and open it for review with its receipt as the text."""

import click

from fleet.actions.merge.requests import PullRequest, PullRequestOutcome, RequestOptions
from fleet.actions.merge.requests import request as make_request
from fleet.assembly import open_fleet
from fleet.cli import person
from fleet.cli.bd.text import clean, shown
from fleet.cli.options import Option, complete, with_json
from fleet.core.jsontext import encode_printable
from fleet.home import find


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
