"""`fleet pr`: push a branch, and open it for review with its receipt as the text."""

import click

from fleet.actions.requests import Did, Requested, Wish
from fleet.actions.requests import request as make_request
from fleet.assembly import open_fleet
from fleet.cli import person
from fleet.cli.bd.text import clean, shown
from fleet.cli.completion import complete_names
from fleet.core.jsontext import encode_printable
from fleet.home import find


@click.command("pr")
@click.argument("name", metavar="NAME", shell_complete=complete_names)
@click.option("--draft", is_flag=True, help="Open it as a draft; also while its agent is at work.")
@click.option("--base", default="", metavar="BRANCH", help="The branch it is to be merged into.")
@click.option("--remote", default="", metavar="NAME", help="Where to push; else origin, or the only one there is.")
@click.option("--output", is_flag=True, help="Quote the end of what the verify command printed.")
@click.option("--dry-run", is_flag=True, help="Push and open nothing; show what would be said.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def request(name: str, draft: bool, base: str, remote: str, output: bool, dry_run: bool, as_json: bool) -> None:
    """Push the branch of a task and open a pull request, with its receipt as the text.

    NAME is a task or a branch. Where a request is open already, a newer receipt becomes a comment, each once. This
    needs `gh`; without it the branch is pushed and the command to run is printed. No hook is run, and no commit of the
    remote is overwritten.
    """
    wish = Wish(base=base, remote=remote, draft=draft, dry_run=dry_run, output=output)
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
    if made.did == Did.PREPARED:
        click.echo(clean(made.command))
    elif made.did == Did.WOULD:
        click.echo(f"\n{clean(made.request.title)}\n\n{shown(made.request.text)}", nl=False)


def _sentence(made: Requested) -> str:
    asked = made.request
    where = clean(f"{asked.remote}/{asked.branch}")
    pushed = f"pushed {asked.commit[:12]} to {where} ({asked.finding or 'no finding'})"
    match made.did:
        case Did.OPENED:
            return f"{pushed} and opened {clean(made.url) or 'a pull request'}"
        case Did.COMMENTED:
            return f"{pushed} and commented on {clean(made.url)}"
        case Did.UNCHANGED:
            return f"{pushed}; {clean(made.url)} says all of it already"
        case Did.PREPARED:
            return f"{pushed}; gh is not installed, so open the request yourself, or run this where it is:"
        case _:
            into = f" into {clean(asked.base)}" if asked.base else ""
            return f"would push {asked.commit[:12]} to {where}, and open this{into} or say it in a comment:"
