"""`fleet list`: the agents that have their own branch."""

import time
from collections.abc import Sequence
from itertools import groupby

from fleet.actions.worktrees.rows import AgentRow, rows, with_cpu
from fleet.actions.worktrees.strays import strays_unwatched
from fleet.assembly import open_fleet
from fleet.cli import lazy_click as click
from fleet.cli import person, tables
from fleet.cli.errors import heed_reader
from fleet.cli.tables import NOTHING, StyledText, cost, count, duration
from fleet.cli.text import clean
from fleet.core.jsontext import encode_printable
from fleet.core.run import COMPUTED, UNKNOWN
from fleet.core.task_status import TaskPhase
from fleet.home import find

HEADS = (
    *("Branch", "Task", "Project", "Status", "Title", "Agent", "CPU", "Memory", "Runtime", "Tokens", "Cost", "Diff"),
    "Batch",
)
#: Columns that a narrow screen omits, the least important first.
DROP = ("Batch", "Project", "Memory", "CPU", "Tokens", "Agent", "Runtime", "Diff", "Title")
#: An agent that has not read its prompt for this long may be waiting at its terminal.
SLOW_START_SECONDS = 20
#: Marks a branch that collides with another.
MARK = "!"
COLORS = {
    TaskPhase.WORKING: "green",
    TaskPhase.FINISHED: "green",
    TaskPhase.WAITING: "yellow",
    TaskPhase.IDLE: "yellow",
    TaskPhase.FAILED: "red",
}
RIGHT = ("CPU", "Memory", "Runtime", "Tokens", "Cost", "Diff")


@click.command("list")
@click.argument("names", metavar="[NAME…]", nargs=-1, shell_complete="complete_names")
@click.option("-g", "--grouped", is_flag=True, help="Group the agents by batch.")
@click.option("-a", "--all", "everything", is_flag=True, help="Include agents that ended and whose worktrees are gone.")
@click.option("-w", "--watch", is_flag=True, help="Refresh every second until you press Ctrl-C.")
@click.option("--all-projects", is_flag=True, help="Include all repositories, not only the current one.")
@click.option(
    "--repair",
    is_flag=True,
    help="Repair sessions, worktrees, branches and tasks that do not match, and report each change.",
)
@click.option("--wide", is_flag=True, help="Show all columns, even on a narrow screen.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_agents(
    names: tuple[str, ...], all_projects: bool, repair: bool, watch: bool, everything: bool, **form: bool
) -> None:
    """List the agents of this repository, with their activity, resource usage and size of changes.

    With NAME, list only these tasks, branches or globs over branches.
    """
    scope = person.scope(all_projects=all_projects)
    with open_fleet(find()) as fleet:
        if repair:
            from fleet.actions.worktrees.repair import repair as repair_all  # rarely used

            for line in repair_all(fleet, scope, caller=person.caller(fleet)) or ["nothing to repair"]:
                click.echo(clean(line), err=True)
        with tables.live_view(watch and not form["as_json"]) as begin_frame:
            while True:
                found = with_cpu(fleet, rows(fleet, scope, names, everything=everything))
                unlisted = strays_unwatched(fleet)
                begin_frame()
                _print(found, compact=watch, projects=all_projects, **form)
                for line in [] if repair else unlisted:  # a repair has reported them
                    click.echo(clean(line), err=True)
                if not watch:
                    return
                heed_reader()
                time.sleep(1)


def _print(found: list[AgentRow], *, grouped: bool, as_json: bool, wide: bool, compact: bool, projects: bool) -> None:
    drop, omitted = () if wide else DROP, () if projects else ("Project",)
    if as_json:
        click.echo(encode_printable([row.view() for row in found], None if compact else 2))
        return
    if not found:
        click.echo("no agents here; `fleet create BRANCH -p PROMPT` starts one", err=True)
    elif grouped:
        by_batch = sorted(found, key=lambda row: (row.task.batch, row.task.created_at))
        for batch, group in groupby(by_batch, key=lambda row: row.task.batch):
            members = list(group)
            click.echo(f"{batch or 'no batch'}: {_counted(members)}")
            _show(members, drop, ("Batch", *omitted))
            click.echo()
    else:
        _show(found, drop, omitted)
    if compact and found:
        click.echo(_totals(found))
    _print_notes(found)


def _print_notes(found: list[AgentRow]) -> None:
    """Print why agents wait, and a legend for the mark of collisions."""
    for row in found:
        if row.status == TaskPhase.QUEUED and row.task.reason:
            click.echo(f"{row.task.branch} waits: {clean(row.task.reason)}")
        branch = row.task.branch
        if row.status == TaskPhase.WAITING:
            click.echo(f"{branch} waits for you: `fleet questions` shows what to answer")
        elif row.prompt and (row.runtime_seconds or 0) > SLOW_START_SECONDS:
            click.echo(f"{branch} has not read its prompt yet: `fleet attach {branch}` shows why")
    if any(row.collides for row in found):
        click.echo(f"{MARK} collides with another branch: `fleet conflicts` shows the branches and files")


def _show(found: list[AgentRow], drop: Sequence[str], omitted: Sequence[str]) -> None:
    """Print the table without the omitted columns."""
    at = [number for number, head in enumerate(HEADS) if head not in omitted]
    cells = [[row[number] for number in at] for row in map(_cells, found)]
    drop = [head for head in drop if head not in omitted]
    tables.show([HEADS[number] for number in at], cells, right=RIGHT, cut=["Title"], drop=drop)


def _totals(found: list[AgentRow]) -> str:
    """Return the counts, the tokens and the cost of these agents, and the time of this look."""
    spent = [row.spent for row in found if row.spent]
    costs = [each.cost_usd for each in spent if each.cost_usd is not None]
    bases = {each.cost_basis for each in spent}
    basis = next((each for each in (UNKNOWN, COMPUTED) if each in bases), "")
    total = cost(sum(costs) if costs else None, basis)
    now = found[0].now.astimezone()
    return f"{_counted(found)} · {count(sum(each.tokens for each in spent))} tokens · {total} · as of {now:%H:%M:%S}"


def _counted(found: list[AgentRow]) -> str:
    words = [row.derived.result for row in found]
    return ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))


def _cells(row: AgentRow) -> tuple[str | StyledText, ...]:
    run, spent, live = row.run, row.spent, row.run if row.is_live else None
    size = NOTHING
    if run is not None and run.diff_files is not None:
        size = f"+{run.diff_added or 0} -{run.diff_removed or 0} in {run.diff_files}"
    memory = NOTHING if live is None or live.rss_kb is None else f"{live.rss_kb / 1024:.0f}M"
    return (
        row.task.branch,
        row.task.id,
        row.task.repo.rpartition("/")[2] or NOTHING,
        StyledText(row.derived.result, COLORS.get(row.status)),
        row.task.title,
        (run.coder if run else row.task.coder) or NOTHING,
        NOTHING if live is None or live.cpu_pct is None else f"{live.cpu_pct:.0f}%",
        memory,
        duration(row.runtime_seconds),
        count(spent.tokens if spent else None),
        cost(spent.cost_usd, spent.cost_basis) if spent else NOTHING,
        f"{MARK} {size}" if row.collides else size,
        row.task.batch,
    )
