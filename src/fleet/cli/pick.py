"""`fleet pick` and `fleet compare`: rank several pieces of work, and show how two of them differ."""

import sys
from typing import Any

import click

from fleet.actions.proof import judge, keep_winner, ranking, recheck
from fleet.actions.proof import pick as picking
from fleet.actions.proof.candidates import find_candidates, is_glob
from fleet.actions.proof.compare import BranchComparison, ComparedBranch
from fleet.actions.proof.compare import compare as compared
from fleet.actions.proof.judge import JudgeChoice
from fleet.actions.proof.keep_winner import UNPROVEN, KeptWinner
from fleet.actions.proof.pick import Pick
from fleet.actions.proof.ranking import RankedCandidate
from fleet.actions.tasks.names import NameScope, find_tasks
from fleet.actions.tasks.names import shown as shown_names
from fleet.actions.tasks.rights import refuse_agents
from fleet.assembly import Fleet, open_fleet
from fleet.cli import person
from fleet.cli.confirmation import is_sure
from fleet.cli.options import complete, with_all_projects, with_json, with_yes
from fleet.cli.tables import NOTHING, StyledText, cost, differing, duration, show
from fleet.cli.text import clean, shown
from fleet.core.jsontext import encode_printable
from fleet.core.verification import Verification
from fleet.home import find

JUDGE_SECONDS = 900
COLUMNS = ("", "Branch", "Finding", "Cost", "Tests", "Diff", "Time", "Coder", "Task")
#: Columns that a narrow screen omits, the least important first.
DROP = ("Task", "Coder", "Time", "Diff", "Tests")
MOST_SHOWN = 12


@click.command()
@click.argument("names", metavar="BATCH|NAME…", nargs=-1, required=True, shell_complete=complete("names"))
@click.option(
    "--verify",
    "command",
    default="",
    metavar="CMD",
    help="Verify the results with CMD instead of the project's command.",
)
@click.option("--judge", metavar="CODER", shell_complete=complete("coders"), help="Let CODER decide ties.")
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    metavar="N",
    help="Shuffle the order that the judge sees with seed N. [default: random]",
)
@click.option(
    "--judge-seconds",
    type=click.IntRange(min=1),
    default=JUDGE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Stop the judge after SECONDS.",
)
@click.option("--merge", "to_merge", is_flag=True, help="Merge the best result; keep the others under refs/fleet/kept.")
@with_yes
@click.option(
    "--jobs",
    type=click.IntRange(min=1, max=64),
    metavar="N",
    help="Verify N results at once. [default: number of CPUs, at least 2]",
)
@with_all_projects
@click.option("--wide", is_flag=True, help="Show all columns, even on a narrow screen.")
@with_json
def pick(names: tuple[str, ...], command: str, **given: Any) -> int:
    """Verify several agents' results of the same task in the same clean conditions, and show the best.

    fleet ranks the results by finding, then by tests passed, then by smallest change, shortest time and lowest cost.
    Results with the same finding and as many passed tests tie. A judge, who reads the diffs without names, may decide
    a tie. Exit code 1: no result is acceptable.
    """
    quiet = given["as_json"]
    with open_fleet(find()) as fleet:
        refuse_agents(person.caller(fleet), "pick: it judges agents' work")
        scope = person.scope(all_projects=given["all_projects"])
        if given["to_merge"] and not given["sure"] and not _is_meant(fleet, names, scope):
            return 1
        field = find_candidates(fleet, names, scope=scope, directory=person.current_directory())
        plan = picking.plan_for(fleet, field, command)
        jobs = given["jobs"] or picking.jobs_for(field)
        found = picking.pick(fleet, field, plan, jobs=jobs, tell=lambda each: _progress(each, quiet=quiet))
        recheck.record(fleet, field.view, found.entries, by=person.name())
        if given["judge"]:
            found = _judged(fleet, found, field.view, given)
        why = keep_winner.refusal(found.winner) if given["to_merge"] else ""
        taken = None
        if given["to_merge"] and not why and found.winner:
            taken = keep_winner.take(
                fleet,
                field.view,
                found.winner,
                found.losers,
                by=person.name(),
                tell=lambda words: click.echo(clean(words), err=True),
            )
        ahead = keep_winner.outlook(fleet, found.winner) if found.winner and not given["to_merge"] else ("", "")
    if quiet:
        merged = taken.view() if taken else {"refused": why} if why else None
        told = {"merge": merged, "next": ahead[0] or None, "why_not": (ahead[1] or None) if not ahead[0] else None}
        click.echo(encode_printable(found.view() | told, 2))
    else:
        _print(found, taken, why, ahead, wide=given["wide"])
    return 1 if found.winner is None or why or (taken is not None and not taken.landed) else 0


def _is_meant(fleet: Fleet, names: tuple[str, ...], scope: NameScope) -> bool:
    """Return True if the best of the tasks that globs match may be merged."""
    globs = [name for name in names if is_glob(fleet, name)]
    fitting = find_tasks(fleet, globs, scope=scope)
    best = f"the best of {shown_names(fleet, fitting)}"
    return not fitting or is_sure(fleet, fitting, "merge", best, which="the best of them")


def _judged(fleet: Fleet, found: Pick, view: Any, given: dict[str, Any]) -> Pick:
    tied = ranking.tied(found.entries)
    if len(tied) < 2:
        return found
    seed = judge.new_seed() if given["seed"] is None else given["seed"]
    terms = {"coder": given["judge"], "seed": seed, "by": person.name(), "seconds": float(given["judge_seconds"])}
    said = judge.judge(fleet, view, tied, **terms)
    best = next((each for each in tied if each.candidate.name == said.chosen), None)
    entries = ranking.with_first(found.entries, best) if best else found.entries
    return found._replace(entries=entries, judged=said)


def _progress(each: RankedCandidate, *, quiet: bool) -> None:
    if not quiet and sys.stderr.isatty() and each.verification:
        seen = each.verification
        click.echo(f"{clean(each.candidate.name)}: {clean(seen.in_words)} ({duration(seen.seconds)})", err=True)


def _print(found: Pick, taken: KeptWinner | None, why: str, ahead: tuple[str, str], *, wide: bool) -> None:
    rows = []
    for number, each in enumerate(found.entries, 1):
        best = found.winner is each
        rows.append([f"{'→' if best else ' '}{number}", *_cells(each, best=best)])
    below = ["; ".join(each.shown)[:300] for each in found.entries]
    show(COLUMNS, rows, right=("Time", "Cost"), fold=["Finding"], drop=() if wide else DROP, below=below)
    for name, reason in found.left_out:
        click.echo(f"left out: {clean(name)}: {clean(reason)}")
    if found.plan.why_not:
        click.echo(f"nothing was run: {clean(found.plan.why_not)}; pass `--verify CMD`", err=True)
    if found.judged:
        _tell_judged(found.judged)
    elif found.tied:
        _tell_tied(found.tied)
    if found.winner is None:
        _tell_none(found)
    elif why:
        click.echo(f"nothing was merged: {clean(why)}", err=True)
    elif taken is None:
        click.echo(f"best: {clean(found.winner.candidate.name)}; {clean(_next(*ahead))}")
    if taken is not None:
        _tell_taken(taken)


def _tell_none(found: Pick) -> None:
    if found.lacks:
        click.echo(f"the verify command cannot run in a clean checkout: {clean(found.lacks)}", err=True)
        click.echo("hint:  set `verify.use` or `verify.setup`: see `fleet help settings`", err=True)
    else:
        click.echo("no candidate is good enough", err=True)


def _cells(each: RankedCandidate, *, best: bool) -> list[str | StyledText]:
    candidate = each.candidate
    return [
        StyledText(candidate.branch, bold=best),
        StyledText(each.finding, "green" if best else None if each.finding in ranking.GOOD else "yellow"),
        cost(candidate.cost_usd, candidate.cost_basis),
        _tests(each.verification),
        f"+{candidate.size.added} -{candidate.size.removed} in {candidate.size.files}",
        duration(candidate.seconds),
        candidate.coder or NOTHING,
        candidate.task.id if candidate.task else NOTHING,
    ]


def _tests(seen: Verification | None) -> str:
    if seen is None or (seen.passed is None and seen.failed is None):
        return NOTHING
    return f"{seen.passed or 0} passed" + (f", {seen.failed} failed" if seen.failed else "")


def _tell_tied(tied: list[RankedCandidate]) -> None:
    names = ", ".join(clean(each.candidate.name) for each in tied[:MOST_SHOWN])
    names += f" and {len(tied) - MOST_SHOWN} more" if len(tied) > MOST_SHOWN else ""
    click.echo(f"tie: {names}; the first is first because {ranking.tie_break(*tied[:2])}")


def _next(command: str, onto: str) -> str:
    """Return the command that merges the best, or why it cannot be merged."""
    if not command:
        return onto if onto == UNPROVEN else f"it cannot be merged yet: {onto}"
    return f"`{command}` verifies it on {onto} and merges it" if onto else f"`{command}` merges it"


def _tell_judged(said: JudgeChoice) -> None:
    order = ", ".join(f"{letter} {clean(name)}" for letter, name in said.letters.items())
    if said.failed:
        click.echo(f"the judge ({clean(said.coder)}, {said.task}) made no decision: {clean(said.failed)}", err=True)
        click.echo(f"the order is unchanged (seed {said.seed}: {order})", err=True)
    else:
        click.echo(f"the judge ({clean(said.coder)}, {said.task}) chose {clean(said.chosen)}: {clean(said.reason)}")
        click.echo(f"it saw the results without names, in the order of seed {said.seed}: {order}")


def _tell_taken(taken: KeptWinner) -> None:
    done = taken.merging
    for each in done.merged:
        where = f"{clean(done.target)} is at {each.commit[:12]}" if done.moved else f"it waits at {clean(done.waiting)}"
        click.echo(f"merged {clean(each.branch)}: {where}")
    if done.merged and not done.moved and done.command:
        click.echo(f"  take it: {clean(done.command)}")
    for note in done.notes:
        click.echo(clean(note), err=True)
    for left in done.left_out:
        click.echo(f"not merged: {clean(left.branch)}: {clean(left.why)}", err=True)
    for name, ref in taken.kept.items():
        click.echo(f"kept {clean(name)}: {ref}")


@click.command()
@click.argument("one", metavar="NAME", shell_complete=complete("names"))
@click.argument("other", metavar="NAME", shell_complete=complete("names"))
@click.option("--patch", is_flag=True, help="Show differences line by line instead of by file.")
@with_all_projects
@with_json
def compare(one: str, other: str, patch: bool, all_projects: bool, as_json: bool) -> None:
    """Compare two branches side by side: their findings, changed files and differences."""
    with open_fleet(find()) as fleet:
        scope = person.scope(all_projects=all_projects)
        place = person.current_directory()
        found = compared(fleet, (one, other), scope=scope, directory=place, patch=patch)
    if as_json:
        click.echo(encode_printable(found.view(), 2))
        return
    _side_by_side(found)
    click.echo(shown(found.text) if found.text else "their results are the same", nl=not found.text)


def _side_by_side(found: BranchComparison) -> None:
    sides = (found.one, found.other)
    facts = [_facts(side) | {"files alone": _files(found.alone(side))} for side in sides]
    values = {name: [each[name] for each in facts] for name in facts[0]}
    rows: list[list[str | StyledText]] = []
    rows += [[name, *differing(each)] for name, each in values.items() if any(value != NOTHING for value in each)]
    names = [clean(side.candidate.name) for side in sides]
    show(["", *names], rows, fold=names)
    if found.both:
        click.echo(f"both touched: {clean(_files(found.both))}")


def _facts(side: ComparedBranch) -> dict[str, str]:
    each, seen = side.candidate, side.verification
    return {
        "task": each.task.id if each.task else NOTHING,
        "finding": _at_which(side),
        "verify": seen.in_words if seen else NOTHING,
        "tests": _tests(seen),
        "coder": " ".join(filter(None, (each.coder, each.model))) or NOTHING,
        "runs": str(len(each.runs)) if each.runs else NOTHING,
        "time": duration(each.seconds),
        "cost": cost(each.cost_usd, each.cost_basis),
        "diff": f"+{each.size.added} -{each.size.removed} in {each.size.files}",
    }


def _at_which(side: ComparedBranch) -> str:
    is_old = side.candidate.receipt is not None and not side.candidate.is_current
    return f"{side.finding} (older commit)" if is_old else side.finding or NOTHING


def _files(names: list[str]) -> str:
    if not names:
        return NOTHING
    more = len(names) - MOST_SHOWN
    return ", ".join(names[:MOST_SHOWN]) + (f" and {more} more" if more > 0 else "")
