"""`fleet questions` and `fleet answer`: list agents' questions, and answer them."""

import sys

import click

from fleet.actions.tasks import questions as asking
from fleet.actions.tasks.questions import TaskQuestion
from fleet.assembly import open_fleet
from fleet.cli import person
from fleet.cli.bd.session import read_source
from fleet.cli.bd.text import block, clean
from fleet.cli.tables import instant
from fleet.core.jsontext import encode_printable
from fleet.home import find

LINE = "----- Write your answer above this line; the text below is not part of it. -----"


@click.command()
@click.option("--all", "everything", is_flag=True, help="Include past questions, with their answers.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def questions(everything: bool, as_json: bool) -> None:
    """List questions from agents. Each task waits until its question is answered."""
    with open_fleet(find()) as fleet:
        found = asking.questions(fleet, everything=everything)
    if as_json:
        click.echo(encode_printable([each.view() for each in found], 2))
        return
    for each in found:
        _print(each)
    if not found:
        click.echo("no open questions", err=True)
    elif any(each.waits for each in found):
        click.echo(
            "run `fleet answer ID TEXT` to answer, or write below a line `## A:` in the question's file", err=True
        )


@click.command()
@click.argument("name", metavar="ID")
@click.argument("words", metavar="[TEXT]", nargs=-1)
def answer(name: str, words: tuple[str, ...]) -> None:
    """Answer the question with this id, or the question of the task with this id.

    Without TEXT, write the answer in $EDITOR or pass it on stdin.
    """
    with open_fleet(find()) as fleet:
        text = " ".join(words) or _typed(asking.which(fleet, name))
        done = asking.answer(fleet, name, text, by=person.name(), caller=person.caller(fleet))
    more = f"; {done.left} more open" if done.left else ""
    click.echo(f"answered {done.question.id}: {done.task.id} is {done.task.status}{more}")


def _print(asked: TaskQuestion) -> None:
    question = asked.question
    title = clean(asked.task.title) if asked.task else "(deleted)"
    click.echo(f"{question.id}  {question.task_id}  {instant(question.asked_at)}  {title}")
    click.echo(block(question.text, "    "))
    view = asked.view()
    if asked.waits:
        click.echo(f"    {clean(asked.page)}")
    said = "withdrawn" if view["withdrawn"] else view["answer"]
    if said is not None:
        click.echo(block(f"→ {said}  ({view['answered_by']})", "    "))


def _typed(asked: TaskQuestion) -> str:
    if not sys.stdin.isatty():
        return read_source("-")
    below = block(asked.question.text, "> ")
    return (click.edit(f"\n{LINE}\n{below}\n") or "").partition(LINE)[0]
