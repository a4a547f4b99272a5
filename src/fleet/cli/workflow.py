"""`fleet workflow`: write, check, show and run workflow files."""

import os

import click

from fleet.actions.workers import workflow_create
from fleet.actions.workers.workflows import Flow, meant
from fleet.cli import person
from fleet.cli.bd.text import shown
from fleet.cli.options import with_json
from fleet.cli.workflow_runs import cancel, cleanup, listed, opened, results, run, status, tell_faults
from fleet.core.jsontext import encode_printable
from fleet.core.workflow import Stage, WorkflowPlan
from fleet.home import find
from fleet.workflows import templates
from fleet.workflows.faults import BadWorkflow


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
