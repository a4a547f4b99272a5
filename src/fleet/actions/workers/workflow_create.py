"""Creating workflows: all stages become tasks at once, with edges between them. None starts unless all can be made."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.tasks import branch_base, placement
from fleet.actions.tasks.rights import as_seen_by
from fleet.actions.workers.create import branch_of, rules_for
from fleet.coders import known
from fleet.core import checks
from fleet.core.dependency import Edge
from fleet.core.errors import BadInput, FleetError
from fleet.core.jsontext import encode
from fleet.core.record import Record
from fleet.core.task import HEADLESS, WORKTREE, Task
from fleet.core.workflow import StageOf, Workflow
from fleet.git.repository import NoRepository, find_repository
from fleet.settings import load
from fleet.supervisor.trust import refuse_untrusted, settings_in
from fleet.wake import wake
from fleet.workflows import templates
from fleet.workflows.check import KnownNames
from fleet.workflows.ids import new_workflow_id, task_of
from fleet.workflows.plan import plan_from_data, plan_from_file
from fleet.workflows.references import TASK_PROMPT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from typing import Any

    from fleet.actions.tasks.placement import Ticket
    from fleet.actions.workers.create import WorkerCreator
    from fleet.actions.workers.terms import WorkerTerms
    from fleet.assembly import Fleet
    from fleet.core.rules import Rules
    from fleet.core.workflow import Stage, WorkflowPlan
    from fleet.git.repository import Repository
    from fleet.home import Home
    from fleet.settings import Settings


ORIGIN = "workflow"
LONGEST_PROMPT = 1024 * 1024
LONGEST_TITLE = 200
ABOUT = f"{{{TASK_PROMPT}}}"


class WorkflowRequest(Record):
    """A caller's input for a workflow besides its plan."""

    directory: str
    prompt: str = ""
    base: str = ""


class _StageSite(NamedTuple):
    """The shared facts of all stages of a workflow."""

    workflow: Workflow
    repository: Repository
    settings: Settings
    terms: WorkerTerms
    rules: Rules  # of each stage, without the rules in the plan
    base: str
    now: datetime
    ticket: Ticket


def make(
    fleet: Fleet, plan: WorkflowPlan, asked: WorkflowRequest, terms: WorkerTerms, maker: WorkerCreator
) -> Workflow:
    """Create a task for each stage of a plan, all or none, and start the stages that wait for nothing.

    Raises BadInput, NoRepository, IllegalMove if the caller may not, and FleetError if something is not trusted.
    """
    if "\0" in asked.directory or not os.path.isdir(asked.directory):  # noqa: PTH112
        raise BadInput(f"{asked.directory[:200]!r} is not a directory", hint="pass a checkout of a git repository")
    try:
        repository = find_repository(asked.directory)
    except NoRepository as error:
        raise NoRepository(
            str(error), hint="go into a repository, or pass one with --repo (repo_path in a call)"
        ) from error
    rules = rules_for(fleet, repository.top, terms, maker.caller)
    settings = settings_in(fleet.home, fleet.store, repository.top)
    refuse_untrusted(fleet.store, repository, settings)
    prompt = _prompt(asked.prompt or plan.task_prompt)
    if not prompt.strip() and (asking := [stage.stage for stage in plan.stages if ABOUT in stage.prompt]):
        raise BadInput(
            f"the workflow has no prompt, but stage {asking[0]!r} uses {ABOUT}",
            hint='pass -p "…" on the command line, or task_prompt in the file or the call',
        )
    now = fleet.store.now()
    workflow = Workflow(
        id=new_workflow_id(),
        name=plan.name,
        repo=repository.top,
        plan=plan.text(),
        task_prompt=prompt,
        made_at=now,
        made_by=maker.by,
        caller=maker.caller.task_id if maker.caller else "",
    )
    base = branch_base.commit(fleet.home, repository, asked.base or plan.base, cwd=asked.directory)
    ticket = placement.ticket(fleet, repository, base, settings=settings)
    site = _StageSite(workflow, repository, settings, terms, rules, base, now, ticket)
    tasks = [_task(stage, site, maker.by) for stage in plan.stages]
    store = as_seen_by(fleet, maker.caller)
    with fleet.store.atomic():
        for task in tasks:
            store.tasks.add(task)
        for stage, task in zip(plan.stages, tasks, strict=True):
            for need in stage.needs:
                edge = Edge(task=task.id, needs=task_of(workflow.id, need), created_at=now, created_by=maker.by)
                store.edges.add(edge, check_cycles=False)  # the plan has no cycles
        fleet.store.workflows.add(workflow, _stages(workflow, plan))
    wake(fleet.home)
    return workflow


def _stages(workflow: Workflow, plan: WorkflowPlan) -> list[StageOf]:
    return [
        StageOf(
            task_id=task_of(workflow.id, stage.name),
            workflow_id=workflow.id,
            index=index,
            name=stage.name,
            spec=stage.text(),
        )
        for index, stage in enumerate(plan.stages)
    ]


def _task(stage: Stage, site: _StageSite, by: str) -> Task:
    workflow, terms, top = site.workflow, site.terms, site.repository.top
    key, coder = task_of(workflow.id, stage.name), terms.coder(stage.coder, site.settings)
    title = f"{workflow.name}: {stage.name}"
    return Task(
        id=key,
        title=title if len(title) <= LONGEST_TITLE else title[: LONGEST_TITLE - 1] + "…",
        description=stage.prompt,
        created_at=site.now,
        created_by=by,
        updated_at=site.now,
        cwd=top,
        repo=top,
        base=site.base,
        branch=branch_of(coder, f"{workflow.name}-{stage.name}", key),
        workspace=WORKTREE,
        mode=HEADLESS,
        coder=coder,
        model=checks.model(stage.model or terms.model(coder)),
        account=stage.account,
        verify=stage.verify,
        rules=_rules(stage, site).text(),
        limits=encode(terms.limits(stage.timeout_seconds)),
        remote=site.ticket.remote,
        requires=site.ticket.with_words(stage.requires),
        workflow=workflow.id,
        stage=stage.name,
        origin=ORIGIN,
        path=terms.path,
    )


def _rules(stage: Stage, site: _StageSite) -> Rules:
    rules = site.rules
    return rules.replace(
        retries=rules.retries if stage.retries is None else stage.retries,
        reasoning_effort=stage.reasoning_effort or rules.reasoning_effort,
        extra_args=stage.extra_args,
        no_changes=True if stage.no_changes else None,
    )


def _prompt(text: str) -> str:
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise BadInput("the prompt is not UTF-8 text", hint="convert it to UTF-8 first") from error
    if size > LONGEST_PROMPT or "\0" in text:
        raise BadInput(
            "the prompt is too long or contains a NUL character",
            hint=f"pass at most {LONGEST_PROMPT} bytes without NUL",
        )
    return text


def plan_of(home: Home, path: str, *, cwd: str, env: Mapping[str, str]) -> WorkflowPlan:
    """Return the plan in a workflow file.

    Raises BadWorkflow with every fault, and BadInput if the file is not a workflow file.
    """
    return plan_from_file(path, known=known_in(load(home, cwd, env)))


def plan_in_data(home: Home, data: dict[str, Any], *, cwd: str, env: Mapping[str, str]) -> WorkflowPlan:
    """Return the plan in plain data, as a caller of a tool passes it. Raises BadWorkflow with every fault."""
    settings = load(home, cwd if os.path.isdir(cwd) else None, env)  # noqa: PTH112
    return plan_from_data(data, name="workflow", known=known_in(settings))


def known_in(settings: Settings) -> KnownNames:
    return KnownNames(knows_coders(settings), knows_accounts(settings))


def knows_accounts(settings: Settings) -> Callable[[str, str], bool]:
    """Return a predicate: True if a coder has an account of this name, or any coder if none is given.

    It is always True for a queue shared by hosts, because the accounts of the other hosts are unknown.
    """
    is_shared = (settings.queue or "").startswith("postgres") or bool(settings.queue_command)

    def knows(coder: str, name: str) -> bool:
        return is_shared or any(each.name == name and coder in ("", each.coder) for each in settings.accounts)

    return knows


def knows_coders(settings: Settings) -> Callable[[str], bool]:
    """Return a predicate: True if a name is a coder here: built in, described by the settings, or an import string."""

    def knows(name: str) -> bool:
        try:
            known(name, described=settings.coders)
        except BadInput:
            return False
        return True

    return knows


def write_template(name: str, path: str) -> None:
    """Write a template to a new file. Raises BadInput if the template is unknown or the file exists, and FleetError."""
    data = templates.text(name).encode()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError as error:
        raise BadInput(f"{path} already exists", hint="pass another file with --out") from error
    except OSError as error:
        raise FleetError(f"cannot write {path}: {error.strerror}") from error
    with open(handle, "wb") as file:  # noqa: PTH123 - not a path
        file.write(data)
