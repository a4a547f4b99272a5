"""The common part of `fleet create`, `fanout` and `multi`, after their command lines are parsed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from fleet.actions.control import homes, supervisor
from fleet.actions.control.start_progress import StartingTask, StartState, watch
from fleet.actions.tasks import create
from fleet.actions.tasks import rules as ruling
from fleet.actions.tasks.create import AgentRequest, CreateOptions, TaskCreator
from fleet.assembly import open_fleet
from fleet.cli import lazy_click as click
from fleet.cli import person
from fleet.cli.text import clean
from fleet.core import host
from fleet.core.jsontext import encode_printable
from fleet.core.task import CREATE
from fleet.home import find

if TYPE_CHECKING:
    from typing import Any

    from fleet.actions.control.supervisor import StartingSupervisor

__all__ = ["AgentRequest", "create", "make_agents"]

#: The time that setup commands may reasonably take. After it, they continue and the command returns.
SECONDS = 900.0


def make_agents(
    wishes: list[AgentRequest], given: dict[str, Any], origin: str, begun: StartingSupervisor | None = None
) -> int:
    """Create tasks with agents, wait until they start, and print the results. Return the exit code.

    `begun` is a supervisor that was started for them.
    """
    home, directory = find(), person.current_directory()
    rules = ruling.rules(
        allow=given["allow"],
        protect=given["protect"],
        fail_to_pass=given["fail_to_pass"] or None,
        no_changes=given["allow_no_changes"] or None,
    )
    requires = host.make_requirements(given["requires"], given["host"])
    plain = {name: given[name] for name in ("base", "quick", "headless", "verify")}
    terms = CreateOptions(**plain, rules=rules.text(), requires=requires)
    create.check_names(wishes)
    if homes.ensure(home):
        click.echo(f"fleet home initialized at {home.root}", err=True)
    with open_fleet(home) as fleet:
        caller = TaskCreator(origin=origin, by=person.name(), caller=person.caller(fleet))
        made = create.create(fleet, directory, wishes, terms, caller)
        for note in made.notes:
            click.echo(clean(note), err=True)
        if started := supervisor.ensure(home, begun):
            click.echo(f"supervisor started: pid {started}; it runs only tasks made this way", err=True)
        show = StartCounter(quiet=given["as_json"])
        seconds = 0 if given["no_wait"] else SECONDS
        ids = [task.id for task in made.tasks]
        starts = watch(fleet, ids, seconds=seconds, tell=show.tell, lacking=made.lacking)
    show.end()
    _tell(starts, made.batch, alone=origin == CREATE, as_json=given["as_json"])
    return 1 if any(start.state == StartState.FAILED for start in starts) else 0


def _tell(starts: list[StartingTask], batch: str, *, alone: bool, as_json: bool) -> None:
    if as_json:
        views = [start.view() for start in starts]
        click.echo(encode_printable(views[0] if alone else views, 2))
        return
    for start in starts:
        click.echo(_line(start))
    if len(starts) > 1:
        click.echo(f"batch {batch}: `fleet list --grouped`, `fleet kill --batch {batch}`")


def _line(start: StartingTask) -> str:
    task, run = start.task, start.run
    coder = (run.coder if run else task.coder) or "its coder"
    match start.state:
        case StartState.RUNNING | StartState.ENDED if run and run.session_name:
            words = f"{coder} runs in a terminal: `fleet attach {task.branch}`"
        case StartState.RUNNING | StartState.ENDED:
            words = f"{coder} runs: `fleet logs -f {task.branch}`"
        case StartState.FAILED:
            words = f"not started: {clean(task.reason)}"
        case StartState.SETTING_UP:
            words = "is being set up"
        case StartState.WAITING if start.lacks:
            words = f"waits until it can run: {clean(start.lacks)}"
        case _:
            words = "waits to start: `fleet tasks` shows why"
    return f"{task.branch} ({task.id}): {words}"


class StartCounter:
    """A line on a terminal that counts agents while they start."""

    def __init__(self, *, quiet: bool) -> None:
        self._on = not quiet and sys.stderr.isatty()
        self._line = ""

    def tell(self, starts: list[StartingTask]) -> None:
        words = [StartState.WAITING, StartState.SETTING_UP, StartState.RUNNING, StartState.ENDED, StartState.FAILED]
        counts = ((sum(start.state == word for start in starts), word) for word in words)
        line = ", ".join(f"{number} {word}" for number, word in counts if number)
        if self._on and line != self._line:
            click.echo(f"\r\x1b[K{line}", nl=False, err=True)
            self._line = line

    def end(self) -> None:
        if self._line:
            click.echo("\r\x1b[K", nl=False, err=True)
