"""`fleet trust`: show what a repository would have fleet run, and trust it."""

import os
import sys

import click

from fleet.actions.control import trust as trusting
from fleet.actions.control.trust import FileLine, TrustStatus
from fleet.assembly import open_fleet
from fleet.cli import person
from fleet.cli.options import with_yes
from fleet.cli.text import clean
from fleet.core.errors import WARNINGS
from fleet.core.jsontext import encode_printable
from fleet.home import find


@click.command()
@click.argument("directory", metavar="[DIR]", default=".", type=click.Path(exists=True, file_okay=False))
@click.option("--show", is_flag=True, help="Show what is trusted and what is not; change nothing.")
@with_yes
@click.option("--expect", default="", metavar="DIGEST", help="Trust the content only if its digest is DIGEST; for CI.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON: the state before the change, or the current state with --show."
)
def trust(directory: str, show: bool, sure: bool, expect: str, as_json: bool) -> None:
    """Allow fleet to run commands that come with a repository.

    These are the project's commands, its git hooks and settings, and files from which coders run commands, such as
    .claude/settings.json. fleet runs none of them until you trust them once, and asks again when they change. On a
    terminal, fleet shows what would run and asks. `fleet init` trusts what it wrote itself.

    DIR is the directory where an agent works. [default: the current directory]
    """
    with open_fleet(find()) as fleet:
        cwd = os.path.normpath(os.path.join(person.current_directory(), directory))  # noqa: PTH118
        found = trusting.standing(fleet, cwd)
        if expect:
            trusting.refuse_unexpected(found, expect)
        if not show:
            if not (sure or expect) and _is_new(found) and sys.stdin.isatty() and sys.stderr.isatty():
                click.echo("\n".join(_shown(found)), err=True)
                click.confirm("Trust all of this?", abort=True, err=True)
            trusting.trust(fleet, cwd, found, by=person.name(), caller=person.caller(fleet))
    WARNINGS.pop(found.file, None)  # this command shows the warning's content
    if as_json:
        click.echo(encode_printable(found.view(), 2))
        return
    for line in _shown(found) if show else _trusted(found):
        click.echo(line)


def _is_new(found: TrustStatus) -> bool:
    return bool(found.changes) or not all([each.is_trusted for each in found.lines + found.files])


def _shown(found: TrustStatus) -> list[str]:
    lines = [f"{_word(line.is_trusted)}  {clean(line.text)}" for line in found.lines]
    for line in found.files:
        lines += [f"{_word(line.is_trusted)}  {_file(line)}", *(f"{'':13}  {clean(each)}" for each in line.file.does)]
        lines += [f"{'':13}  and {line.file.more} more settings"] if line.file.more else []
    none = [f"{clean(found.repository.top)} has no project file with commands"]
    digest = [f"digest  {found.mark}"] if lines else []
    return [*(lines or none), *_repository(found), *digest]


def _word(is_trusted: bool) -> str:
    return "trusted    " if is_trusted else "not trusted"


def _file(line: FileLine) -> str:
    others = f" and {len(line.coders) - 3} more" if len(line.coders) > 3 else ""
    return f"{clean(line.file.path)} (sha256 {line.file.sha256[:12]}), read by {', '.join(line.coders[:3])}{others}"


def _repository(found: TrustStatus) -> list[str]:
    if not found.is_known:
        return ["git's hooks and settings here: not used yet; fleet trusts them at first use"]
    changes = [f"not trusted  {clean(change)}" for change in found.changes]
    return changes or ["git's hooks and settings here: unchanged since you trusted them"]


def _trusted(found: TrustStatus) -> list[str]:
    new = [clean(line.text) for line in found.lines if not line.is_trusted] + [*map(clean, found.changes)]
    new += [_file(line) for line in found.files if not line.is_trusted]
    if not new and found.is_known:
        return [f"{clean(found.repository.top)}: nothing new to trust"]
    return [f"{clean(found.repository.top)} is trusted in its current state", *(f"  {line}" for line in new)]
