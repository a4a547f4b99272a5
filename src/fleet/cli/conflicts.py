"""`fleet conflicts`: list agents' branches that git could not merge with each other."""

import click

from fleet.actions.worktrees.conflicts import CollidingBranch, Conflict, conflicts
from fleet.assembly import open_fleet
from fleet.cli import person
from fleet.cli.bd.text import clean
from fleet.cli.options import with_all_projects, with_json
from fleet.cli.tables import instant
from fleet.core.jsontext import encode_printable
from fleet.home import find


@click.command("conflicts")
@with_all_projects
@with_json
def show_conflicts(all_projects: bool, as_json: bool) -> None:
    """Show branches that git could not merge with each other as they are now, and in which files they conflict.

    Only commits count: fleet does not compare uncommitted changes. The earlier branch comes first. `fleet list` marks
    the affected agents. With merge.tell, fleet notifies the later agent.
    """
    with open_fleet(find()) as fleet:
        found = conflicts(fleet, person.scope(all_projects=all_projects))
    for sentence in found.unsure:
        click.echo(f"fleet: {clean(sentence)}", err=True)
    if as_json:
        click.echo(encode_printable([each.view() for each in found.conflicts], 2))
    elif not found.conflicts:
        click.echo("no branches collide", err=True)
    else:
        click.echo("\n\n".join("\n".join(_lines(each)) for each in found.conflicts))


def _lines(found: Conflict) -> list[str]:
    head = f"{_named(found.first)} and {_named(found.second)} collide, seen since {instant(found.collision.seen_at)}"
    told = ["  the later agent was informed"] if found.collision.told_at else []
    return [head, *told, *(f"  {clean(path)}" for path in found.collision.files)]


def _named(side: CollidingBranch) -> str:
    state = side.task.status if side.task else "deleted"
    return f"{clean(side.workspace.branch)} ({side.workspace.task_id}, {state})"
