"""`fleet update`: bring fleet itself up to date."""

import click

from fleet import __version__
from fleet.actions import updates
from fleet.actions.updates import Installation
from fleet.cli import person
from fleet.cli.bd.text import clean
from fleet.core.clock import now
from fleet.home import find


@click.command()
@click.option("--check", is_flag=True, help="Only tell whether there is a newer version.")
@click.option("--force", is_flag=True, help="Ask anew, even if the last answer is less than a day old.")
def update(check: bool, force: bool) -> None:
    """Install the newest version of fleet, with the installer it came with: pipx, pip or uv.

    A checkout of the source is left alone; what to call is printed.
    """
    home, how = find(), updates.installation()
    caller = person.calling(home)
    if not how.has_index:
        _tell_by_hand(how)
        return
    answer = updates.newest(home, how, force=force)
    if answer.newer is None:
        hours = int((now() - answer.asked_at).total_seconds() // 3600)
        ago = f" (asked {hours} h ago; --force asks anew)" if hours else ""
        click.echo(f"fleet {__version__} is the newest version{ago}")
    elif check:
        click.echo(f"fleet {clean(answer.newer)} can be had; this is {__version__}. `fleet update` installs it")
    else:
        click.echo(f"installing fleet {clean(answer.newer)} with {how.by} …", err=True)
        click.echo(f"fleet {__version__} was updated to {clean(updates.install(how, caller=caller))}")
        click.echo("A supervisor that runs stays as it was: end it and start it again with `fleet run`.", err=True)


def _tell_by_hand(how: Installation) -> None:
    what = "a checkout of its source" if how.by == updates.SOURCE else "what was installed from"
    click.echo(f"fleet {__version__} runs from {what} {clean(how.where)}; to bring it up to date:")
    for line in updates.again(how):
        click.echo(f"  {clean(line)}")
