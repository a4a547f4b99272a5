"""`fleet config`: show, change and check settings."""

import json
import os
import shlex
import subprocess
import sys
from datetime import datetime
from typing import Any

import click

from fleet.actions.control import settings
from fleet.actions.control.settings import Report, SettingRow
from fleet.cli import person
from fleet.cli.errors import tell
from fleet.cli.options import complete, with_json
from fleet.core.errors import FleetError
from fleet.core.jsontext import escape_unprintable
from fleet.home import find, find_project
from fleet.settings.queue import refuse_password
from fleet.settings.text import toml_value

with_origin = click.option("--show-origin", is_flag=True, help="Show where each value comes from.")


@click.group(invoke_without_command=True)
@with_origin
@with_json
@click.option("-e", "--edit", "to_edit", is_flag=True, help="Run `fleet config edit`.")
@click.option("-v", "--validate", "to_validate", is_flag=True, help="Run `fleet config validate`.")
@click.pass_context
def config(ctx: click.Context, show_origin: bool, as_json: bool, to_edit: bool, to_validate: bool) -> None:
    """Show the settings in effect here. With a subcommand, change or check settings."""
    if ctx.invoked_subcommand:
        return
    if to_edit:
        ctx.exit(ctx.invoke(edit, project=False))
    if to_validate:
        ctx.exit(ctx.invoke(validate))
    ctx.invoke(show, raw=False, show_origin=show_origin, as_json=as_json)


@config.command()
@click.option("--raw", is_flag=True, help="Print runtime.toml unchanged, byte for byte.")
@with_origin
@with_json
def show(raw: bool, show_origin: bool, as_json: bool) -> None:
    """Show the settings in effect here."""
    home = find()
    if raw:
        sys.stdout.buffer.write(settings.raw(home))
        return
    held = settings.effective(home, cwd=person.current_directory(), env=os.environ)
    rows = settings.rows(held, in_project=find_project(person.current_directory(), home) is not None)
    if as_json:
        click.echo(escape_unprintable(json.dumps({row.key: _view(row) for row in rows}, indent=2, ensure_ascii=False)))
        return
    cells = [(row.key, _text(row.value), str(row.origin)) for row in rows]
    key_width, value_width = (max(len(cell[column]) for cell in cells) for column in (0, 1))
    for key, value, origin in cells:
        tail = f"  {value:<{min(value_width, 60)}}  {origin}" if show_origin else f"  {value}"
        click.echo(f"{key:<{key_width}}{tail}")


@config.command("get")
@click.argument("key", shell_complete=complete("settings"))
@with_origin
@with_json
def get_one(key: str, show_origin: bool, as_json: bool) -> None:
    """Print the value of one setting."""
    row = settings.one(settings.effective(find(), cwd=person.current_directory(), env=os.environ), key)
    if as_json:
        click.echo(escape_unprintable(json.dumps(_view(row), ensure_ascii=False)))
        return
    if row.value is None:
        raise FleetError(f"{row.key} is not set", hint=f"run `fleet config set {row.key}=…` to set it")
    click.echo(f"{_text(row.value)}  {row.origin}" if show_origin else _text(row.value))


@config.command("set")
@click.argument("assignments", metavar="KEY=VALUE…", nargs=-1, required=True, shell_complete=complete("settings"))
@click.option("--project", is_flag=True, help="Change the project file instead of runtime.toml.")
def set_values(assignments: tuple[str, ...], project: bool) -> None:
    """Change settings. If one of them is invalid, change none."""
    home = find()
    for name, _, value in (each.partition("=") for each in assignments):
        if name.strip() == "queue":
            refuse_password(value, hint="run `fleet init --queue postgresql` to enter and record it")
    done = settings.change(
        home, assignments, cwd=person.current_directory(), project=project, caller=person.calling(home)
    )
    if done.made_home:
        click.echo(f"Fleet home initialized at {home.root}", err=True)
    click.echo(f"Updated {done.place.path}")
    for key in done.to_trust:
        click.echo(f"{key} has no effect until you trust it: run `fleet trust` here", err=True)


@config.command()
@click.option("--project", is_flag=True, help="Edit the project file; create it if it does not exist.")
def edit(project: bool) -> int:
    """Open the settings in $VISUAL or $EDITOR: the project file, or runtime.toml outside of a project."""
    caller = person.calling(find())
    problems, copy = settings.edit(find(), _editor, cwd=person.current_directory(), project=project, caller=caller)
    for problem in problems:
        tell(problem.message, problem.hint)
    if copy:
        click.echo(f"The previous file is kept as {copy}", err=True)
    return 1 if problems else 0


@config.command()
def validate() -> int:
    """Check every settings file in effect here. Exit code 1 if one is invalid."""
    report: Report = settings.validate(find(), cwd=person.current_directory(), env=os.environ)
    for problem in report.problems:
        tell(problem.message, problem.hint)
    for note in report.notes:
        click.echo(f"note: {note}")
    if not report.problems:
        click.echo("\n".join(f"{path}: ok" for path in report.files) or "no settings file: the defaults apply")
    return 1 if report.problems else 0


def _editor(path: str) -> None:
    said = os.environ.get("VISUAL") or os.environ.get("EDITOR") or ""
    try:
        words = shlex.split(said) or ["vi"]
    except ValueError as error:
        raise FleetError(f"invalid editor {said!r}: {error}", hint="set EDITOR") from error
    try:
        code = subprocess.run([*words, path], check=False).returncode
    except OSError as error:
        raise FleetError(f"cannot start the editor {words[0]}: {error.strerror}", hint="set EDITOR") from error
    if code:
        raise FleetError(f"the editor {words[0]} ended with exit code {code}")


def _view(row: SettingRow) -> dict[str, Any]:
    value = row.value.isoformat() if isinstance(row.value, datetime) else row.value
    return {"value": value, "origin": row.origin.kind, "where": row.origin.where}


def _text(value: Any) -> str:
    if value is None:
        return "(not set)"
    if isinstance(value, str) and value.isprintable():
        return value
    return toml_value(value)
