"""`fleet questions` and `fleet answer`: list what agents wait for, and answer."""

import sys
from typing import Any

import click

from fleet.actions.tasks import questions as asking
from fleet.actions.tasks import screens
from fleet.actions.tasks.questions import AnsweredQuestion, TaskQuestion
from fleet.actions.tasks.screens import Chosen, Shown
from fleet.assembly import open_fleet
from fleet.cli import person
from fleet.cli.bd.session import read_source
from fleet.cli.completion import complete_names
from fleet.cli.tables import instant
from fleet.cli.text import block, clean
from fleet.core.jsontext import encode_printable
from fleet.descent import is_agents
from fleet.home import find

LINE = "----- Write your answer above this line; the text below is not part of it. -----"


@click.command()
@click.option("--all", "everything", is_flag=True, help="Include past questions, with their answers.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def questions(everything: bool, as_json: bool) -> None:
    """List everything that agents wait for, with the options.

    These are the questions of agents and the dialogs on their screens. Each agent waits until you answer.
    """
    home = find()
    with open_fleet(home) as fleet:
        found = asking.inbox(fleet, everything=everything)
    if as_json:
        click.echo(encode_printable([each.view() for each in found], 2))
        return
    for each in found:
        for line in told(each):
            click.echo(line)
    if not is_agents(home.root):
        screens.note_seen(home, [each for each in found if isinstance(each, Shown)])
    if not found:
        click.echo("no open questions", err=True)


@click.command()
@click.argument("name", metavar="NAME", shell_complete=complete_names)
@click.argument("words", metavar="[ANSWER]", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def answer(name: str, words: tuple[str, ...], as_json: bool) -> None:
    """Answer what an agent waits for, with the number of an option or with text.

    NAME is a branch, a task or the number that `fleet questions` shows. fleet types only into the dialog that it has
    shown you. Text that is not an option declines the dialog and becomes a message to the agent. Without ANSWER, write
    it in $EDITOR or pass it on stdin.
    """
    with open_fleet(find()) as fleet:
        scope = person.scope()
        text = " ".join(words) or _typed(asking.which(fleet, name, scope))
        done = asking.answer(fleet, name, text, by=person.name(), caller=person.caller(fleet), scope=scope)
    if as_json:
        click.echo(encode_printable(_view(done), 2))
    elif isinstance(done, Chosen):
        click.echo(clean(_chosen(done)))
    else:
        more = f"; {done.left} more open" if done.left else ""
        click.echo(f"answered {done.question.id}: {done.task.id} is {done.task.status}{more}")


def told(found: TaskQuestion | Shown) -> list[str]:
    """Return the lines that show a question or a dialog, its options and the command to type next."""
    if isinstance(found, Shown):
        head = f"{found.id}  {found.task.branch or found.task.id}  {found.task.title}"
        lines = [clean(head), block(found.dialog.text, "    ")]
        lines += [f"      {each.number}. {clean(each.text)}" for each in found.dialog.options]
        return [*lines, f"    {command(found)}"]
    asked, task = found.question, found.task
    name = (task.branch or task.id) if task else asked.task_id
    title = task.title if task else "(deleted)"
    lines = [clean(f"{asked.id}  {name}  {instant(asked.asked_at)}  {title}"), block(asked.text, "    ")]
    if found.waits:
        lines += [f"    {command(found)}", f"    or write below a line `## A:` in {clean(found.page)}"]
    said = "withdrawn" if asked.is_withdrawn else asked.answer
    return lines if said is None else [*lines, block(f"→ {said}  ({asked.answered_by})", "    ")]


def command(found: TaskQuestion | Shown) -> str:
    """Return the command that answers, with the number of the question because it has only one meaning."""
    number = isinstance(found, Shown) or bool(found.options)
    return f"fleet answer {found.id} {'1' if number else 'TEXT'}"


def _chosen(done: Chosen) -> str:
    """Return a sentence on what was typed into a dialog."""
    name = done.shown.task.branch or done.shown.task.id
    text = f"{name}: chose {done.option.number}. {done.option.label}"
    if done.typed:
        return f"{text} and typed your text"
    return f"{text}; the agent gets your text as its next message" if done.message else text


def _view(done: AnsweredQuestion | Chosen) -> dict[str, Any]:
    if isinstance(done, Chosen):
        option = {"number": done.option.number, "text": done.option.text}
        return {
            "kind": "dialog",
            "id": done.shown.id,
            "task": done.shown.task.id,
            "chosen": option,
            "typed": done.typed or None,
            "message": done.message or None,
        }
    question = done.question
    return {
        "kind": "question",
        "id": question.id,
        "task": done.task.id,
        "task_status": done.task.status,
        "answer": question.answer,
        "left": done.left,
    }


def _typed(found: TaskQuestion | Shown) -> str:
    if not sys.stdin.isatty():
        return read_source("-")
    below = "\n".join(f"> {line}" for part in told(found) for line in part.split("\n"))
    return (click.edit(f"\n{LINE}\n{below}\n") or "").partition(LINE)[0]
