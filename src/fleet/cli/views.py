"""`fleet logs`, `attach` and `diff`: show what an agent does and did."""

import os
import select
import sys
import time
from difflib import SequenceMatcher
from shutil import get_terminal_size

import click

from fleet.actions.control.other_hosts import refuse_elsewhere
from fleet.actions.tasks import messages
from fleet.actions.tasks.names import find_task
from fleet.actions.worktrees import views
from fleet.actions.worktrees.views import AgentView
from fleet.assembly import Fleet, open_fleet, terminal_attach
from fleet.cli import person
from fleet.cli.errors import heed_reader
from fleet.cli.messages import arrived
from fleet.cli.options import complete
from fleet.cli.text import clean
from fleet.cli.text import shown as safe
from fleet.core.errors import FleetError, UsageError
from fleet.home import find

#: How many lines `logs` shows by default.
LINES = 50
PAUSE_SECONDS = 0.3
#: The pause for another host, which is queried less often.
FAR_PAUSE_SECONDS = 1.0
#: How long the delivery of a typed line is watched before events continue.
TOLD_SECONDS = 2.0

with_name = click.argument("name", metavar="NAME", shell_complete=complete("names"))


@click.command()
@with_name
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(min=0),
    default=LINES,
    show_default=True,
    metavar="N",
    help="Show the last N lines; 0 shows all.",
)
@click.option("-f", "--follow", is_flag=True, help="Continue printing new output until the agent ends.")
def logs(name: str, lines: int, follow: bool) -> None:
    """Show the last lines of an agent's terminal, or its events if it has no terminal."""
    with open_fleet(find()) as fleet:
        found = views.seen(fleet, find_task(fleet, name, scope=person.scope()))
        shown, told = _lines(fleet, found, lines)
        if told:
            click.echo(clean(told), err=True)
        for line in shown:
            click.echo(clean(line))
        if not shown and found.run is None:
            click.echo(clean(found.task.reason) or f"{found.task.id} has not run yet", err=True)
        if follow:
            _follow(fleet, found, shown)


@click.command()
@with_name
def attach(name: str) -> None:
    """Open an agent's terminal; Ctrl-b d leaves it.

    If the agent has no terminal, show its events and send it the lines that you type.
    """
    with open_fleet(find()) as fleet:
        found = views.seen(fleet, find_task(fleet, name, scope=person.scope()))
        if found.socket is not None:
            refuse_elsewhere(fleet, found.run, "attach")
    if found.run is None or not found.run.is_live:
        raise FleetError(
            f"{name} has no running agent: it is {found.task.status}",
            hint=f"run `fleet logs {name}` to show its last output, or `fleet retry {name}` to start it again",
        )
    if found.socket is None:
        _talk(found)
        return
    if not sys.stdin.isatty():
        raise UsageError("attach needs a terminal", hint=f"run `fleet logs {name}` to show the screen")
    argv = terminal_attach(found.socket, found.run.session_name)
    os.environ.pop("TMUX", None)  # tmux inside tmux is intended here
    os.execvp(argv[0], argv)


@click.command()
@with_name
@click.option("--stat", is_flag=True, help="Show only the number of changed lines per file.")
@click.option("--name-only", "names", is_flag=True, help="Show only the names of changed files.")
def diff(name: str, stat: bool, names: bool) -> None:
    """Show what an agent has changed since its branch began, including uncommitted changes."""
    with open_fleet(find()) as fleet:
        key = find_task(fleet, name, scope=person.scope())
        text = views.difference(fleet, key, stat=stat, names=names)
    if not text:
        click.echo("no changes", err=True)
    elif not sys.stdout.isatty():
        click.echo(safe(text), nl=False)
    elif text.count("\n") < get_terminal_size().lines:
        click.echo(_coloured(text))
    else:
        click.echo_via_pager(_coloured(text))


def _lines(fleet: Fleet, found: AgentView, count: int) -> tuple[list[str], str]:
    """Return the last lines of what can be shown, and a note about them for the reader."""
    lines, told = views.screen_lines(fleet, found, count), ""
    if not lines:  # no terminal, or a terminal that vanished before its screen could be kept
        lines, told = views.events(fleet, found, count)
    if not lines:
        lines = views.setup_log(found).splitlines()
    return lines[-count:] if count else lines, told


def _follow(fleet: Fleet, found: AgentView, shown: list[str]) -> None:
    """Print what is new until the agent has ended. Of a screen, print the lines that were not there before."""
    while True:
        found = views.seen(fleet, found.task.id)
        lines, told = _lines(fleet, found, max(len(shown), 200))
        for line in new_lines(shown, lines):
            click.echo(clean(line))
        shown = lines
        if found.task.is_at_rest and not (found.run and found.run.is_live):
            return
        heed_reader()
        time.sleep(FAR_PAUSE_SECONDS if told else PAUSE_SECONDS)


def new_lines(before: list[str], now: list[str]) -> list[str]:
    """Return the lines of `now` that are new at their place, including lines above a prompt at the bottom."""
    changes = SequenceMatcher(None, before, now, autojunk=False).get_opcodes()
    return [line for kind, _, _, start, end in changes if kind != "equal" for line in now[start:end]]


def _talk(found: AgentView) -> None:
    """Show the events of a headless agent as they come. Send each typed line to it as a message."""
    click.echo(f"{found.task.id} has no terminal: these are its events; lines you type are sent to it", err=True)
    with open_fleet(find()) as fleet:
        shown: list[str] = []
        reading = True
        while True:
            lines, told = _lines(fleet, found, max(len(shown), 200))
            for line in new_lines(shown, lines):
                click.echo(clean(line))
            shown = lines
            heed_reader()
            found = views.seen(fleet, found.task.id)
            if found.run is None or not found.run.is_live:
                return
            sources = [sys.stdin] if reading else []
            if select.select(sources, [], [], FAR_PAUSE_SECONDS if told else PAUSE_SECONDS)[0]:
                reading = _told(fleet, found)


def _told(fleet: Fleet, found: AgentView) -> bool:
    """Send a typed line to the agent. Return False at the end of the input."""
    line = sys.stdin.readline()
    if not line:
        return False
    if line.strip():
        told = messages.prompt(fleet, found.task.id, line, by=person.name(), caller=person.caller(fleet))
        click.echo(clean(arrived(messages.watch(fleet, told, TOLD_SECONDS))), err=True)
    return True


def _coloured(text: str) -> str:
    styles = {"+": "green", "-": "red", "@": "cyan", "d": None}
    lines = []
    for line in safe(text).splitlines():
        heading = line.startswith(("diff ", "index ", "+++", "---", "new file", "deleted", "rename", "similarity"))
        lines.append(click.style(line, bold=True) if heading else click.style(line, fg=styles.get(line[:1])))
    return "\n".join(lines)
