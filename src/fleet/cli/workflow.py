"""`fleet workflow`: write, check and show workflow files, run them, and follow their runs."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import click

from fleet.actions.control import homes, supervisor
from fleet.actions.workers import warnings, workflow_create, workflows
from fleet.actions.workers.create import WorkerCreator
from fleet.actions.workers.terms import WorkerTerms
from fleet.actions.workers.workflow_create import WorkflowRequest
from fleet.actions.workers.workflows import Flow, meant
from fleet.assembly import Fleet, open_fleet
from fleet.cli import person
from fleet.cli.confirmation import agreed
from fleet.cli.errors import tell
from fleet.cli.kill import tell_removed
from fleet.cli.options import Option, complete, with_dry_run, with_json, with_limit, with_yes
from fleet.cli.text import clean, shown
from fleet.core.errors import HomeMissing, UsageError
from fleet.core.jsontext import encode_printable
from fleet.core.workflow import Stage, WorkflowPlan
from fleet.home import find
from fleet.workflows import templates
from fleet.workflows.faults import BadWorkflow

#: The states of a stage that may have had an agent.
WORKED = (workflows.StageState.DONE, workflows.StageState.FAILED, workflows.StageState.STOPPED)


@click.command()
@click.argument("file")
@click.option(
    "-p", "--prompt", metavar="PROMPT", help="Replace {task_prompt} in the file with PROMPT; - reads it from stdin."
)
@click.option(
    "--repo", metavar="DIR", help="Work on the repository checked out in DIR. [default: the current directory]"
)
@click.option(
    "--base", metavar="REF", shell_complete=complete("refs"), help="Start stages from REF: a branch, tag or commit."
)
@click.option(
    "--wait",
    is_flag=True,
    help="Wait until the workflow finishes or needs your answer. Exit code 1 unless it succeeded.",
)
@with_json
def run(file: str, prompt: str | None, repo: str | None, base: str | None, wait: bool, as_json: bool) -> int:
    """Run a workflow file. Each stage becomes a task. fleet starts a supervisor if none is running."""
    home, here = find(), person.current_directory()
    directory = os.path.join(here, repo) if repo else here  # noqa: PTH118 - paths of users are strings
    try:
        plan = workflow_create.plan_of(home, file, cwd=directory, env=os.environ)
    except BadWorkflow as error:
        return tell_faults(error)
    said = sys.stdin.read() if prompt == "-" else prompt or ""
    terms = WorkerTerms.of(os.environ)
    if homes.ensure(home):
        click.echo(f"fleet home initialized at {home.root}", err=True)
    with open_fleet(home) as fleet:
        maker = WorkerCreator(person.name(), person.caller(fleet))
        asked = WorkflowRequest(directory=directory, prompt=said, base=base or "")
        made = workflow_create.make(fleet, plan, asked, terms, maker)
        if started := (supervisor.ensure(home) if maker.caller is None else None):
            click.echo(f"supervisor started: pid {started}", err=True)
        found = workflows.flow(fleet, made.id)
        for reason in warnings.of_stages(fleet, found):
            click.echo(f"warning: {clean(reason)}", err=True)
        if not as_json:
            click.echo(f"{made.id}: {len(found.stages)} stages of {clean(made.name)}")
        if not wait:
            click.echo(encode_printable(found.view(), 2) if as_json else _what_next(made.id), err=not as_json)
            return 0
        over = workflows.wait(fleet, made.id, tell=(lambda _: None) if as_json else StageReporter().tell)
        if not over.is_over:
            _tell_questions(fleet, over)
    click.echo(encode_printable(over.view(), 2) if as_json else _headline(over))
    return 0 if over.status == workflows.SUCCEEDED else 1


@click.command()
@click.argument("workflow_id", metavar="[ID]", default="")
@with_json
def status(workflow_id: str, as_json: bool) -> None:
    """Show the progress of a workflow by stage. Without ID, show all that run, or else the newest."""
    with opened() as fleet:
        found = [workflows.meant(fleet, workflow_id)] if workflow_id else workflows.current(fleet)
    if as_json:
        views = [each.view() for each in found]
        click.echo(encode_printable(views[0] if workflow_id else views, 2))
        return
    for each in found:
        _print(each)
    if not found:
        click.echo("no workflows yet: `fleet workflow run FILE` runs one", err=True)


def _print(found: Flow) -> None:
    click.echo(_headline(found))
    width = max((len(seen.stage.name) for seen in found.stages), default=0)
    for seen in found.stages:
        why = f"  {clean(seen.reason)}" if seen.reason else ""
        click.echo(f"{clean(seen.stage.name):<{width}}  {seen.state:<9}  {seen.task_id}{why}")


@click.command(name="list")
@with_limit("workflows", 25)
@click.option(
    "--status",
    type=click.Choice(workflows.STATUSES),
    multiple=True,
    help="Show only workflows with this status; repeatable.",
)
@with_json
def listed(limit: int, status: tuple[str, ...], as_json: bool) -> None:
    """List workflows, newest first."""
    with opened() as fleet:
        found = workflows.flows(fleet, status or None, limit=limit or workflows.MOST_LISTED)
    if as_json:
        click.echo(encode_printable([flow.view() for flow in found], 2))
        return
    for flow in found:
        click.echo(_headline(flow))
    if not found:
        click.echo(f"none is {' or '.join(status)}" if status else "no workflows yet: run `fleet workflow run FILE`")


@click.command()
@click.argument("workflow_id", metavar="ID")
@with_json
def results(workflow_id: str, as_json: bool) -> None:
    """Show the results of a workflow's stages."""
    with opened() as fleet:
        found = workflows.meant(fleet, workflow_id)
    if as_json:
        click.echo(encode_printable(workflows.results_view(found), 2))
        return
    for seen in found.stages:
        by_fleet = seen.result is not None and seen.result.made_by == "fleet" and seen.state in WORKED
        body = seen.result.told if seen.result else {}
        why = clean(str(body.get("refused") or "it left no result"))
        mark = f"; {why}: derived from its messages and changes" if by_fleet else ""
        click.echo(f"{clean(seen.stage.name)}: {seen.state}{mark}")
        for name in ("branch", "finding", "summary", "files_changed", "tests", "commits", "next_steps"):
            value = body.get(name)
            text = ", ".join(map(_entry, value)) if isinstance(value, list) else str(value or "")
            if text:
                click.echo(f"  {name.replace('_', ' ')}: {clean(text)}")


@click.command()
@click.argument("workflow_id", metavar="ID")
@with_json
def cancel(workflow_id: str, as_json: bool) -> None:
    """Stop a workflow. fleet asks running agents to end, and starts and asks nothing more. Finished work stays."""
    with open_fleet(find()) as fleet:
        found = workflows.cancel(fleet, workflow_id, caller=person.caller(fleet))
    click.echo(encode_printable(found.view(), 2) if as_json else _headline(found))


@click.command()
@click.argument("workflow_id", metavar="ID")
@click.option(
    *("-d", "--delete-branch", "branches"),
    cls=Option,
    former=["--branches"],
    is_flag=True,
    help="Delete the branches too; fleet keeps their tips.",
)
@with_yes
@with_dry_run
@with_json
def cleanup(workflow_id: str, branches: bool, sure: bool, dry_run: bool, as_json: bool) -> int:
    """Remove the worktrees of a finished workflow. fleet first saves work that exists only in them."""
    with open_fleet(find()) as fleet:
        found = workflows.flow(fleet, workflow_id)
        if dry_run:
            left = workflows.worktrees(fleet, found)
            rows = [{"task": space.task_id, "branch": space.branch, "worktree": space.path} for space in left]
            lines = [f"would remove {clean(space.branch)}: {clean(space.path)}" for space in left]
            click.echo(encode_printable(rows, 2) if as_json else "\n".join(lines) or "nothing to remove")
            return 0
        if not sure:
            if as_json or not sys.stdin.isatty():
                raise UsageError("cannot ask for confirmation without a terminal", hint="pass --yes")
            count, key = len(found.stages), found.workflow.id
            if not agreed(f"remove the worktrees of {count} stages of {key}?", "nothing was removed"):
                return 1
        done = workflows.cleanup(fleet, found.workflow.id, with_branches=branches, caller=person.caller(fleet))
    if as_json:
        click.echo(encode_printable([each.view() for each in done], 2))
    else:
        for each in done:
            tell_removed(each, "its worktree stays")
        if not done:
            click.echo("nothing to remove")
    return 0 if all(each.removed or each.later for each in done) else 1


@contextmanager
def opened() -> Iterator[Fleet]:
    """Open the home to look at workflows. Raises HomeMissing."""
    try:
        opening = open_fleet(find())
    except HomeMissing as error:
        raise HomeMissing(str(error), hint="no workflow has run yet: run `fleet workflow run FILE`") from error
    with opening as fleet:
        yield fleet


def tell_faults(error: BadWorkflow) -> int:
    """Print every fault of a file with its place. Return the exit code."""
    for fault in error.faults:
        tell(shown(str(fault)), shown(fault.hint))
    return error.exit_code


def _entry(entry: object) -> str:
    """Return an element of a result as text. A test is shown as its command and its result."""
    return f"{entry.get('command')} ({entry.get('status')})" if isinstance(entry, dict) else str(entry)


class StageReporter:
    """A reporter that prints each change of a stage's state or reason once."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str]] = {}

    def tell(self, flow: Flow) -> None:
        for seen in flow.stages:
            state, reason = self._known.get(seen.stage.name, (workflows.StageState.WAITING, ""))
            if state != seen.state or (seen.reason and reason != seen.reason):
                why = f": {clean(seen.reason)}" if seen.reason else ""
                click.echo(f"{clean(seen.stage.name)} {seen.state}{why}")
            self._known[seen.stage.name] = seen.state, seen.reason


def _headline(flow: Flow) -> str:
    done = sum(seen.state in (workflows.StageState.DONE, workflows.StageState.SKIPPED) for seen in flow.stages)
    why = f"  {clean(flow.trouble)}" if flow.trouble else ""
    return shown(f"{flow.workflow.id}  {flow.status:<9}  {done}/{len(flow.stages)}  {flow.workflow.name}{why}")


def _what_next(workflow_id: str) -> str:
    here, there = f"`fleet workflow status {workflow_id}`", f"`fleet workflow results {workflow_id}`"
    return f"{here} shows the progress, {there} the results"


def _tell_questions(fleet: Fleet, flow: Flow) -> None:
    names = {seen.task_id: seen.stage.name for seen in flow.stages}
    for each in fleet.store.questions.find(unanswered=True):
        if each.task_id in names:
            first = (each.text.strip().splitlines() or [""])[0]
            click.echo(clean(f"{names[each.task_id]} asks: {first}"), err=True)
            click.echo(
                f"run `fleet answer {each.id} TEXT` to continue; `fleet questions` shows the full text", err=True
            )


@click.group(invoke_without_command=True)
@click.pass_context
def workflow(context: click.Context) -> None:
    """Run agents that work together: a graph of stages, written in a JSON, TOML or YAML file."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@workflow.command()
@click.argument("template", required=False)
@click.option(
    "-o", "--out", metavar="FILE", help="Write the workflow to FILE; - writes to stdout. [default: TEMPLATE.toml]"
)
@with_json
def new(template: str | None, out: str | None, as_json: bool) -> None:
    """Write a workflow file from a template. Without TEMPLATE, list the templates."""
    if template is None:
        found = [(name, _first_comment(name)) for name in templates.names()]
        if as_json:
            click.echo(encode_printable([{"name": name, "description": text} for name, text in found], 2))
            return
        width = max(len(name) for name, _ in found)
        click.echo("\n".join(f"{name:<{width}}  {text}" for name, text in found))
        return
    if out == "-":
        click.echo(templates.text(template), nl=False)
        return
    path = out or f"{template}.toml"
    workflow_create.write_template(template, path)
    click.echo(encode_printable({"file": path}) if as_json else f"wrote {shown(path)}")


@workflow.command()
@click.argument("file")
@with_json
def validate(file: str, as_json: bool) -> int:
    """Check a workflow file. Report each problem with its location. Exit code 1 if there is a problem."""
    try:
        plan = _plan(file)
    except BadWorkflow as error:
        if as_json:
            click.echo(
                encode_printable({"file": file, "ok": False, "faults": [fault.view() for fault in error.faults]}, 2)
            )
        else:
            tell_faults(error)
        return 1
    if as_json:
        click.echo(encode_printable({"file": file, "ok": True, "faults": [], "stages": len(plan.stages)}, 2))
    else:
        click.echo(f"{shown(file)}: ok, {_count(plan)}")
    return 0


@workflow.command()
@click.argument("file", metavar="FILE|ID")
@with_json
def show(file: str, as_json: bool) -> int:
    """Show the stages of a workflow.

    For a FILE, show what it would run, with loops and fans unrolled. For an ID, show its progress.
    """
    found = _flow(file)
    try:
        plan = found.plan if found else _plan(file)
    except BadWorkflow as error:
        return tell_faults(error)
    if as_json:
        click.echo(encode_printable(found.view() if found else _view(plan), 2))
        return 0
    states = {seen.stage.name: seen.state for seen in found.stages} if found else {}
    about = f": {plan.description}" if plan.description else ""
    click.echo(shown(f"{plan.name}{about}\n"))
    click.echo(shown("\n".join(_line(stage, states.get(stage.name, "")) for stage in plan.stages)))
    return 0


for command in (run, status, listed, results, cancel, cleanup):
    workflow.add_command(command)


def _flow(name: str) -> Flow | None:
    """Return the workflow with this id. Return None if the name is a file's."""
    if not name.startswith("wf_") or os.path.exists(name):  # noqa: PTH110
        return None
    with opened() as fleet:
        return meant(fleet, name)


def _plan(file: str) -> WorkflowPlan:
    return workflow_create.plan_of(find(), file, cwd=person.current_directory(), env=os.environ)


def _first_comment(name: str) -> str:
    return templates.text(name).partition("\n")[0].lstrip("# ").rstrip(".")


def _count(plan: WorkflowPlan) -> str:
    number = len(plan.stages)
    return f"{number} stage{'s' if number != 1 else ''}"


def _line(stage: Stage, state: str) -> str:
    facts = [
        stage.coder or "the default coder",
        *([stage.model] if stage.model else []),
        *([f"after {', '.join(stage.needs)}"] if stage.needs else []),
        *(["inherits"] if stage.inherits else []),
        *(["changes nothing"] if stage.no_changes else []),
        *([f"when {stage.when}"] if stage.when else []),
        *([f"unless {stage.unless} in the round before"] if stage.unless else []),
        *([f"verify: {stage.verify}"] if stage.verify else []),
        *([f"for {stage.item}"] if stage.item is not None else []),
        *([f"for item {stage.items_from} of {stage.items_of}"] if stage.items_of else []),
    ]
    return f"{stage.name}{f' ({state})' if state else ''}: {'; '.join(facts)}"


def _view(plan: WorkflowPlan) -> dict[str, object]:
    stages = [{**stage.as_json(), "needs": stage.needs} for stage in plan.stages]
    return {**plan.as_json(), "stages": stages}
