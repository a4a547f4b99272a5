"""`fleet stop` and `fleet kill`: stop agents. `kill` also saves what only their worktrees hold, and removes them."""

import os
import sys
from collections.abc import Iterator
from typing import Any

from fleet.actions.control.other_hosts import here, is_elsewhere
from fleet.actions.tasks.names import NameScope, by_branch, find_exactly
from fleet.actions.worktrees import agents, removal
from fleet.actions.worktrees.agents import KillResult
from fleet.actions.worktrees.removal import Removal
from fleet.assembly import Fleet, open_fleet
from fleet.cli import lazy_click as click
from fleet.cli import person
from fleet.cli.confirmation import is_sure, see_to_supervisor
from fleet.cli.text import clean
from fleet.core.errors import FleetError, UsageError
from fleet.core.filter import Filter
from fleet.core.jsontext import encode_printable
from fleet.core.task import Status, Task
from fleet.core.workflow import BY_HAND
from fleet.home import find
from fleet.supervisor.lock import holder


def tell_removed(done: Removal, stays: str, *, without_ignored: bool = False) -> None:
    """Print the report on one worktree. `stays` describes the result if the worktree still exists."""
    space = done.workspace
    if done.later:
        click.echo(clean(f"{space.branch}: {done.later}"))
        return
    if not done.removed:
        click.echo(clean(f"{space.branch}: {stays}: {done.why_not}"), err=True)
        way = f"; `fleet kill --without-ignored {space.branch}` skips ignored files" if without_ignored else ""
        click.echo(clean(f"  {space.path}{way}"), err=True)
        return
    branch = f"branch deleted, its tip is {done.branch_kept}" if done.branch_kept else "its branch is kept"
    click.echo(clean(f"{space.branch}: removed ({branch})"))
    for words in (done.why_not, done.note):
        if words:
            click.echo(f"  {clean(words)}", err=True)
    if done.commands:
        click.echo(f"  {_kept(done)}; to restore it:")
        for command in done.commands:
            click.echo(f"    {clean(command)}")
    for each in done.saved.left_out:
        click.echo(f"  not saved: {clean(each.path)} ({clean(each.why)})", err=True)


def _kept(done: Removal) -> str:
    parts = ["uncommitted changes"] if done.saved.commands else []
    parts = ["the branch", *parts] if done.branch_kept else parts
    return f"{' and '.join(parts)} {'is' if len(parts) == 1 else 'are'} kept"


#: Longer than an agent may take to stop after a request, including the kill that follows.
PATIENCE = 60.0


with_names = click.argument("names", metavar="NAME…", nargs=-1, shell_complete="complete_names")
with_batch = click.option(
    "-b",
    "--batch",
    default="",
    metavar="BATCH",
    shell_complete="complete_batches",
    help="Stop all tasks of BATCH here.",
)
with_reason = click.option(
    "--reason", default=BY_HAND, show_default=True, metavar="TEXT", help="Record TEXT as the reason in the task."
)


with_dry_run = click.option("--dry-run", is_flag=True, help="Show what would happen; change nothing.")
with_all_projects = click.option(
    "--all-projects", is_flag=True, help="Include all repositories, not only the current one."
)
with_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.command()
@with_names
@with_batch
@with_reason
@click.option(*("-y", "--yes", "sure"), is_flag=True, help="Do not ask for confirmation.")
@with_dry_run
@with_all_projects
@with_json
def stop(names: tuple[str, ...], batch: str, reason: str, **given: bool) -> int:
    """Stop tasks and keep their worktrees. `fleet retry` continues them; `fleet kill` also removes the worktrees.

    NAME is a whole task id, a branch, or a glob over the branches of this repository. Without a terminal, a glob or
    batch of several tasks needs --yes.
    """
    if not names and not batch:
        raise UsageError("no task, branch or batch given", hint="run `fleet list` to show them")
    with open_fleet(find()) as fleet:
        scope = person.scope(all_projects=given["all_projects"])
        ids, fitting = _meant(fleet, names, batch, scope, keeps=True)
        if given["dry_run"]:
            _print_outlook(fleet, ids, keeps=True, as_json=given["as_json"])
            return 0
        if fitting and not given["sure"] and not _is_sure(fleet, ids, fitting, keeps=True):
            return 1
        stopped = agents.kill(fleet, ids, reason=reason, caller=person.caller(fleet))
        asked = [each.task.id for each in stopped if each.asked]
        if here(fleet, [space for key in asked if (space := fleet.store.workspaces.get(key))]):
            see_to_supervisor(find())
        left = removal.wait_for_end(fleet, asked, PATIENCE) if asked and holder(fleet.home) else asked
        views = [_stopped_view(fleet, each.task, is_running=each.task.id in left) for each in stopped]
    if given["as_json"]:
        click.echo(encode_printable(views, 2))
    for task, view in zip([each.task for each in stopped], [] if given["as_json"] else views, strict=False):
        state = "still ends" if view["running"] else "is closed" if task.status == Status.CLOSED else "stopped"
        stays = f"; worktree {clean(view['worktree'])} stays" if view["worktree"] else ""
        click.echo(f"{clean(task.branch) or task.id}: {state}{stays}")
    return 1 if left else 0


def _stopped_view(fleet: Fleet, task: Task, *, is_running: bool) -> dict[str, Any]:
    space = fleet.store.workspaces.get(task.id)
    path = None if space is None or space.is_gone else space.path
    return {"task": task.id, "branch": task.branch or None, "worktree": path, "running": is_running}


@click.command()
@with_names
@with_batch
@click.option(*("-y", "--yes", "sure"), former=("-f", "--force"), is_flag=True, help="Do not ask for confirmation.")
@with_dry_run
@click.option("-d", "--delete-branch", "with_branch", is_flag=True, help="Delete the branch too; fleet keeps its tip.")
@click.option("--without-ignored", is_flag=True, help="Do not save files that git ignores.")
@with_all_projects
@with_reason
@with_json
def kill(names: tuple[str, ...], batch: str, reason: str, **given: bool) -> int:
    """Stop tasks: end running agents and keep waiting tasks from starting. `fleet retry` reopens them.

    NAME is a whole task id, a branch, or a glob over the branches of this repository. Without a terminal, a glob or
    batch of several tasks needs --yes. fleet saves work that exists only in a worktree before removing the worktree.
    The branch stays unless you pass --delete-branch.
    """
    if not names and not batch:
        raise UsageError("no task, branch or batch given", hint="run `fleet list` to show them")
    with open_fleet(find()) as fleet:
        ids, fitting = _meant(fleet, names, batch, person.scope(all_projects=given["all_projects"]))
        if given["dry_run"]:
            _print_outlook(fleet, ids, with_branch=given["with_branch"], as_json=given["as_json"])
            return 0
        if fitting and not given["sure"] and not _is_sure(fleet, ids, fitting, with_branch=given["with_branch"]):
            return 1
        stopped = agents.kill(fleet, ids, reason=reason, caller=person.caller(fleet))
        known = [space for key in ids if (space := fleet.store.workspaces.get(key))]
        spaces = [space for space in known if not space.is_gone or is_elsewhere(fleet, space.host)]
        held = [space.task_id for space in spaces]
        if any(each.asked for each in stopped) and here(fleet, spaces):
            see_to_supervisor(find())
        left = removal.wait_for_end(fleet, held, PATIENCE) if held else []
        if left:
            raise FleetError(
                f"{', '.join(left)} did not stop within {PATIENCE:g} s",
                hint="run `fleet log` to see why, then try again",
            )
        gone = removal.remove(fleet, held, with_branch=given["with_branch"], without_ignored=given["without_ignored"])
        _tell(fleet, stopped, gone, reason, as_json=given["as_json"])
        _later(fleet, gone)
    return 0 if all(each.removed or each.later for each in gone) else 1


def _is_sure(
    fleet: Fleet, ids: list[str], fitting: list[str], *, keeps: bool = False, with_branch: bool = False
) -> bool:
    if sys.stdin.isatty():
        for line in _outlook(fleet, ids, keeps=keeps, with_branch=with_branch):
            click.echo(line, err=True)
    return is_sure(fleet, fitting, "stop", "it" if len(ids) == 1 else f"these {len(ids)}")


def _meant(
    fleet: Fleet, names: tuple[str, ...], batch: str, scope: NameScope, *, keeps: bool = False
) -> tuple[list[str], list[str]]:
    """Return all the tasks that are meant, and those of them that only a glob or a batch matches.

    A glob matches tasks that can run and, unless their worktrees stay, tasks that have a worktree.
    """
    exact, fitting = find_exactly(fleet, names, scope=scope)
    left = {task.id for task in fleet.store.tasks.find(agents.STOPPABLE, sort="id")}
    left |= set() if keeps else {space.task_id for space in fleet.store.workspaces.find()}
    fitting = [key for key in fitting if key in left]
    ids = [*exact, *fitting]
    if batch:
        tasks = fleet.store.tasks.find(Filter(batch=batch), sort="id")
        if not tasks:
            raise FleetError(f"no such batch: {batch!r}", hint="run `fleet list --grouped` to show them")
        # A batch named after a day can have agents of every repository.
        members = [task.id for task in by_branch(tasks) if not task.repo or scope.has(task)]
        if not members:
            raise FleetError(f"batch {batch!r} has no task of this repository", hint="pass --all-projects")
        fitting += [key for key in members if key in left and key not in ids]
        ids += [key for key in fitting if key not in ids]
    if not ids:
        raise FleetError("nothing of it is left", hint="run `fleet list --all` to show past agents")
    return ids, fitting


def _print_outlook(
    fleet: Fleet, ids: list[str], *, keeps: bool = False, with_branch: bool = False, as_json: bool
) -> None:
    if as_json:
        tasks = [fleet.store.tasks.get(key) for key in ids]
        views = [_stopped_view(fleet, task, is_running=task.is_supervised) for task in tasks]
        click.echo(encode_printable(views, 2))
        return
    for line in _outlook(fleet, ids, keeps=keeps, with_branch=with_branch):
        click.echo(line)


def _outlook(fleet: Fleet, ids: list[str], *, keeps: bool, with_branch: bool) -> Iterator[str]:
    """Yield a line for each task about what would happen to it."""
    for key in ids:
        task, space = fleet.store.tasks.get(key), fleet.store.workspaces.get(key)
        ends = "its agent ends" if task.is_supervised else "it does not start"
        parts = [] if task.status == Status.CLOSED else [ends]
        if space is not None and not space.is_gone and not keeps:
            parts.append("its uncommitted work is saved and its worktree removed")
            parts.append("its branch is deleted, its tip is kept" if with_branch else "its branch is kept")
        yield f"  {clean(task.branch or task.title)} ({task.id}): {'; '.join(parts) or 'nothing changes'}"


def _tell(fleet: Fleet, stopped: list[KillResult], gone: list[Removal], reason: str, *, as_json: bool) -> None:
    by_task = {each.workspace.task_id: each for each in gone}
    if as_json:
        empty = {"saved": [], "commands": [], "removed": False, "branch_deleted": False}
        views = [
            {"task": task.id, "branch": task.branch or None, **empty}
            | (by_task[task.id].view() if task.id in by_task else {})
            for task, _ in stopped
        ]
        click.echo(encode_printable(views, 2))
        return
    for task, asked in stopped:
        if task.id not in by_task:
            click.echo(f"{task.id}: {'its agent is asked to stop' if asked else 'blocked'} ({clean(reason)})")
        else:
            tell_removed(by_task[task.id], "stopped, but its worktree stays", without_ignored=True)
    if any(asked for _, asked in stopped) and not gone and holder(fleet.home) is None:
        click.echo("no supervisor is running: agents continue until you run `fleet run start`", err=True)


def _later(fleet: Fleet, gone: list[Removal]) -> None:
    """Delete removed worktrees from the disk in a background process, so that the user need not wait."""
    if not any(each.removed for each in gone):
        return
    sys.stdout.flush()
    if os.fork():
        return
    try:
        os.setsid()
        nothing = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(nothing, number)
        removal.sweep(gone, fleet)
    finally:
        os._exit(0)
