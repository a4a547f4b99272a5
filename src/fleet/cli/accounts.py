"""`fleet accounts`: show the state of coder accounts, and unpark them."""

from collections.abc import Sequence

import click

from fleet.actions.control import accounts as standing
from fleet.actions.control.accounts import AccountState, AccountStatus
from fleet.assembly import open_fleet
from fleet.cli import person
from fleet.cli.tables import NOTHING, StyledText, count, instant, money, percent, show
from fleet.cli.text import clean
from fleet.core.jsontext import encode_printable
from fleet.home import find

COLUMNS = ("Coder", "Account", "State", "Running", "Cost", "Last used", "Runs", "Tokens", "Order")
#: Columns that a narrow screen omits, the least important first.
DROP = ("Order", "Tokens", "Runs", "Last used", "Running")
COLORS = {AccountState.READY: "green", AccountState.PARKED: "yellow", AccountState.SLOWED: "yellow"}


@click.group(invoke_without_command=True)
@click.option("--wide", is_flag=True, help="Show all columns, even on a narrow screen.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def accounts(ctx: click.Context, wide: bool, as_json: bool) -> None:
    """Show the accounts of coders: ready, or parked with reason and end, and the usage of their runs.

    For claude and codex, also show the last known usage of each window of the plan.

    Accounts are listed under [[accounts]] in runtime.toml. A coder without accounts uses your own login.
    """
    if ctx.invoked_subcommand:
        return
    with open_fleet(find()) as fleet:
        found = standing.accounts(fleet)
    if as_json:
        click.echo(encode_printable([each.view() for each in found], 2))
    elif found:
        _list(found, () if wide else DROP)
    else:
        click.echo("the settings name no account, and no run has used an account yet", err=True)


@accounts.command()
@click.argument("name", metavar="NAME|CODER[/NAME]")
def unpark(name: str) -> None:
    """Make a parked account available now, whatever limit it met. CODER alone means all accounts of the coder."""
    with open_fleet(find()) as fleet:
        for each, was_parked in standing.unpark(fleet, name, caller=person.caller(fleet)):
            click.echo(f"{each.label}: {'can be used again' if was_parked else 'was not parked'}")


def _list(found: list[AccountStatus], drop: Sequence[str]) -> None:
    rows = []
    for each in found:
        known, own = each.known, each.own
        until = f" until {instant(each.until)}" if each.until else ""
        rows.append(
            (
                StyledText(known.coder, "cyan"),
                StyledText(known.name or "your own login", dim=not known.name),
                StyledText(each.state + until, COLORS.get(each.state), dim=each.state == AccountState.UNUSED),
                f"{each.running}/{own.max_concurrent}" if own and own.max_concurrent else str(each.running),
                money(each.total.cost_usd or None),
                instant(known.used_at),
                count(each.total.runs),
                count(each.total.tokens),
                str(own.order) if own else NOTHING,
            )
        )
    right, below = ("Order", "Running", "Runs", "Tokens", "Cost"), [each.reason for each in found]
    show(COLUMNS, rows, right=right, fold=("State", "Account", "Coder"), drop=drop, below=below)
    _list_quotas(found)
    parked = [each.label for each in found if each.state in (AccountState.PARKED, AccountState.SLOWED)]
    if parked:
        click.echo(f"`fleet accounts unpark {clean(parked[0])}` unparks the account now", err=True)


def _list_quotas(found: list[AccountStatus]) -> None:
    """Print each account's quota use. A window that has reset shows no figure, because its use is unknown and not 0."""
    rows = [(each.label, each.view()["quota"], each.quotas) for each in found if each.quotas]
    if not rows:
        return
    cells = []
    for label, views, quotas in rows:
        for view, quota in zip(views, quotas, strict=True):
            resets = "has reset" if view["stale"] else instant(quota.resets_at)
            used = percent(view["used_percent"])
            cells.append((StyledText(label, "cyan"), quota.span, used, resets, instant(quota.seen_at)))
    click.echo()
    heads = ("Account", "Window", "Used", "Resets", "Seen")
    show(heads, cells, right=["Used"], fold=("Account", "Window"))
