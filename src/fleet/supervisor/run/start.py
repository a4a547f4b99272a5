"""The start of a run in steps: resolve, open the workspace, choose an account, record, build the command, launch."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from fleet import coders
from fleet.agents.base import LaunchSpec, SandboxSpec
from fleet.coders.base import Order
from fleet.coders.dialogs import pre_answer, trust_folder
from fleet.coders.prompt import Spoken, not_passed, not_so, prompt_for, spoken_for
from fleet.core.accounts import account_slots
from fleet.core.branch import session_name
from fleet.core.budget import COST, LEAST
from fleet.core.errors import FleetError
from fleet.core.finding import Finding
from fleet.core.jsontext import encode
from fleet.core.redaction import Redactor, secret_values
from fleet.core.rules import rules_of
from fleet.core.run import Run
from fleet.core.task import INTERACTIVE, NOT_TRUSTED, WORKTREE
from fleet.core.verification import verification_in
from fleet.files import make_private
from fleet.proof.baseline import marked, spawned
from fleet.settings import (
    accounts_for,
    config_folder,
    env_for,
    flags_for,
    model_for,
    permissions_for,
    program_for,
    window_for,
)
from fleet.settings.limits import watchdog_for
from fleet.supervisor.admission_inputs import NOT_INSTALLED, program_of
from fleet.supervisor.agent_launchers import HEADLESS, TMUX
from fleet.supervisor.answers import ASKED_BEFORE, take_answers
from fleet.supervisor.coder_files import left_by, patterns_of, told, trusted_in, untrusted_files
from fleet.supervisor.hand_edits import take_edits
from fleet.supervisor.logins import check_login
from fleet.supervisor.run.briefing import gather_inputs, keep_prompt, mark_carried, session_to_resume
from fleet.supervisor.run.costs import left_of, why_no_price
from fleet.supervisor.run.environment import RunPlace, agent_environment, agent_path
from fleet.supervisor.run.fold import going_on
from fleet.supervisor.run.live import Live, RunTerms
from fleet.supervisor.run.secrets import SecretRefused
from fleet.supervisor.run.stage import staged
from fleet.supervisor.run.workplace import (
    NotReady,
    RetryLater,
    adopt_workspace,
    be_alone,
    open_place,
    repository_of,
    verify_folder,
)
from fleet.supervisor.strays import keep_record
from fleet.supervisor.task_folder import TaskFolder, folder_of, home_of
from fleet.supervisor.trust import NO, WORKTREES, YES

if TYPE_CHECKING:
    from fleet.agents.base import Agent
    from fleet.coders.base import Coder, Command
    from fleet.core.run import Message, Question
    from fleet.core.task import Claim, Task
    from fleet.git.repository import Repository
    from fleet.home import Home
    from fleet.settings import Settings
    from fleet.settings.sections import AccountSettings
    from fleet.store.base import Store
    from fleet.supervisor.context import Context
    from fleet.supervisor.store_calls import StoreCalls

    Mark = tuple[Repository | None, str, str]

log = logging.getLogger(__name__)

#: How long a task waits at first for a missing program, and for an account without free slots.
NO_PROGRAM_SECONDS, NO_SLOT_SECONDS = 1.0, 5.0
#: How long a task waits before it checks again that its directory is free.
EXCLUSIVE_SECONDS = 2.0


class StillLives(FleetError):
    """A failed start whose agent may still live. Its run has not ended."""

    def __init__(self, run_id: str, error: Exception) -> None:
        super().__init__(f"{run_id} could not be started, and its agent does not stop: {error}")


class RunPlan(NamedTuple):
    """The plan of a run, resolved before anything is created for the run."""

    task: Task
    settings: Settings
    coder: Coder
    model: str
    launcher: str  # "headless" or "tmux:<socket>"
    folder: TaskFolder
    last: Run | None  # the previous run
    budget_usd: float | None = None  # its maximum cost

    @property
    def home(self) -> Home:
        """Return the home that holds the run's folder."""
        return self.folder.home

    @property
    def interactive(self) -> bool:
        """Return True if the agent runs in a terminal."""
        return self.task.mode == INTERACTIVE


class AgentStart(NamedTuple):
    """Everything needed to launch the agent of a recorded run."""

    run: Run
    folder: TaskFolder  # redacts the secrets of the agent's environment
    env: dict[str, str]
    command: Command
    spec: LaunchSpec
    messages: list[Message]  # messages that its prompt contains


async def start_run(context: Context, claim: Claim, stop: asyncio.Event) -> Live:
    """Start the next run of a claimed task. `stop` ends a long setup.

    Raises FleetError or OSError if the run has no live agent. Raises StillLives if its agent may live.
    """
    plan = await resolve_plan(context, claim)
    marking = asyncio.create_task(context.run_in_thread(_marked, plan))  # takes about as long as creating the worktree
    place = await open_place(context, claim, plan.task, plan.settings, plan.folder, stop)
    await check_files(context, plan, place)
    enter(context, plan, place.cwd)
    account = None
    try:
        account = await choose_account(context, plan.coder.name, plan.task.account or claim.account_of(plan.coder.name))
        run = await record_run(context, claim, plan, place, account)
        start = await build_command(context, claim, plan, place, run)
        return await launch(context, claim, plan, place, start, await marking)
    except BaseException:  # for any error, free the place and the account
        context.places[place.cwd] -= 1
        if account is not None:
            context.busy[plan.coder.name, account] -= 1
        raise


async def resolve_plan(context: Context, claim: Claim) -> RunPlan:
    """Fetch what the task needs onto this host. Return its coder, model, settings and budget as a plan."""
    store = context.store
    earlier = await store.call(store.runs.of_task, claim.task.id)
    last = earlier[-1] if earlier else None
    folder = TaskFolder(home_of(context.home, last), claim.task.id, redactor=context.redactor)
    folder.make()
    await be_alone(folder)
    task = await staged(context, claim) if claim.task.workflow and last is None else claim.task
    settings = context.settings
    edits = await store.call(take_edits, store.ports, folder, lambda: settings.coders, is_ours=True)
    if edits.problem:
        log.warning("task.json of %s ignored: %s", task.id, context.redactor.text(edits.problem))
    task = task.replace(**edits.fields)
    await context.cluster.fetch_task(task, folder)
    settings = await context.settings_for(task)
    coder = _installed_coder(context, task, settings)
    model = task.model or model_for(settings, coder.name) or ""
    launcher = f"{TMUX}:{settings.tmux.socket}" if task.mode == INTERACTIVE else HEADLESS
    plan = RunPlan(task, settings, coder, model, launcher, folder, last)
    return plan._replace(budget_usd=await store.call(_dollars, store.ports, plan))


async def check_files(context: Context, plan: RunPlan, place: RunPlace) -> None:
    """Refuse a directory where the coder would run untrusted commands. Raises NotReady.

    The previous run's agent may have left such files. The next run may use them if its agent may run anything anyway.
    """
    store = context.store
    coder, cwd = plan.coder, place.cwd
    known = await store.call(trusted_in, store.ports, place.workspace)
    if plan.last is not None and permissions_for(plan.settings, coder.name) == "skip":
        known |= left_by(plan.last)
    found = await asyncio.to_thread(untrusted_files, context.home, cwd, patterns_of(coder, plan.settings), known)
    if found:
        raise NotReady(
            f"{coder.name} would run commands from {told(found)} in {cwd}, which {NOT_TRUSTED}",
            hint=f"run `fleet trust {quote(cwd)}` to review and accept them, then `fleet retry {plan.task.id}`",
        )


def enter(context: Context, plan: RunPlan, cwd: str) -> None:
    """Count an agent in a directory. Raises RetryLater if another agent is there and the project is exclusive."""
    if context.places[cwd] > 0:
        if plan.settings.project.exclusive:
            raise RetryLater(f"another agent works in {cwd}, and its project is exclusive", seconds=EXCLUSIVE_SECONDS)
        log.warning("%s works in %s beside another agent", plan.task.id, cwd)
    context.places[cwd] += 1


async def choose_account(context: Context, coder: str, named: str) -> str:
    """Take a slot of the named account, or of the first with a free slot. Return its name. Raises RetryLater."""
    known = await context.store.call(context.store.accounts.all)
    found = account_slots(context.settings, coder, known, context.busy, context.now())
    fitting = [slot for slot in found if not named or slot.account == named]
    for slot in fitting:
        if slot.room:
            context.busy[coder, slot.account] += 1
            return slot.account
    reason = fitting[0].reason if fitting else f"{coder} has no account {named!r}"
    raise RetryLater(reason, seconds=NO_SLOT_SECONDS)


async def record_run(context: Context, claim: Claim, plan: RunPlan, place: RunPlace, account: str) -> Run:
    """Record the next run of a task and return it. Raises ClaimLost."""
    store = context.store
    workspace, last = place.workspace, plan.last
    run = Run(
        id="",
        task_id=claim.task.id,
        number=0,
        epoch=claim.epoch,
        owner=context.owner,
        launcher=plan.launcher,
        containment=context.launchers.find(plan.launcher).containment,
        coder=plan.coder.name,
        model=plan.model,
        account=account,
        workspace=place.cwd,
        home=plan.home.root,
        branch=workspace.branch if workspace else "",
        base_commit=workspace.base_commit if workspace else "",
        session_name=await _session_name(store, plan) if plan.interactive else "",
        flags=encode([f"not copied: {each}" for each in workspace.made.get("refused", ())] if workspace else []),
        context_window=window_for(plan.settings, plan.coder.name) or plan.coder.window(plan.model),
        started_at=context.now(),
    )
    if last is not None and session_to_resume(plan.coder, run, last):
        run = going_on(run, last)
    return await store.call(store.runs.begin, claim, run)


async def build_command(context: Context, claim: Claim, plan: RunPlan, place: RunPlace, run: Run) -> AgentStart:
    """Return what is needed to launch the agent of a run: token, messages, program and environment."""
    store = context.store
    env = await environment(context, plan.task, run, plan.coder, plan.settings) | place.env
    check_login(plan.coder, env)
    folder = folder_of(context.home, run, redactor_for(env))
    await store.call(take_answers, store.ports, folder, is_ours=True)
    token, messages, questions = await store.call(gather_inputs, store.ports, claim, run)
    trusted = await _trusted(context, plan, place)
    run, command = _ordered(plan, place, run, folder, messages, questions, trusted)
    spec = _spec(context.settings, plan, place, run, command, env | {"FLEET_RUN_TOKEN": token})
    return AgentStart(run, folder, env, command, spec, messages)


async def launch(context: Context, claim: Claim, plan: RunPlan, place: RunPlace, start: AgentStart, mark: Mark) -> Live:
    """Write the files of a run, record what is started, and start its agent."""
    store = context.store
    run, folder, spec = start.run, start.folder, start.spec
    folder.write_task_json(plan.task, plan.coder.name, plan.model)
    folder.log("subprocess_started", run=run.id, argv=list(spec.argv), cwd=place.cwd)
    folder.make(run.number)
    for name, text in start.command.files.items():
        folder.write_run_file(run.number, name, text)
    if plan.interactive:
        await asyncio.to_thread(_answer_dialogs, context.settings, context.home, plan.coder, run, place.cwd, start.env)
    run = run.replace(spawn=await _spawned(context, plan, place, run, spec, mark))
    await store.call(store.runs.fold, claim, run)
    if start.command.typed:
        await store.call(keep_prompt, store.ports, run, start.command.typed)
    keep_record(folder.home, run, place.workspace)
    leases = context.cluster.leases
    left = leases.left(run.task_id)
    spec = spec if left is None else spec.replace(deadline=(left, leases.now()))
    launcher, run_folder = context.launchers.find(run.launcher), folder.run_folder(run.number)
    try:
        agent = await launcher.start(run_folder, spec)
        if start.messages:
            await store.call(mark_carried, store.ports, start.messages, run)
        terms = RunTerms(plan.task, plan.coder, plan.settings, start.env, place.workspace)
        live = Live(context, run, terms, folder, agent)
    except Exception as error:  # for any error, the agent must end before the task may have another
        if not await launcher.end(run_folder):
            raise StillLives(run.id, error) from error
        raise
    coder = f"{plan.coder.name}/{plan.model}" if plan.model else plan.coder.name
    log.info("started %s: %s in %s", run.id, coder, place.cwd)
    return live


def _marked(plan: RunPlan) -> Mark:
    """Return the repository of a run, a mark of its main checkout, and a mark of what its verify command can reach."""
    task = plan.task
    with contextlib.suppress(FleetError, OSError):
        if task.workspace == WORKTREE:
            found, mark = marked(plan.home, "", repository_of(plan.home, task))
            return found, mark, _reach(plan, found, found.top if found else "")
        if task.cwd:
            found, mark = marked(plan.home, task.cwd, None)
            return found, mark, _reach(plan, found, task.cwd)
    return None, "", ""


def _reach(plan: RunPlan, repository: Repository | None, directory: str) -> str:
    if not (plan.task.verify or plan.settings.verify.command):
        return ""
    from fleet.proof.branch_verification import reach_mark

    with contextlib.suppress(FleetError, OSError):  # the receipt shows that nothing was compared
        return reach_mark(plan.home, plan.settings, plan.task, repository, directory)
    return ""


async def _spawned(context: Context, plan: RunPlan, place: RunPlace, run: Run, spec: LaunchSpec, marked: Mark) -> str:
    """Return the record of what was started and of the state before. The end of the run is compared with it."""
    repository, mark, reach = marked
    others = context.places[place.cwd] - 1
    return await asyncio.to_thread(
        spawned, plan.home, run, spec, repository=repository, mark=mark, reach=reach, others=others
    )


async def adopted(context: Context, claim: Claim, run: Run, agent: Agent | None) -> Live:
    """Return a run that an earlier supervisor started. Raises FleetError if its coder no longer exists."""
    settings = await context.settings_for(claim.task)
    coder = coders.load(run.coder, settings)
    try:
        env = await environment(context, claim.task, run, coder, settings)
    except SecretRefused as error:  # the agent already has its secrets; only redaction knows fewer of them
        log.warning("%s", error)
        env = dict(os.environ)
    folder = folder_of(context.home, run, redactor_for(env))
    workspace = None
    if run.branch:
        workspace = await context.store.call(adopt_workspace, context.store.ports, run.task_id, context.owner)
    context.busy[run.coder, run.account] += 1
    context.places[run.workspace] += 1
    return Live(context, run, RunTerms(claim.task, coder, settings, env, workspace), folder, agent)


def redactor_for(env: dict[str, str]) -> Redactor:
    """Return a redactor for the secrets of the supervisor and of the agent."""
    return Redactor([*secret_values(os.environ), *secret_values(env)])


async def environment(context: Context, task: Task, run: Run, coder: Coder, settings: Settings) -> dict[str, str]:
    """Return the environment of a run's agent without its token. Raises SecretRefused."""
    added = env_for(settings, coder.name)
    for account in accounts_for(context.settings, coder.name):
        if account.name == run.account:
            added |= own_folder(coder, account) if account.config_dir else {}
            added |= await context.secrets.of(account)
    passed = (*coder.reads_env, *settings.agent.pass_env)
    return agent_environment(context.home, task, run, ours=os.environ, passed=passed, added=added)


def own_folder(coder: Coder, account: AccountSettings) -> dict[str, str]:
    """Return the variables that point to an account's own folder. Create the folder, as some coders require."""
    folder = config_folder(account)
    make_private(folder)
    return coder.config_env(folder)


def _answer_dialogs(settings: Settings, home: Home, coder: Coder, run: Run, cwd: str, env: dict[str, str]) -> None:
    """Answer the coder's first questions in an account's own folder. The user's own folder is never written."""
    for account in accounts_for(settings, coder.name):
        if account.name == run.account and account.config_dir:
            folder = config_folder(account)
            if os.path.realpath(cwd).startswith(os.path.realpath(home.worktrees) + os.sep):
                # Agents that start together also write the file, and drop entries added since they read it.
                trust_folder(coder, folder, home.worktrees)
            pre_answer(coder, folder, cwd, env)


def _installed_coder(context: Context, task: Task, settings: Settings) -> Coder:
    """Return the coder of a task. Raises RetryLater if its program is missing."""
    coder = coders.load(task.coder or context.coder or settings.coder, settings)
    program = program_of(coder, settings)
    if program and not shutil.which(program, path=agent_path(context.home, task, os.environ)):
        context.missing[coder.name] = context.steady()  # no task of this coder is claimed for a while
        whose = "the task's PATH or the supervisor's" if task.path else "the supervisor's PATH"
        raise RetryLater(
            f"coder {coder.name!r} {NOT_INSTALLED}: no program {program!r} is on {whose}",
            seconds=NO_PROGRAM_SECONDS,
            hint="install it, or set its path: fleet config set coders.NAME.program=/path/to/it",
        )
    return coder


def _dollars(store: Store, plan: RunPlan) -> float | None:
    """Return the maximum cost of a run by its own limit and its makers' budgets. Return None without a limit.

    Raises NotReady if the price of the model is unknown: such a budget would stop nothing.
    """
    own = watchdog_for(plan.settings, plan.task).max_cost_usd
    may_have = plan.task.made_by or plan.task.limits
    left = left_of(store, plan.settings, plan.task).get(COST) if may_have else None
    budgets = [each for each in (own, left) if each is not None]
    if not budgets:
        return None
    today = store.now().date()
    if why := why_no_price(plan.settings, plan.coder, plan.model, today, interactive=plan.interactive):
        raise NotReady(why)
    return max(min(budgets), LEAST[COST])


async def _session_name(store: StoreCalls, plan: RunPlan) -> str:
    """Return the name of a run's terminal: its branch, with a mark if a run of another task has that name."""
    prefix, branch = plan.settings.tmux.prefix, plan.task.branch or plan.task.id
    name = session_name(prefix, branch)
    others = await store.call(store.runs.live)
    taken = any(run.session_name == name and run.task_id != plan.task.id for run in others)
    return session_name(prefix, branch, plan.task.repo or plan.task.id) if taken else name


async def _trusted(context: Context, plan: RunPlan, place: RunPlace) -> str:
    """Return the worktree that the coder may trust without asking. Skipped permissions include that trust."""
    if not plan.interactive or place.workspace is None:
        return ""
    store, name = context.store, plan.coder.name
    answer = await store.call(store.ports.trust.get, WORKTREES, name)
    skips = permissions_for(plan.settings, name) == "skip"
    return place.cwd if answer == YES or (skips and answer != NO) else ""


def _ordered(
    plan: RunPlan,
    place: RunPlace,
    run: Run,
    folder: TaskFolder,
    messages: list[Message],
    questions: list[Question],
    trusted: str,
) -> tuple[Run, Command]:
    task = plan.task.replace(cwd=place.cwd) if place.workspace else plan.task  # as the agent sees it
    answers = [(each.text, each.answer) for each in questions if each.answer is not None]
    texts = [message.text for message in messages]
    resumed = bool(run.session)
    if plan.interactive:
        spoken = spoken_for(plan.home, task, resumed=resumed, answers=answers, messages=texts)
    else:
        said = prompt_for(
            plan.home,
            task,
            run_number=run.number,
            resumed=resumed,
            answers=answers,
            messages=texts,
            reason=_why_again(plan),
        )
        spoken = Spoken(said, "")
    order = Order(
        task=task,
        prompt=spoken.prompt,
        protocol=spoken.protocol,
        model=plan.model or None,
        session=run.session,
        fresh=str(uuid4()),
        budget_usd=plan.budget_usd,
        permissions=permissions_for(plan.settings, plan.coder.name),
        flags=_flags(plan),
        trusted=trusted,
        folder=folder.run_folder(run.number),
    )
    command = plan.coder.terminal(order) if plan.interactive else plan.coder.command(order)
    if command is None:
        raise NotReady(f"fleet can run {plan.coder.name} only without a terminal", hint="say --headless")
    estimated = {} if plan.coder.tells_context else {"estimated": True}
    asked = {ASKED_BEFORE: len(folder.questions())}
    folded = encode({"read": len(spoken.prompt)} | estimated | run.notes | asked)
    return run.replace(folded=folded, session=run.session or command.session), command


def _flags(plan: RunPlan) -> tuple[str, ...]:
    """Return further options for the program: those of the task's rules, around those of the user."""
    rules = rules_of(plan.task)
    effort = plan.coder.effort(rules.reasoning_effort) if rules.reasoning_effort else ()
    return (*effort, *flags_for(plan.settings, plan.coder.name), *rules.extra_args)


def _why_again(plan: RunPlan) -> str:
    """Return why the task runs again, with the finding about the previous run."""
    last = plan.last
    if last is None or last.finding not in (Finding.FAILED_VERIFY, Finding.FABRICATED):
        return plan.task.reason
    made = verification_in(last.verify)
    if last.finding == Finding.FAILED_VERIFY and made is not None:
        return not_passed(made)
    return not_so(plan.task.reason)


def _spec(
    settings: Settings, plan: RunPlan, place: RunPlace, run: Run, command: Command, env: dict[str, str]
) -> LaunchSpec:
    program = program_for(plan.settings, plan.coder.name) if plan.coder.program else ""
    return LaunchSpec(
        argv=(program, *command.argv[1:]) if program else command.argv,
        env=env | command.env,
        cwd=place.cwd,
        session=run.session_name,
        stdin=command.stdin,
        keep_stdin=command.keep_stdin,
        stdout_cap=settings.supervisor.max_output_mb * 1024 * 1024,
        apart=SandboxSpec(hidden=(verify_folder(plan.home),)),
    )
