"""`fleet prompt` and `fleet interrupt`: send an agent a message while it works, and watch the delivery."""

import sys
from functools import partial

import click

from fleet.actions.tasks import messages
from fleet.actions.tasks.messages import MessageStatus, StoppedBefore, Way
from fleet.actions.tasks.names import find_task
from fleet.assembly import open_fleet
from fleet.cli import person
from fleet.cli.bd.session import read_source
from fleet.cli.confirmation import agreed, see_to_supervisor
from fleet.cli.options import complete, with_json
from fleet.cli.tables import instant
from fleet.cli.text import clean
from fleet.core.jsontext import encode_printable
from fleet.core.run import Delivery
from fleet.core.task_status import QUESTION
from fleet.home import find
from fleet.supervisor.lock import holder

LINE = "----- Write your message to the agent above this line. -----"

with_wait = click.option(
    "--wait",
    "seconds",
    type=click.FloatRange(min=0, max=3600),
    default=5.0,
    show_default=True,
    metavar="SECONDS",
    help="Wait up to SECONDS for the result of the message.",
)


@click.command()
@click.argument("name", metavar="NAME", shell_complete=complete("names"))
@click.argument("words", metavar="[TEXT]", nargs=-1)
@click.option("--yes", "-y", "sure", is_flag=True, help="Start a stopped task again without asking.")
@with_wait
@with_json
def prompt(name: str, words: tuple[str, ...], sure: bool, seconds: float, as_json: bool) -> int:
    """Send a message to the agent of a task, while it works or for its next run.

    fleet reports which of the two, and when the message arrived. Without TEXT, write the message in $EDITOR or pass it
    on stdin. A blocked task continues with the message, unless it is waiting for an answer to a question. fleet asks
    before it starts a task again that you stopped; without a terminal, pass --yes.
    """
    with open_fleet(find()) as fleet:
        text = " ".join(words) or _typed(find_task(fleet, name, scope=person.scope()))
        me, where = person.caller(fleet), person.scope()
        send = partial(messages.prompt, fleet, name, text, by=person.name(), caller=me, scope=where)
        try:
            told = send(revive=sure)
        except StoppedBefore as stopped:
            if not sys.stdin.isatty():
                raise
            if not agreed(f"{clean(str(stopped))}. Start it?", "nothing was changed"):
                return 1
            told = send(revive=True)
        if told.task.branch and not told.supervised:
            see_to_supervisor(find())
            told = told._replace(supervised=holder(find()) is not None)
        told = messages.watch(fleet, told, seconds)
    _print(told, as_json)
    return 0


@click.command()
@click.argument("name", metavar="NAME", shell_complete=complete("names"))
@click.argument("words", metavar="[TEXT]", nargs=-1)
@with_wait
@with_json
def interrupt(name: str, words: tuple[str, ...], seconds: float, as_json: bool) -> None:
    """Interrupt the agent of a running task. With TEXT, the agent continues; without, the task is blocked."""
    with open_fleet(find()) as fleet:
        told = messages.interrupt(
            fleet, name, " ".join(words), by=person.name(), caller=person.caller(fleet), scope=person.scope()
        )
        told = messages.watch(fleet, told, seconds)
    _print(told, as_json)


def _typed(task_id: str) -> str:
    if not sys.stdin.isatty():
        return read_source("-")
    return (click.edit(f"\n{LINE}\n{task_id}\n") or "").partition(LINE)[0]


def _print(told: MessageStatus, as_json: bool) -> None:
    if as_json:
        click.echo(encode_printable(told.view(), 2))
        return
    click.echo(f"{told.task.id}: {clean(_stopped(told) if told.is_order_to_stop else arrived(told))}")
    if not told.supervised:
        click.echo("no supervisor is running to deliver it; run `fleet run start`", err=True)


def arrived(told: MessageStatus) -> str:
    """Return a sentence on the delivery of a message."""
    message = told.message
    match message.state:
        case Delivery.DELIVERED:
            return f"delivered to {message.run_id} at {instant(message.delivered_at)}: seen in its stream"
        case Delivery.CARRIED:
            return f"{message.run_id} was started with it at {instant(message.carried_at)}"
        case Delivery.SENT:
            return f"sent to {message.run_id} at {instant(message.sent_at)}: the agent reads it after its current tool"
        case _:
            return _ahead(told)


def _ahead(told: MessageStatus) -> str:
    """Return a sentence on how a message that was not sent yet will be delivered."""
    run = told.run
    match told.way:
        case Way.AFTER_ANSWER:
            return f"queued; the task waits for an answer first: `fleet answer {told.question} TEXT`"
        case Way.NOW if run and run.screen == QUESTION:
            name = told.task.branch or told.task.id
            return f"queued; {run.id} asks a question on its screen; answer it first: `fleet attach {name}`"
        case Way.NOW if run:
            return f"queued; {run.id} gets it as soon as possible"
        case Way.INTERRUPTS if run and told.message.interrupts:
            return f"queued; {run.id} is interrupted and continues with it"
        case Way.INTERRUPTS if run:
            return f"queued; {run.coder} takes no message while it works: it is interrupted and continues with it"
        case _ if run:
            return f"queued; {run.coder} accepts no message while working: its next run gets it"
        case _:
            return f"kept; it is {told.task.status}, and its next run gets it"


def _stopped(told: MessageStatus) -> str:
    """Return a sentence on the result of an order to stop."""
    if told.run is not None and told.run.is_live:
        return f"{told.run.id} is asked to stop its current work"
    reason = f" ({told.task.reason})" if told.task.reason else ""
    return f"interrupted; it is {told.task.status}{reason}"
