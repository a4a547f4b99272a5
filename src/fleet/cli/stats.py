"""`fleet stats`: the results of the runs of each coder and model."""

import click

from fleet.actions.proof import stats as counting
from fleet.actions.proof.stats import CoderStatistics
from fleet.assembly import open_fleet
from fleet.cli import tables
from fleet.cli.completion import complete_coders
from fleet.cli.tables import NOTHING, cost, duration, explained, percent
from fleet.core.finding import FINDINGS, Finding
from fleet.core.jsontext import encode_printable
from fleet.core.run import COMPUTED, UNKNOWN
from fleet.home import find

COLUMNS = ("Coder", "Model", "Tasks", "Runs", "Retries", "Verified", "Rate", "Cost/verified", "Cost", "Time/run")


@click.command()
@click.option("--since", metavar="TIME", help="Count only runs that ended since TIME: 7d, yesterday, 2026-01-15.")
@click.option("--coder", default="", metavar="CODER", shell_complete=complete_coders, help="Count only runs by CODER.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def stats(since: str | None, coder: str, as_json: bool) -> None:
    """Show how much work of each coder and model was proven, and what it cost.

    The rate counts only attempts that depend on the coder: limits and outages do not count. The cost of a verified
    task includes all failed attempts.
    """
    with open_fleet(find()) as fleet:
        after = counting.moment(since, now=fleet.store.now().astimezone()) if since else None
        found = counting.standings(fleet, since=after, coder=coder)
    if as_json:
        told = {"since": after.isoformat() if after else None, "rows": [row.view() for row in found]}
        click.echo(encode_printable(told | {"total": counting.total(found).view()}, 2))
    elif found:
        _print(found)
    else:
        click.echo("no run has ended yet" if not (since or coder) else "no such run has ended", err=True)


def _print(found: list[CoderStatistics]) -> None:
    rows = [*found, counting.total(found)] if len(found) > 1 else found
    others = [each for each in FINDINGS if each != Finding.VERIFIED and any(each in row.findings for row in rows)]
    heads = [each.replace("_", " ").capitalize() for each in others]
    cells = [
        (
            row.coder,
            row.model or ("" if row.coder == "all" else "its own"),
            *(str(number) for number in (row.tasks, row.runs, row.retries, row.verified)),
            percent(None if row.verified_rate is None else 100 * row.verified_rate),
            _money(row, row.cost_per_verified),
            _money(row, row.cost_usd if row.is_priced else None),
            duration(row.mean_seconds),
            *(str(row.findings.get(each) or NOTHING) for each in others),
        )
        for row in rows
    ]
    tables.show((*COLUMNS, *heads), cells, right=(*COLUMNS[2:], *heads), fold=["Model"])
    costs = [_money(row, row.cost_usd if row.is_priced else None) for row in rows]
    if marks := explained(costs):
        click.echo(f"cost: {marks}", err=True)
    if any(row.computed for row in rows):
        click.echo(f"prices: {counting.prices_in_words()}", err=True)


def _money(row: CoderStatistics, dollars: float | None) -> str:
    """Return an amount, marked if fleet computed a part of it, or if a part is unknown."""
    return cost(dollars, UNKNOWN if row.costed < row.runs else COMPUTED if row.computed else "")
