"""`fleet runs`: every run of a task, or two side by side."""

from typing import Any

import click

from fleet.actions.tasks import runs as history
from fleet.assembly import open_fleet
from fleet.cli import person
from fleet.cli.options import complete
from fleet.cli.tables import NOTHING, StyledText, cost, count, differing, duration, explained, show
from fleet.cli.text import clean
from fleet.core.errors import UsageError
from fleet.core.jsontext import encode_printable
from fleet.home import find

COLUMNS = ("Run", "Outcome", "Cost", "Duration", "Coder", "Account", "Model", "Changed", "Verified", "Tokens", "Events")
#: Columns that a narrow screen omits, the least important first.
DROP = ("Events", "Tokens", "Model", "Verified", "Account", "Changed", "Coder")


@click.command()
@click.argument("names", metavar="NAME [NAME]", nargs=-1, required=True, shell_complete=complete("names"))
@click.option("--compare", type=(int, int), metavar="N M", help="Compare runs N and M of the task side by side.")
@click.option("--wide", is_flag=True, help="Show all columns, even on a narrow screen.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def runs(names: tuple[str, ...], compare: tuple[int, int] | None, wide: bool, as_json: bool) -> None:
    """Show all runs of a task with outcome, reason, coder and usage, or compare two tasks."""
    if len(names) > 2 or (compare and len(names) != 1):
        raise UsageError(
            "expected one task, two tasks, or one task and --compare", hint="run `fleet runs --help` to show how"
        )
    with open_fleet(find()) as fleet:
        if compare:
            found = history.two_runs(fleet, names[0], compare, person.scope())
        elif len(names) == 2:
            found = history.last_runs(fleet, names, person.scope())
        else:
            _, found = history.runs(fleet, names[0], person.scope())
    if as_json:
        click.echo(encode_printable(found, 2))
    elif compare or len(names) == 2:
        _side_by_side(found)
    elif found:
        _list(found, wide=wide)
    else:
        click.echo(f"{names[0]} has no run yet; `fleet tasks` shows why", err=True)


def _list(found: list[dict[str, Any]], *, wide: bool) -> None:
    rows = [
        (
            str(run["number"]),
            StyledText(_outcome(run), "green" if run["ending"] == "finished" else None if run["live"] else "yellow"),
            cost(run["cost_usd"], run["cost_basis"] or ""),
            duration(run["seconds"]),
            run["coder"],
            run["account"] or NOTHING,
            run["model"] or "its own",
            run["changed"] or NOTHING,
            run["verified"] or NOTHING,
            count(run["tokens"]),
            count(run["events"]),
        )
        for run in found
    ]
    right, below = ("Run", "Events", "Tokens", "Cost", "Duration"), [run["reason"] for run in found]
    show(COLUMNS, rows, right=right, fold=["Outcome"], drop=() if wide else DROP, below=below)
    if marks := explained(cost(run["cost_usd"], run["cost_basis"] or "") for run in found if run["tokens"]):
        click.echo(f"cost: {marks}", err=True)
    for run in found:
        for flag in run["flags"]:
            click.echo(f"run {run['number']}: {clean(flag)}")
    if found[-1]["receipt"]:
        click.echo(f"`fleet receipt {found[-1]['task']}` shows the result of its last run", err=True)


def _side_by_side(found: list[dict[str, Any]]) -> None:
    rows: list[list[str | StyledText]] = []
    extra = [name for name in ("runs", "all_tokens", "all_cost_usd", "all_cost_basis") if name in found[0]]
    for name in (*extra, *history.COMPARED[1:]):
        values = [_value(name, run) for run in found]
        if any(value != NOTHING for value in values):
            rows.append([name.replace("_", " "), *differing(values)])
    names = [run["run"] for run in found]
    show(["", *names], rows, fold=names)


def _value(name: str, run: dict[str, Any]) -> str:
    value = run[name]
    if value in (None, ""):
        return _outcome(run) if name == "ending" else NOTHING
    if name.endswith("cost_usd"):
        return cost(value, run[name.replace("usd", "basis")] or "")
    return duration(value) if name == "seconds" else str(value)


def _outcome(run: dict[str, Any]) -> str:
    found = run["finding"]
    return "running" if run["live"] else f"{run['ending']}{f' ({found})' if found else ''}"
