"""`fleet receipt`: show what fleet itself saw of a run, and check that the receipt is unchanged."""

import click

from fleet.actions.proof import receipt_words
from fleet.actions.proof.receipts import ReceiptCheck, Shown, check, find_receipt
from fleet.assembly import open_fleet
from fleet.cli import person
from fleet.cli.bd.text import clean
from fleet.cli.completion import complete_names
from fleet.core.jsontext import encode_printable
from fleet.home import find


@click.command()
@click.argument("name", metavar="ID|BRANCH|RUN", shell_complete=complete_names)
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
        click.echo(f"checked: it is as it was made, in a chain of {checked.receipts}")
