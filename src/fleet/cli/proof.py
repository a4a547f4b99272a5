"""`fleet receipt`, `verify`, `stats` and `cost`: what was proven, and what it cost."""

import sys
from datetime import timedelta

import click

from fleet.actions.proof import receipt_words, recheck
from fleet.actions.proof import stats as counting
from fleet.actions.proof.candidates import find_candidates
from fleet.actions.proof.ranking import RankedCandidate
from fleet.actions.proof.receipts import ReceiptCheck, Shown, check, find_receipt
from fleet.actions.proof.stats import CoderStatistics
from fleet.actions.tasks.rights import refuse_agents
from fleet.assembly import open_fleet
from fleet.cli import person, tables
from fleet.cli.options import complete, with_coder, with_json
from fleet.cli.tables import NOTHING, cost, count, duration, explained, percent
from fleet.cli.text import clean
from fleet.core.finding import FINDINGS, Finding
from fleet.core.jsontext import encode_printable
from fleet.core.run import COMPUTED, UNKNOWN
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
        _print_statistics(found, wide=wide)
    else:
        click.echo("no run has ended yet" if not (since or coder) else "no such run has ended", err=True)


def _print_statistics(found: list[CoderStatistics], *, wide: bool) -> None:
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
