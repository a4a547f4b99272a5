"""`fleet init`: create or repair the home, and make a repository a project."""

import os
import sys

import click

from fleet.actions.control import dialogs, homes, projects
from fleet.actions.control.homes import Made
from fleet.actions.control.projects import MadeProject
from fleet.assembly import Fleet, open_fleet
from fleet.cli import person
from fleet.cli.bd.text import clean
from fleet.core.errors import UsageError
from fleet.core.task import Caller
from fleet.home import Home, find
from fleet.settings.keys import Permissions
from fleet.settings.project_types import TYPES
from fleet.settings.queue import refuse_password

EXPLANATION = """
A coder asks before it runs a tool, unless it is told not to. Agents work with nobody
at the keyboard, so fleet needs to know what you want:
  user   coders ask as their own settings say; what is denied becomes a question to you
  skip   coders run every command without asking, with all the rights of your account
"""
WITHOUT_A_SANDBOX = (
    "Without a sandbox around it, an agent that skips permissions can do all that your account can: read your keys and "
    "files, change or delete them, and send them anywhere."
)
CHOICE = click.Choice(["skip", "user"])


@click.command()
@click.option("--type", "kind", type=click.Choice(list(TYPES)), help="Set the project type. [default: detected]")
@click.option("--migrate-legacy", is_flag=True, help="Import the settings in ai-fleet's ~/.ai_fleet/config.toml.")
@click.option("--home", "only_home", is_flag=True, help="Create or repair only the home, not the project.")
@click.option(
    "--force",
    is_flag=True,
    help="Replace the project file, or runtime.toml with --home. fleet keeps a copy of the old file.",
)
@click.option(
    "--trust-worktrees/--no-trust-worktrees",
    default=None,
    help="Make your coders trust the folder of fleet's worktrees, or not. [default: ask once on a terminal]",
)
@click.option("--permissions", type=CHOICE, help="Set whether coders may run tools without asking.")
@click.option(
    "--queue",
    metavar="[sqlite|postgresql|beads]",
    help="Store tasks here from now on. For postgresql, set the connection string in FLEET_QUEUE or enter it.",
)
def init(
    kind: str | None,
    migrate_legacy: bool,
    only_home: bool,
    force: bool,
    trust_worktrees: bool | None,
    permissions: Permissions | None,
    queue: str | None,
) -> None:
    """Create or repair the home of fleet. In a git repository, also write the project file.

    A team shares the project file, .fleet/config.toml. The file names the files and commands that prepare a new
    worktree. fleet trusts what it wrote there itself: see `fleet trust`.
    """
    home = find()
    top = None if only_home else projects.project_top(home, person.current_directory())
    if top is None and (kind or migrate_legacy):
        hint = "--home makes no project." if only_home else "go into a git repository; `git init` makes one."
        raise UsageError("--type and --migrate-legacy are for a project", hint=hint)
    ask, caller = _ask if sys.stdin.isatty() else None, person.calling(home)
    made = homes.init(
        home, force=force and top is None, permissions=permissions, ask=ask, caller=caller, queue=_queue(queue)
    )
    _tell_home(home, made)
    with open_fleet(home) as fleet:
        if top is not None:
            project = projects.init_project(
                fleet, top, by=person.name(), kind=kind, migrate=migrate_legacy, force=force, caller=caller
            )
            _tell(project)
        _offer(fleet, trust_worktrees, caller)


def _queue(said: str | None) -> str | None:
    """Return the queue that `--queue` names: a word, or a connection string. Raises UsageError for a password.

    Other users can read the command line in the list of processes. For `postgresql`, the connection string with its
    password comes from FLEET_QUEUE, a prompt or stdin.
    """
    if said is None or "://" not in said:
        return _connection_string() if said in ("postgresql", "postgres") else said
    refuse_password(said, hint="`--queue postgresql` asks for it; or set FLEET_QUEUE to it for this one command.")
    return said


def _connection_string() -> str:
    found = os.environ.get("FLEET_QUEUE", "")
    if not found and sys.stdin.isatty():
        found = str(click.prompt("postgresql://user:password@host/database", hide_input=True, err=True))
    return (found or sys.stdin.readline()).strip() or "postgresql"


def _tell_home(home: Home, made: Made) -> None:
    click.echo(f"Fleet home initialized at {home.root}")
    for line in made.changes or ["nothing to change"]:
        click.echo(f"  {line}")
    if made.permissions is None:
        click.echo(EXPLANATION)
        click.echo("Nothing is recorded, which counts as user. `fleet init --permissions skip|user` records it.")
    elif made.permissions == "skip":
        click.echo(WITHOUT_A_SANDBOX, err=True)


def _tell(made: MadeProject) -> None:
    top = clean(made.top)
    click.echo(f"Project initialized at {top}" if made.changes else f"Project at {top} stays as it is")
    lines = [*made.changes, *(f"note: {note}" for note in made.notes)]
    for line in lines or ["nothing to change"]:
        click.echo(f"  {clean(line)}")
    if any(note.startswith("not trusted") for note in made.notes):
        click.echo("Next: look at what is not trusted; `fleet trust` allows it.")
    else:
        click.echo('Next: `fleet config` shows the settings; `fleet create BRANCH --prompt "…"` starts an agent.')


def _offer(fleet: Fleet, said: bool | None, caller: Caller | None) -> None:
    """Ask once, for each coder that would otherwise ask in every new worktree."""
    if said is None and not sys.stdin.isatty():
        return
    for name in dialogs.unanswered(fleet, env=os.environ):
        question = f"{name} asks in every new directory whether to trust it. Tell it to trust {fleet.home.worktrees}?"
        yes = click.confirm(question, default=True, err=True) if said is None else said
        dialogs.answer(fleet, name, yes, env=os.environ, by=person.name(), caller=caller)
        click.echo(f"{name} {'trusts' if yes else 'was not told to trust'} {fleet.home.worktrees}")


def _ask() -> Permissions:
    click.echo(EXPLANATION, err=True)
    return "skip" if click.prompt("Permissions", type=CHOICE, default="user", err=True) == "skip" else "user"
