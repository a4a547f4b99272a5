"""`fleet stats` and `fleet cost`: the results of the runs of each coder and model, and what runs cost."""

from datetime import timedelta

import click

from fleet.actions.proof import stats as counting
from fleet.actions.proof.stats import CoderStatistics
from fleet.assembly import open_fleet
from fleet.cli import tables
from fleet.cli.options import with_coder, with_json
from fleet.cli.tables import NOTHING, cost, count, duration, explained, percent
from fleet.core.finding import FINDINGS, Finding
from fleet.core.jsontext import encode_printable
from fleet.core.run import COMPUTED, UNKNOWN
from fleet.home import find

COLUMNS = ("Coder", "Model", "Tasks", "Runs", "Retries", "Verified", "Rate", "Cost/verified", "Cost", "Time/run")
#: Columns that a narrow screen omits after those of other findings, the least important first.
DROP = ("Retries", "Time/run", "Tasks", "Runs", "Cost/verified")


@click.command()
@click.option("--since", metavar="TIME", help="Count only runs that ended since TIME: 7d, yesterday, 2026-01-15.")
@with_coder("Count only runs by CODER.")
@click.option("--wide", is_flag=True, help="Show all columns, even on a narrow screen.")
@with_json
def stats(since: str | None, coder: str, wide: bool, as_json: bool) -> None:
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
        _print(found, wide=wide)
    else:
        click.echo("no run has ended yet" if not (since or coder) else "no such run has ended", err=True)


def _print(found: list[CoderStatistics], *, wide: bool) -> None:
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
    tables.show(
        (*COLUMNS, *heads),
        cells,
        right=(*COLUMNS[2:], *heads),
        fold=("Model", "Coder"),
        drop=() if wide else (*heads, *DROP),
    )
    costs = [_money(row, row.cost_usd if row.is_priced else None) for row in rows]
    if marks := explained(costs):
        click.echo(f"cost: {marks}", err=True)
    if any(row.computed for row in rows):
        click.echo(f"prices: {counting.prices_in_words()}", err=True)


def _money(row: CoderStatistics, dollars: float | None) -> str:
    """Return an amount, marked if fleet computed a part of it, or if a part is unknown."""
    return cost(dollars, UNKNOWN if row.costed < row.runs else COMPUTED if row.computed else "")


@click.command("cost")
@click.option("--since", metavar="TIME", help="Show only the cost since TIME: 7d, yesterday, 2026-01-15.")
@with_json
def show_cost(since: str | None, as_json: bool) -> None:
    """Show what agents have cost: today, in the last 7 and 30 days, and in total.

    Running agents are included. `fleet stats` shows the cost by coder and model.
    """
    with open_fleet(find()) as fleet:
        now = fleet.store.now().astimezone()
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
        usual = {
            "today": midnight,
            "7 days": now - timedelta(days=7),
            "30 days": now - timedelta(days=30),
            "total": None,
        }
        found = counting.spending(fleet, {f"since {since}": counting.moment(since, now=now)} if since else usual)
    if as_json:
        click.echo(encode_printable([each.view() for each in found], 2))
        return
    costs = [cost(each.cost_usd, each.cost_basis) for each in found]
    rows = [
        (each.period, spent, count(each.tokens), str(each.runs), str(each.verified))
        for each, spent in zip(found, costs, strict=True)
    ]
    tables.show(("Period", "Cost", "Tokens", "Runs", "Verified"), rows, right=("Cost", "Tokens", "Runs", "Verified"))
    if marks := explained(costs):
        click.echo(f"cost: {marks}", err=True)
