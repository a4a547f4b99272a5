"""`fleet retry`, `done`, `pause`, `resume`, `wait`: reopen, close and wait for tasks, and pause the start of agents."""

import sys

import click

from fleet.actions.control import supervisor
from fleet.actions.control.other_hosts import here
from fleet.actions.proof.receipt_words import brief
from fleet.actions.tasks.names import find_exactly, find_tasks, shown
from fleet.actions.tasks.wait import WaitProgress, wait_for_runs
from fleet.actions.tasks.wait import wait as wait_for
from fleet.actions.workers.workflows import flow
from fleet.actions.worktrees import agents
from fleet.assembly import Fleet, open_fleet
from fleet.cli import person
from fleet.cli.confirmation import is_sure, see_to_supervisor
from fleet.cli.options import complete, with_all_projects, with_dry_run, with_yes
from fleet.cli.text import clean
from fleet.core.errors import UsageError
from fleet.core.task import Status, Task
from fleet.core.task_status import derive_status
from fleet.home import find
from fleet.supervisor.lock import holder
from fleet.workflows.ids import is_workflow

TIMED_OUT = 124  # the exit code of timeout(1)


@click.command()
@click.argument("names", metavar="NAME…", nargs=-1, required=True, shell_complete=complete("names"))
@with_all_projects
def retry(names: tuple[str, ...], all_projects: bool) -> None:
    """Reopen blocked or closed tasks and reset their retry counters. A glob matches only blocked tasks."""
    with open_fleet(find()) as fleet:
        ids = find_tasks(fleet, names, among=agents.STUCK, scope=person.scope(all_projects=all_projects))
        for task in agents.retry(fleet, ids, caller=person.caller(fleet)):
            click.echo(f"{task.id}: open")
    if holder(find()) is None:
        click.echo("no supervisor is running; run `fleet run start`", err=True)


@click.command()
@click.argument("names", metavar="NAME…", nargs=-1, required=True, shell_complete=complete("names"))
@click.option(
    "--reason",
    default="closed manually",
    show_default=True,
    metavar="TEXT",
    help="Record TEXT as the reason in the task.",
)
@click.option("--no-wait", is_flag=True, help="Return at once, without the result.")
@with_yes
@with_dry_run
@with_all_projects
def done(names: tuple[str, ...], reason: str, no_wait: bool, sure: bool, dry_run: bool, all_projects: bool) -> int:
    """Close tasks as done, and print the result once their agents have ended.

    fleet ends the agents, commits their remaining changes and verifies the work.
    """
    with open_fleet(find()) as fleet:
        scope = person.scope(all_projects=all_projects)
        exact, fitting = find_exactly(fleet, names, among=agents.STOPPABLE, scope=scope)
        if dry_run:
            for key in [*exact, *fitting]:
                task = fleet.store.tasks.get(key)
                what = "is closed already" if task.status == Status.CLOSED else "would be closed"
                click.echo(f"{clean(task.branch) or key}: {what}{', and its agent ended' * task.is_supervised}")
            return 0
        if fitting and not sure and not is_sure(fleet, fitting, "close", shown(fleet, fitting)):
            return 1
        ids = [*exact, *fitting]
        closed = agents.done(fleet, ids, reason=reason, by=person.name(), caller=person.caller(fleet))
        live = {run.task_id for run in fleet.store.runs.live()} & set(ids)
        if here(fleet, [space for key in live if (space := fleet.store.workspaces.get(key))]):
            see_to_supervisor(find())  # the supervisor ends their agents and commits what they left
        if live and not no_wait:
            _wait_for_end(fleet, live)
        for task in closed:
            click.echo(f"{clean(task.branch or task.id)}: closed{_result(fleet, task, reason, waits=no_wait)}")
    return 0


def _wait_for_end(fleet: Fleet, ids: set[str]) -> None:
    if sys.stderr.isatty():
        click.echo("waiting for the end and the verification; Ctrl-C stops only the waiting", err=True)
    if not wait_for_runs(fleet, ids, is_served=lambda: holder(fleet.home) is not None):
        click.echo("no supervisor ends the agents; `fleet run start` starts one", err=True)


def _result(fleet: Fleet, task: Task, reason: str, *, waits: bool) -> str:
    """Return the result of a closed task: its finding, or the reason if nothing judged its work."""
    last = next(iter(fleet.store.runs.last([task.id]).values()), None)
    if waits or (last is not None and last.is_live):
        return f" ({clean(reason)})"
    task = fleet.store.tasks.get(task.id)
    status = derive_status(task, last, fleet.store.now())
    receipts = fleet.store.receipts.of_task(task.id)
    if not receipts or not task.finding:
        return f" ({clean(reason)})"
    words = brief(receipts[-1])
    return f": {status.result}" + (f" – {clean(words)}" if words else "")


@click.command()
def pause() -> None:
    """Stop starting agents until `fleet resume`. Running agents continue."""
    supervisor.pause(find(), caller=person.calling(find()))
    click.echo("paused: no new agents are started; run `fleet resume` to continue")


@click.command()
def resume() -> None:
    """Resume starting agents after `fleet pause`."""
    was_paused = supervisor.resume(find(), caller=person.calling(find()))
    click.echo("agents are started again" if was_paused else "the queue was not paused")


@click.command()
@click.argument("names", metavar="[ID|GLOB|WORKFLOW…]", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Wait for every task that is not closed.")
@click.option(
    "--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="Stop waiting after SECONDS, with exit code 124."
)
@with_all_projects
def wait(names: tuple[str, ...], everything: bool, timeout: float | None, all_projects: bool) -> int:
    """Wait until tasks finish.

    Exit code 0: all tasks are closed. Exit code 1: some tasks need a person. Exit code 124: the time ran out.
    """
    if bool(names) == everything:
        raise UsageError("no tasks given", hint="pass the tasks to wait for, or --all")
    display = Display()
    with open_fleet(find()) as fleet:
        scope = person.scope(all_projects=all_projects)
        tasks = find_tasks(fleet, [name for name in names if not is_workflow(name)], scope=scope)
        stages = [seen.task_id for name in names if is_workflow(name) for seen in flow(fleet, name).stages]
        ids = None if everything else list(dict.fromkeys((*tasks, *stages)))
        progress = wait_for(fleet, ids, timeout=timeout, tell=display.tell)
    display.end(progress)
    if not progress.is_over:
        return TIMED_OUT
    return 1 if progress.blocked or progress.gone else 0


class Display:
    """A display on stderr: a line for each task that has ended and, on a terminal, a line of counts."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._line = ""
        self._terminal = sys.stderr.isatty()

    def tell(self, progress: WaitProgress) -> None:
        for word, tasks in (("closed", progress.closed), ("blocked", progress.blocked)):
            for task in tasks:
                if f"{task.id} {word}" not in self._told:
                    self._told.add(f"{task.id} {word}")
                    why = (
                        task.close_reason if word == "closed" else task.reason or "waits for a task that needs a person"
                    )
                    self._say(f"{task.id} {word}: {clean(why or task.title)}")
        asking = {f"{task.id} waits for you: `fleet questions`" for task in progress.asking}
        for line in sorted(asking - self._told):
            self._say(line)
        self._told = {each for each in self._told if "waits for you" not in each} | asking
        if self._terminal and not progress.is_over and (line := _counted(progress)) != self._line:
            click.echo(f"\r\x1b[K{line}", nl=False, err=True)
            self._line = line

    def end(self, progress: WaitProgress) -> None:
        for key in progress.gone:
            self._say(f"{key} was deleted")
        self._say(_counted(progress) + ("" if progress.is_over else ": out of time"))

    def _say(self, text: str) -> None:
        click.echo(f"\r\x1b[K{text}" if self._line else text, err=True)
        self._line = ""


def _counted(progress: WaitProgress) -> str:
    counts = (
        (len(progress.closed), "closed"),
        (len(progress.running), "running"),
        (len(progress.waiting), "waiting"),
        (len(progress.blocked), "blocked"),
    )
    return ", ".join(f"{count} {word}" for count, word in counts if count) or "nothing to wait for"
