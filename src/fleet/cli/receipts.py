"""`fleet receipt` and `fleet verify`: show what fleet itself saw of a run, check it, and verify the work again."""

import sys

import click

from fleet.actions.proof import receipt_words, recheck
from fleet.actions.proof.candidates import find_candidates
from fleet.actions.proof.ranking import RankedCandidate
from fleet.actions.proof.receipts import ReceiptCheck, Shown, check, find_receipt
from fleet.actions.tasks.rights import refuse_agents
from fleet.assembly import open_fleet
from fleet.cli import person
from fleet.cli.bd.text import clean
from fleet.cli.options import complete
from fleet.core.finding import Finding
from fleet.core.jsontext import encode_printable
from fleet.core.task_status import BY_FINDING
from fleet.home import find


@click.command()
@click.argument("name", metavar="ID|BRANCH|RUN", shell_complete=complete("names"))
@click.option("--run", "number", type=click.IntRange(min=1), metavar="N", help="Show run N. [default: the last run]")
@click.option(
    "--check", "to_check", is_flag=True, help="Check the receipt's hashes, chain and file. Exit code 1 if one is wrong."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def receipt(name: str, number: int | None, to_check: bool, as_json: bool) -> int:
    """Show what fleet itself observed in a run: its finding, the reasons and all evidence."""
    with open_fleet(find()) as fleet:
        shown = find_receipt(fleet, name, number, person.scope())
        checked = check(fleet, shown) if to_check else None
        if as_json:
            told = shown.view(fleet) | ({"check": checked.view()} if checked else {})
            click.echo(encode_printable(told, 2))
    if not as_json:
        _print(shown)
        if checked is not None:
            _print_check(checked)
    return 1 if checked is not None and checked.faults else 0


@click.command()
@click.argument("names", metavar="NAME…", nargs=-1, required=True, shell_complete=complete("names"))
@click.option("--verify", "command", default="", metavar="CMD", help="Run CMD instead of the project's command.")
@click.option("--all-projects", is_flag=True, help="Include all repositories, not only the current one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def verify(names: tuple[str, ...], command: str, all_projects: bool, as_json: bool) -> int:
    """Verify existing work again, and make a new receipt for it.

    NAME is a task ID, a branch, a batch or a glob. fleet runs the verify command on the branch's current commit in a
    clean checkout. The new receipt counts for `fleet list`, `compare` and `merge`. If a task was blocked because its
    work was not proven, fleet closes the task once the work passes. Exit code 1: some work is not verified.
    """
    with open_fleet(find()) as fleet:
        refuse_agents(person.caller(fleet), "verify: it judges agents' work")
        scope = person.scope(all_projects=all_projects)
        field = find_candidates(fleet, names, scope=scope, directory=person.current_directory())
        if sys.stderr.isatty():
            click.echo(f"verifying {clean(', '.join(each.name for each in field.candidates))}", err=True)
        told = (lambda _: None) if as_json else _tell_verified
        found = recheck.verify_again(fleet, field, command, by=person.name(), tell=told)
    if as_json:
        left = [{"name": name, "why": why} for name, why in field.left_out]
        click.echo(encode_printable({"verified": [each.view() for each in found], "left_out": left}, 2))
    else:
        for name, why in field.left_out:
            click.echo(f"left out: {clean(name)}: {clean(why)}", err=True)
    return 0 if all(each.finding == Finding.VERIFIED for each in found) and not field.left_out else 1


def _tell_verified(each: RankedCandidate) -> None:
    seen = each.verification
    count = f"; {seen.passed} passed" if seen and seen.passed else ""
    click.echo(f"{clean(each.candidate.name)}: {BY_FINDING[each.finding]} – {clean('; '.join(each.shown))}{count}")
    if each.candidate.task is None:
        click.echo("  no task has this branch: nothing was recorded", err=True)


def _print(shown: Shown) -> None:
    heading, *rest = receipt_words.lines(shown.receipt, shown.run)
    click.echo(click.style(clean(heading), bold=True))
    for line in rest:
        click.echo(clean(line))
    if shown.others > 0:
        click.echo(f"{shown.others} more of {clean(shown.task.id)}: `fleet receipt {clean(shown.task.id)} --run N`")


def _print_check(checked: ReceiptCheck) -> None:
    for fault in checked.faults:
        click.echo(f"wrong: {clean(fault)}")
    for note in checked.notes:
        click.echo(clean(note))
    if not checked.faults:
        click.echo(f"checked: unchanged, in a chain of {checked.receipts}")
