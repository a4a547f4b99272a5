"""The report on a removed worktree: where the tip is, what was saved, and how to restore it."""

import click

from fleet.actions.removal import Removal
from fleet.cli.bd.text import clean


def tell_removed(done: Removal, stays: str, *, without_ignored: bool = False) -> None:
    """Print the report on one worktree. `stays` describes the result if the worktree still exists."""
    space = done.workspace
    if done.later:
        click.echo(clean(f"{space.branch}: {done.later}"))
        return
    if not done.removed:
        click.echo(clean(f"{space.branch}: {stays}: {done.why_not}"), err=True)
        way = f"; `fleet kill --without-ignored {space.branch}` goes without ignored files" if without_ignored else ""
        click.echo(clean(f"  {space.path}{way}"), err=True)
        return
    branch = f"branch deleted, its tip is {done.branch_kept}" if done.branch_kept else "its branch stays"
    click.echo(clean(f"{space.branch}: removed ({branch})"))
    for words in (done.why_not, done.note):
        if words:
            click.echo(f"  {clean(words)}", err=True)
    if done.commands:
        click.echo(f"  {_kept(done)}; this brings it back:")
        for command in done.commands:
            click.echo(f"    {clean(command)}")
    for each in done.saved.left_out:
        click.echo(f"  not saved: {clean(each.path)} ({clean(each.why)})", err=True)


def _kept(done: Removal) -> str:
    parts = ["what was not committed"] if done.saved.commands else []
    parts = ["the branch", *parts] if done.branch_kept else parts
    return f"{' and '.join(parts)} {'is' if len(parts) == 1 else 'are'} kept"
