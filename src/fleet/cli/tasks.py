"""`fleet ready` and `fleet show`: the queue's tasks, with the coder and model that each will get."""

from typing import Any

import click

from fleet.actions.control.hosts import bound_to, in_names
from fleet.actions.control.other_hosts import whereabouts
from fleet.actions.tasks.hand_edits import take_hand_edits
from fleet.actions.tasks.names import find_task
from fleet.actions.tasks.questions import asked_by
from fleet.actions.tasks.screens import Shown, note_seen
from fleet.assembly import Fleet, open_fleet
from fleet.cli import person
from fleet.cli.bd import main as bd
from fleet.cli.bd.session import write_json
from fleet.cli.bd.show import details
from fleet.cli.options import with_limit
from fleet.cli.questions import told
from fleet.cli.tables import cost, explained, planned_stop
from fleet.cli.text import block, clean
from fleet.core.filter import READY
from fleet.core.host import join_requirements, parse_requirements, without_pin
from fleet.core.run import total_cost
from fleet.core.task import Status, Task
from fleet.descent import is_agents
from fleet.home import find
from fleet.settings import Settings, load, model_for

#: The metadata key for a task's requirements on hosts.
REQUIRES = "fleet.requires"


@click.command()
@with_limit("tasks")
@click.option("--json", "as_json", is_flag=True, help="Print JSON in the format of `fleet bd ready --json`.")
def ready(limit: int, as_json: bool) -> int:
    """List the tasks that can start now, most urgent first."""
    with open_fleet(find()) as fleet:
        found, _ = take_hand_edits(fleet, fleet.store.tasks.find(READY, sort="urgent", limit=limit))
    if as_json:
        return bd(["ready", "--json", "--limit", str(limit)])
    for task in found:
        chosen = [f"{name}: {clean(value)}" for name, value in (("coder", task.coder), ("model", task.model)) if value]
        where = ", ".join([f"cwd: {clean(task.cwd) or 'none'}", *chosen])
        click.echo(f"{task.id}  P{task.priority}  {clean(task.title)}  [{where}]")
    if not found:
        click.echo("nothing is ready", err=True)
    return 0


@click.command()
@click.argument("task_id", metavar="ID")
@click.option(
    "--json", "as_json", is_flag=True, help="Print JSON in the format of `fleet bd show --json`, with the task's host."
)
def show(task_id: str, as_json: bool) -> int:
    """Show a task with the coder and model that it will get."""
    home = find()
    with open_fleet(home) as fleet:
        key = find_task(fleet, task_id, scope=person.scope())
        (task,), problems = take_hand_edits(fleet, [fleet.store.tasks.get(key)])
        sent = whereabouts(fleet, task)
        runs, space = fleet.store.runs.of_task(key), fleet.store.workspaces.get(key)
        usd, basis = total_cost(runs)
        waits = asked_by(fleet, key)
        silent = planned_stop(runs[-1], fleet.store.now()) if runs else ""
        tree = space.path if space is not None and not space.is_gone else ""
        requires = (
            join_requirements(in_names(fleet, parse_requirements(task.requires) or (task.requires,)))
            if task.requires
            else ""
        )
        if as_json:
            more = {
                "worktree": tree,
                "account": runs[-1].account if runs else "",
                "runs": len(runs),
                "waits_for": [w.view() for w in waits],
            }
            write_json([as_fleets(fleet, task) | {name: value for name, value in more.items() if value}])
            return 0
    coder, model = effective(task, load(home, task.cwd or None, env={}, lenient=True))
    spent = cost(usd, basis) if basis else ""
    for name, value in (
        ("id", task.id),
        ("title", clean(task.title)),
        ("status", _status(task)),
        ("silent", silent),
        ("runs", len(runs)),
        ("branch", clean(task.branch)),
        ("cwd", clean(task.cwd) or "none: a separate empty folder"),
        ("worktree", clean(tree)),
        ("coder", coder),
        ("account", clean(runs[-1].account or f"your own login to {runs[-1].coder}") if runs else ""),
        ("model", model),
        ("task.json", f"not used: {clean(problems[key])}" if key in problems else ""),
        ("requires", clean(requires)),
        ("remote", clean(task.remote)),
        ("sent", clean(sent)),
        ("assignee", clean(task.assignee)),
        ("cost", f"{spent} ({marks})" if (marks := explained([spent])) else spent),
        ("finding", task.finding),
        ("reason", clean(task.reason)),
    ):
        if value:
            click.echo(f"{name + ':':<12} {value}")
    for each in waits:
        click.echo("\n".join(["waits for you:", *told(each)]))
    if not is_agents(home.root):
        note_seen(home, [each for each in waits if isinstance(each, Shown)])
    if task.description:
        click.echo(f"description:\n{block(task.description)}")
    return 0


def _status(task: Task) -> str:
    """Return the status of a task. A task that its agent has marked otherwise is in progress while the agent works."""
    if task.is_supervised and task.status != Status.IN_PROGRESS:
        return f"{Status.IN_PROGRESS} (marked {task.status}; its agent is still working)"
    return task.status


def as_fleets(fleet: Fleet, task: Task) -> dict[str, Any]:
    """Return a task in bd's JSON, the same for every kind of queue. A pin to a host is a separate field.

    The other requirements stay in the metadata.
    """
    found = details(fleet.store, task)
    for row in (found, *found.get("dependencies", ())):
        told = row.get("metadata", {})
        if REQUIRES in told:
            left = without_pin(told[REQUIRES])
            row["metadata"] = {**told, REQUIRES: left} if left else {key: told[key] for key in told if key != REQUIRES}
    host = bound_to(fleet, task)
    said = {"running": True} if task.is_supervised else {}
    return {**found, **said, "host": host} if host else {**found, **said}


def effective(task: Task, settings: Settings) -> tuple[str, str]:
    """Return the coder and model that a task will get, marked `(default)` if the task does not name them."""
    coder = task.coder or settings.coder
    model = clean(task.model) if task.model else f"{model_for(settings, coder) or 'its own'} (default)"
    return (coder if task.coder else f"{coder} (default)"), model
