"""The start of a run: which coder, account, session and directory, and the command that follows from them."""

from __future__ import annotations

import logging
import os
import shutil
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from fleet import coders
from fleet.coders.base import Order
from fleet.coders.prompt import prompt_for
from fleet.config import (
    accounts_for,
    config_folder,
    env_for,
    flags_for,
    model_for,
    permissions_for,
    program_for,
    window_for,
)
from fleet.core.errors import FleetError
from fleet.core.jsontext import encode
from fleet.core.redaction import Redactor, secret_values
from fleet.core.run import Delivery, Run
from fleet.core.task import Caller
from fleet.engine.accounts import seats
from fleet.engine.environment import agent_environment, agent_path
from fleet.engine.fold import going_on
from fleet.engine.folder import TaskFolder, home_of
from fleet.engine.live import Live, Terms
from fleet.engine.preflight import check_login
from fleet.engine.secrets import SecretRefused
from fleet.engine.sessions import session_to_resume
from fleet.launchers.base import LaunchSpec

if TYPE_CHECKING:
    from fleet.coders.base import Coder, Command
    from fleet.config import Settings
    from fleet.config.sections import AccountSettings
    from fleet.core.run import Message
    from fleet.core.task import Claim, Task
    from fleet.engine.office import Office
    from fleet.home import Home
    from fleet.launchers.base import Agent

log = logging.getLogger(__name__)

#: After how long one more task tries whether a program is there, and how long one waits for a taken account.
NOT_INSTALLED_SECONDS, NO_SEAT_SECONDS = 60.0, 5.0


class NotNow(FleetError):
    """A run cannot begin, which is not its task's fault: it goes back, uncounted."""

    def __init__(self, message: str, *, seconds: float, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.seconds = seconds


class Plan(NamedTuple):
    """What a run is to be, before it is on record."""

    task: Task
    settings: Settings
    coder: Coder
    model: str
    cwd: str
    home: Home  # in which its folder lies


async def begin(office: Office, claim: Claim) -> Live:
    """Put the next run of a claimed task on record and start its agent. Raises FleetError, OSError."""
    earlier = await office.ask(office.history.runs, claim.task.id)
    last = earlier[-1] if earlier else None
    folder = TaskFolder(home_of(office.home, last), claim.task.id, redactor=office.redactor)
    folder.make()
    plan = _plan(office, folder.with_hand_made_changes(claim.task), folder)
    account = await take_seat(office, plan.coder.name, plan.task.account)
    try:
        run = await _new_run(office, claim, plan, account, last)
        return await _start(office, claim, plan, run)
    except BaseException:  # whatever it is: the seat is free again
        office.busy[plan.coder.name, account] -= 1
        raise


async def _start(office: Office, claim: Claim, plan: Plan, run: Run) -> Live:
    env = await environment(office, plan.task, run, plan.coder, plan.settings)
    check_login(plan.coder, env)
    folder = folder_of(office, run, redactor_for(env))
    caller = Caller(task_id=run.task_id, run_id=run.id, epoch=claim.epoch)
    token = await office.ask(office.queue.admit, claim, caller)
    messages = await office.ask(_waiting, office, run.task_id)
    run, command = await _ordered(office, plan, run, folder, messages)
    spec = _spec(office, plan, command, env | {"FLEET_RUN_TOKEN": token})
    folder.write_task_json(plan.task, plan.coder.name, plan.model)
    folder.log("subprocess_started", run=run.id, argv=list(spec.argv), cwd=plan.cwd)
    folder.make(run.number)
    for name, text in command.files.items():
        folder.write_run_file(run.number, name, text)
    agent = await office.launcher.start(folder.run_folder(run.number), spec)
    await office.ask(_carried, office, messages, run)
    log.info("started %s: %s/%s in %s", run.id, plan.coder.name, plan.model or "its own model", plan.cwd)
    return Live(office, run, Terms(plan.task, plan.coder, plan.settings, env), folder, agent)


async def adopted(office: Office, claim: Claim, run: Run, agent: Agent | None) -> Live:
    """A run that was started before us. Raises FleetError where its coder is gone."""
    settings = office.settings_for(claim.task)
    coder = coders.load(run.coder, settings)
    try:
        env = await environment(office, claim.task, run, coder, settings)
    except SecretRefused as error:  # it has what it needs already; only what is redacted is known less well
        log.warning("%s", error)
        env = dict(os.environ)
    folder = folder_of(office, run, redactor_for(env))
    office.busy[run.coder, run.account] += 1
    return Live(office, run, Terms(claim.task, coder, settings, env), folder, agent)


def redactor_for(env: dict[str, str]) -> Redactor:
    """What must not be stored of an agent's words: our secrets and its own."""
    return Redactor([*secret_values(os.environ), *secret_values(env)])


async def environment(office: Office, task: Task, run: Run, coder: Coder, settings: Settings) -> dict[str, str]:
    """The environment of a run's agent, but for its token. Raises SecretRefused."""
    added = env_for(settings, coder.name)
    for account in accounts_for(office.settings, coder.name):
        if account.name == run.account:
            added |= _own_folder(coder, account) if account.config_dir else {}
            added |= await office.secrets.of(account)
    passed = (*coder.reads_env, *settings.agent.pass_env)
    return agent_environment(office.home, task, run, token="", ours=os.environ, passed=passed, added=added)


def _own_folder(coder: Coder, account: AccountSettings) -> dict[str, str]:
    """The variables that lead to an account's own folder; some coders want it to be there."""
    folder = config_folder(account)
    os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
    return coder.config_env(folder)


def folder_of(office: Office, run: Run, redactor: Redactor | None = None) -> TaskFolder:
    """The folder of a run's task, wherever on this host it lies."""
    return TaskFolder(home_of(office.home, run), run.task_id, redactor=redactor or office.redactor)


async def take_seat(office: Office, coder: str, named: str) -> str:
    """Take an account of a coder for a run: the one that is named, else the first with room. Raises NotNow."""
    known = await office.ask(office.history.accounts)
    found = seats(office.settings, coder, known, office.busy, office.now())
    fitting = [seat for seat in found if not named or seat.account == named]
    for seat in fitting:
        if seat.room:
            office.busy[coder, seat.account] += 1
            return seat.account
    reason = fitting[0].reason if fitting else f"{coder} has no account {named!r}"
    raise NotNow(reason, seconds=NO_SEAT_SECONDS)


def _plan(office: Office, task: Task, folder: TaskFolder) -> Plan:
    settings = office.settings_for(task)
    coder = coders.load(task.coder or office.coder or settings.coder, settings)
    program = program_for(settings, coder.name) or coder.program
    if program and not shutil.which(program, path=agent_path(office.home, task, os.environ)):
        office.missing[coder.name] = office.steady()
        raise NotNow(
            f"coder {coder.name!r} is not installed: no program {program!r} is on the PATH",
            seconds=0,  # its lane is closed for a while instead, so that the others stay where they are
            hint="install it, or name its place: fleet config set coders.NAME.program=/path/to/it",
        )
    cwd = task.cwd or folder.make_work()
    if not os.path.isdir(cwd):  # noqa: PTH112
        raise FleetError(f"its directory {cwd} does not exist", hint="`fleet bd update ID --cwd DIR` names another.")
    return Plan(task, settings, coder, task.model or model_for(settings, coder.name) or "", cwd, folder.home)


async def _new_run(office: Office, claim: Claim, plan: Plan, account: str, last: Run | None) -> Run:
    run = Run(
        id="",
        task_id=claim.task.id,
        number=0,
        epoch=claim.epoch,
        owner=office.owner,
        launcher="headless",
        containment=office.launcher.containment,
        coder=plan.coder.name,
        model=plan.model,
        account=account,
        workspace=plan.cwd,
        home=plan.home.root,
        context_window=window_for(plan.settings, plan.coder.name) or plan.coder.window(plan.model),
        started_at=office.now(),
    )
    if last is not None and session_to_resume(plan.coder, run, last):
        run = going_on(run, last)
    return await office.ask(office.history.begin, claim, run)


async def _ordered(
    office: Office, plan: Plan, run: Run, folder: TaskFolder, messages: list[Message]
) -> tuple[Run, Command]:
    questions = await office.ask(office.history.questions, task_id=plan.task.id)
    prompt = prompt_for(
        plan.home,
        plan.task,
        run_number=run.number,
        resumed=bool(run.session),
        answers=[(each.text, each.answer) for each in questions if each.answer is not None],
        messages=[message.text for message in messages],
        reason=plan.task.reason,
    )
    order = Order(
        task=plan.task,
        prompt=prompt,
        model=plan.model or None,
        session=run.session,
        fresh=str(uuid4()),
        permissions=permissions_for(plan.settings, plan.coder.name),
        flags=flags_for(plan.settings, plan.coder.name),
        folder=folder.run_folder(run.number),
    )
    command = plan.coder.command(order)
    estimated = {} if plan.coder.tells_context else {"estimated": True}
    folded = encode({"read": len(prompt)} | estimated | run.notes)
    return run.replace(folded=folded, session=run.session or command.session), command


def _spec(office: Office, plan: Plan, command: Command, env: dict[str, str]) -> LaunchSpec:
    program = program_for(plan.settings, plan.coder.name) if plan.coder.program else ""
    return LaunchSpec(
        argv=(program, *command.argv[1:]) if program else command.argv,
        env=env | command.env,
        cwd=plan.cwd,
        stdin=command.stdin,
        keep_stdin=command.keep_stdin,
        stdout_cap=office.settings.supervisor.max_output_mb * 1024 * 1024,
    )


def _waiting(office: Office, task_id: str) -> list[Message]:
    states = (Delivery.QUEUED, Delivery.SENT)
    return [message for message in office.history.messages(task_id) if message.state in states]


def _carried(office: Office, messages: list[Message], run: Run) -> None:
    for message in messages:
        office.history.mark_message(message.id, Delivery.CARRIED, office.now(), run.id)
