"""`fleet demo`: show everything at work, in a separate home."""

import signal
import sys
import tempfile

import click

from fleet.actions.control.demo import FAILS, TASKS, Demo, DemoSnapshot, Summary
from fleet.cli.tables import NOTHING, StyledText, count, duration, money, show
from fleet.cli.text import MARKS, clean
from fleet.core.run import Run
from fleet.core.task import Status, Task
from fleet.home import quoted

COLUMNS = ("", "ID", "P", "Status", "Runs", "Events", "Tokens", "Cost", "Title", "What happened")
COLORS = {Status.CLOSED: "green", Status.IN_PROGRESS: "cyan", Status.BLOCKED: "yellow"}


@click.command()
@click.option("--keep", is_flag=True, help="Keep all files of the demonstration.")
def demo(keep: bool) -> int:
    """Run a dozen tasks through several agents at once: one fails and is retried, one asks and gets an answer.

    The demonstration uses its own repository and home, and a coder that needs no account. It changes nothing of yours.
    """
    made = Demo(tempfile.mkdtemp(prefix="fleet-demo-"))
    for number in (
        signal.SIGTERM,
        signal.SIGHUP,
    ):  # unlike a real supervisor, the demo's must not outlive its command
        signal.signal(number, signal.default_int_handler)
    try:
        summary = _play(made)
    except KeyboardInterrupt:
        made.remove()
        raise
    keep = keep or bool(summary.faults)
    _print(made, summary, kept=keep)
    if not keep:
        made.remove()
    return 1 if summary.faults else 0


def _play(made: Demo) -> Summary:
    made.make()
    click.echo(f"{len(TASKS)} tasks for the demo coder, in {made.home.root}", err=True)
    return made.play(_draw if sys.stdout.isatty() else Lines().tell)


class Lines:
    """A display that prints each change as a line, for output without a terminal."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def tell(self, look: DemoSnapshot) -> None:
        for task, run in look.tasks:
            line = f"{task.status}{f', run {run.number}' if run else ''}{f': {_why(task)}' if _why(task) else ''}"
            if run is not None and self._told.get(task.id) != line:
                click.echo(f"{MARKS.get(task.status, ' ')} {task.id} {clean(task.title)}: {line}")
            self._told[task.id] = line


def _draw(look: DemoSnapshot) -> None:
    rows = []
    for task, run in look.tasks:
        numbers = (
            (str(run.number), count(run.events), count(run.tokens), money(run.cost_usd)) if run else (NOTHING,) * 4
        )
        mark, key, status = (
            StyledText(text, COLORS.get(task.status), dim=task.status not in COLORS)
            for text in (MARKS.get(task.status, " "), task.id, _status(task))
        )
        rows.append((mark, key, str(task.priority), status, *numbers, task.title, StyledText(_why(task), dim=True)))
    click.clear()
    show(COLUMNS, rows, right=("P", "Runs", "Events", "Tokens", "Cost"), cut=("What happened", "Title"))


def _status(task: Task) -> str:
    return "waits for dependencies" if task.status == Status.OPEN and task.is_blocked else task.status


def _why(task: Task) -> str:
    return clean(task.close_reason if task.status == Status.CLOSED else task.reason)


def _print(demo: Demo, summary: Summary, *, kept: bool) -> None:
    click.echo(f"\n{summary.closed} of {len(TASKS)} tasks closed by {len(summary.runs)} runs in {_took(summary)}")
    failing = [run for run in summary.runs if run.task_id == demo.ids[FAILS]]
    click.echo(f"{demo.ids[FAILS]}: {', then '.join(run.ending for run in failing)}")
    if summary.answered:
        asked = summary.answered
        click.echo(f"{asked.task_id} asked: {clean(asked.text.splitlines()[0])}\n  answer: {clean(asked.answer or '')}")
    click.echo(f"\n{demo.home.root}  {'is the home:' if kept else 'was the home (--keep leaves it there):'}")
    for name, what in (
        ("fleet.db", "the queue and every run"),
        ("tasks/<id>/", "log, events, artifacts of each task"),
        ("logging/", "the supervisor's log"),
    ):
        click.echo(f"  {name:<12} {what}")
    click.echo(f"{demo.repo}  {'is' if kept else 'was'} the repository the agents worked in")
    if kept:
        click.echo(f"\ncontinue with it: export FLEET_HOME={quoted(demo.home.root)}; fleet runs {demo.ids[FAILS]}")
        click.echo(f"remove it: rm -r {quoted(demo.folder)}")
    for fault in summary.faults:
        click.echo(f"error: {clean(fault)}", err=True)


def _took(summary: Summary) -> str:
    tokens, cost = sum(run.tokens for run in summary.runs), _cost(summary.runs)
    return f"{duration(summary.seconds)}, {summary.at_once} agents at once; {count(tokens)} tokens, {money(cost)}"


def _cost(runs: list[Run]) -> float:
    return sum(run.cost_usd or 0 for run in runs)
