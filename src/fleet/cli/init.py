"""`fleet init`: create or repair the home, and make a repository a project."""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator
from shutil import get_terminal_size
from textwrap import fill
from typing import Any

import click

from fleet.actions.control import dialogs, homes, projects
from fleet.actions.control.homes import Made
from fleet.actions.control.projects import UNTRUSTED, Asked, MadeProject
from fleet.actions.proof import recheck
from fleet.assembly import Fleet, open_fleet
from fleet.cli import person
from fleet.cli.text import clean
from fleet.core.errors import UsageError
from fleet.core.task import Caller
from fleet.core.verification import Verification
from fleet.home import Home, find
from fleet.settings.keys import Permissions
from fleet.settings.project_types import TYPES, Check
from fleet.settings.queue import refuse_password

EXPLANATION = """
Coders ask before they run tools, unless told otherwise. Agents work without a
person at the keyboard, so choose:
  user   coders follow their own settings; a denied tool becomes a question
  skip   coders run every command without asking, with your account's rights;
         fleet accepts claude's warning about that for you, and codex trusts
         fleet's worktrees
"""
#: Seconds for the first try of a verify command.
TRY_SECONDS = 120.0
LAST_LINES = 5
WITHOUT_A_SANDBOX = (
    "Without a sandbox around it, an agent that skips permissions can do all that your account can: read your keys and "
    "files, change or delete them, and send them anywhere. fleet accepts claude's warning about that for you, and "
    "codex trusts fleet's worktrees."
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
@click.option("--verify", "command", default="", metavar="CMD", help="Set the verify command of a new project.")
@click.option(
    "--try/--no-try",
    "to_try",
    default=None,
    help="Try the verify command once, which runs the project's code, or not. [default: ask on a terminal]",
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
    permissions: Permissions | None,
    queue: str | None,
    **given: Any,
) -> None:
    """Create or repair the home of fleet. In a git repository, also write the project file.

    A team shares the project file, .fleet/config.toml. The file names the files and commands that prepare a new
    worktree. fleet trusts what it wrote there itself: see `fleet trust`.
    """
    home = find()
    top = None if only_home else projects.project_top(home, person.current_directory())
    if top is None and (kind or migrate_legacy or given["command"] or given["to_try"]):
        hint = (
            "omit --home to create a project"
            if only_home
            else "go into a git repository, or run `git init` to create one"
        )
        raise UsageError("--type, --verify, --try and --migrate-legacy are for a project", hint=hint)
    ask, caller = _ask if sys.stdin.isatty() else None, person.calling(home)
    made = homes.init(
        home, force=force and top is None, permissions=permissions, ask=ask, caller=caller, queue=_queue(queue)
    )
    _tell_home(home, made)
    with open_fleet(home) as fleet:
        if top is not None:
            check = _check(fleet, top, given["command"], given["to_try"], force=force)
            project = projects.init_project(
                fleet, top, by=person.name(), asked=Asked(kind, check, migrate_legacy, force), caller=caller
            )
            _tell(project)
        _offer(fleet, given["trust_worktrees"], caller)
        if top is not None:
            _tell_next(project)


def _queue(said: str | None) -> str | None:
    """Return the queue that `--queue` names: a word, or a connection string. Raises UsageError for a password.

    Other users can read the command line in the list of processes. For `postgresql`, the connection string with its
    password comes from FLEET_QUEUE, a prompt or stdin.
    """
    if said is None or "://" not in said:
        return _connection_string() if said in ("postgresql", "postgres") else said
    refuse_password(said, hint="pass `--queue postgresql` and enter it when asked, or set FLEET_QUEUE for this command")
    return said


def _connection_string() -> str:
    found = os.environ.get("FLEET_QUEUE", "")
    if not found and sys.stdin.isatty():
        found = str(click.prompt("postgresql://user:password@host/database", hide_input=True, err=True))
    return (found or sys.stdin.readline()).strip() or "postgresql"


def _tell_home(home: Home, made: Made) -> None:
    _say(f"Fleet home initialized at {home.root}")
    for line in made.changes or ["nothing to change"]:
        _say(line, indent="  ")
    if made.permissions is None:
        click.echo(EXPLANATION)
        _say("Nothing is recorded, which counts as user. `fleet init --permissions skip|user` records it.")
    elif made.permissions == "skip":
        _say(WITHOUT_A_SANDBOX, err=True)


def _tell(made: MadeProject) -> None:
    top = clean(made.top)
    _say(f"Project initialized at {top}" if made.changes else f"Project at {top} is unchanged")
    lines = [*made.changes, *(f"note: {note}" for note in made.notes)]
    for line in lines or ["nothing to change"]:
        _say(clean(line), indent="  ")


def _tell_next(made: MadeProject) -> None:
    if any(note.startswith(UNTRUSTED) for note in made.notes):
        click.echo("Next: run `fleet trust` to review and trust these commands.")
    else:
        _say('Next: `fleet config` shows the settings; `fleet create BRANCH --prompt "…"` starts an agent.')


def _offer(fleet: Fleet, said: bool | None, caller: Caller | None) -> None:
    """Ask once, for each coder that would otherwise ask in every new worktree."""
    if said is None and not sys.stdin.isatty():
        return
    for name in dialogs.unanswered(fleet, env=os.environ):
        if said is None:
            _say(f"{name} asks in every new directory whether to trust it.", err=True)
        yes = _confirm(f"Tell it to trust {fleet.home.worktrees}?") if said is None else said
        dialogs.answer(fleet, name, yes, env=os.environ, by=person.name(), caller=caller)
        click.echo(f"{name} {'trusts' if yes else 'was not told to trust'} {fleet.home.worktrees}")


def _check(fleet: Fleet, top: str, command: str, to_try: bool | None, *, force: bool) -> Check | None:
    """Return the verify command for a new project: as given, or as found, tried and wanted.

    Without a terminal, nothing is asked, and nothing is tried unless an option says so.
    """
    asks = sys.stdin.isatty() and to_try is not False
    check = Check(command, projects.use_of(top)) if command else projects.proposed_check(fleet.home, top, force=force)
    if check is None or (not command and not asks and not to_try):
        return None
    if to_try is None and asks:
        _say(f"Found a verify command for this project: `{clean(check.command)}`", err=True)
        _say(f"A try runs the project's code in a clean checkout, for at most {TRY_SECONDS:g} s.", err=True)
        to_try = _confirm("Try it now?")
    if not to_try:
        return (
            check if command or (asks and _confirm(f"Use `{clean(check.command)}` untested?", default=False)) else None
        )
    with _progress(f"trying `{clean(check.command)}`"):
        seen = recheck.try_command(fleet, top, check.command, check.use, seconds=TRY_SECONDS)
    if seen is None:
        _say("nothing to try: the repository has no commit yet", err=True)
        return check if command else None
    _tell_try(seen)
    if command or not asks:
        return check if command or seen.ok else None
    return check if _confirm("Use it as the verify command?", default=seen.ok) else None


def _tell_try(seen: Verification) -> None:
    count = f"; {seen.passed} passed" if seen.passed else ""
    _say(f"`{clean(seen.command)}` {clean(seen.in_words)} after {seen.seconds:.1f} s{count}", err=True)
    for line in [] if seen.ok else seen.tail.splitlines()[-LAST_LINES:]:
        click.echo(f"  | {clean(line)}", err=True)
    if seen.lacks:
        _say("`verify.use` and `verify.setup` give a command what it needs: `fleet help settings`", err=True)


@contextlib.contextmanager
def _progress(text: str) -> Iterator[None]:
    """Show a text with the seconds so far, on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    ended, began = threading.Event(), time.monotonic()

    def tick() -> None:
        while not ended.wait(1):
            click.echo(f"\r\x1b[K{text}: {time.monotonic() - began:.0f} s", nl=False, err=True)

    thread = threading.Thread(target=tick, daemon=True)
    click.echo(text, nl=False, err=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        click.echo("\r\x1b[K", nl=False, err=True)


def _say(text: str, *, indent: str = "", err: bool = False) -> None:
    """Print a text, on a terminal without breaking inside words."""
    stream = sys.stderr if err else sys.stdout
    if stream.isatty():
        width = max(20, get_terminal_size().columns)
        more = f"{indent}  " if indent else ""
        text = fill(
            text, width, initial_indent=indent, subsequent_indent=more, break_long_words=False, break_on_hyphens=False
        )
        indent = ""
    click.echo(f"{indent}{text}", err=err)


def _confirm(question: str, *, default: bool = True) -> bool:
    return click.confirm(question, default=default, err=True)


def _ask() -> Permissions:
    click.echo(EXPLANATION, err=True)
    return "skip" if click.prompt("Permissions", type=CHOICE, default="user", err=True) == "skip" else "user"
