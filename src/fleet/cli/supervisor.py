"""`fleet supervisor` and `fleet log`: control the supervisor in the background, and read its log."""

import sys
from copy import copy
from datetime import datetime

import click

from fleet.actions.control.home_files import follow, newest_log, text_of
from fleet.cli.options import complete, with_json
from fleet.cli.run import restart, start, status, stop
from fleet.cli.task_record import write
from fleet.cli.text import clean
from fleet.cli.views import LINES, logs
from fleet.core.errors import UsageError
from fleet.core.jsontext import decode
from fleet.home import find


@click.command()
@click.argument("name", metavar="[N|NAME]", default="", shell_complete=complete("names"))
@click.option("-n", "--lines", type=click.IntRange(min=1), metavar="N", help="Print only the last N lines.")
@click.option("-f", "--follow", "to_follow", is_flag=True, help="Continue printing new output until you press Ctrl-C.")
@with_json
@click.pass_context
def log(context: click.Context, name: str, lines: int | None, to_follow: bool, as_json: bool) -> None:
    """Print the supervisor's most recent log, or its last N lines.

    With the NAME of a task, print its agent's output, as `fleet logs NAME` does. The log is a file of JSON lines. On a
    terminal, fleet prints them in a readable form unless you pass --json.
    """
    if name and not name.isdecimal():
        context.invoke(logs, name=name, lines=lines or LINES, follow=to_follow)
        return
    if name and not (lines := int(name[:9])) >= 1:
        raise UsageError("a log needs at least one line", hint="pass -n N.")
    home = find()
    home.check()
    place = newest_log(home)
    pieces = follow(place, lambda: False, lines=lines) if to_follow else text_of(place, lines=lines)
    write(pieces if as_json or not sys.stdout.isatty() else map(_readable, pieces))


def _readable(piece: str) -> str:
    """Return whole lines of the log with time and text instead of JSON. Other lines stay unchanged."""
    return "".join(_line(line) for line in piece.splitlines(keepends=True))


def _line(line: str) -> str:
    try:
        entry = decode(line)
        moment = datetime.fromisoformat(entry["ts"]).astimezone()
        level = "" if entry["level"] == "info" else f"{entry['level']}: "
        text = f"{moment:%Y-%m-%d %H:%M:%S}  {level}{clean(str(entry['event']))}"
    except (ValueError, TypeError, KeyError):
        return line
    traceback = str(entry.get("traceback") or "")
    return "\n".join([text, *(f"  {each}" for each in traceback.splitlines())]) + "\n"


@click.group(invoke_without_command=True)
@click.pass_context
def supervisor(context: click.Context) -> int | None:
    """Start, stop and watch the supervisor, which claims tasks and starts agents."""
    return int(context.invoke(status, as_json=False)) if context.invoked_subcommand is None else None


for command in (start, stop, restart, status):
    supervisor.add_command(command)
logs_of_supervisor = copy(log)
logs_of_supervisor.name = "logs"
supervisor.add_command(logs_of_supervisor)
