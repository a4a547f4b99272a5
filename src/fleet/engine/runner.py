"""One run: started, followed to its end, and its task settled. Deciding is done elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from typing import TYPE_CHECKING

from fleet import coders
from fleet.coders.base import Order
from fleet.coders.prompt import prompt_for
from fleet.config import model_for, permissions_for
from fleet.core.errors import ClaimLost, FleetError
from fleet.core.run import Ending, Outcome, Run
from fleet.core.task import Caller
from fleet.engine import settling
from fleet.engine.environment import agent_environment
from fleet.engine.folder import TaskFolder
from fleet.engine.live import Live
from fleet.engine.watchdog import watchdog_for
from fleet.launchers.base import LaunchSpec

if TYPE_CHECKING:
    from fleet.coders.base import Coder
    from fleet.core.task import Claim, Task
    from fleet.engine.office import Office
    from fleet.launchers.base import Agent, Exit

log = logging.getLogger(__name__)


class Runner:
    """Follows one claimed task through one run."""

    def __init__(self, office: Office, claim: Claim) -> None:
        self._office = office
        self.claim = claim
        self.live: Live | None = None
        self._stopping: Outcome | None = None

    async def start(self) -> None:
        """Begin a run of the claimed task and follow it to its end."""
        try:
            live = await self._begin()
        except ClaimLost:
            log.warning("claim on %s lost before it started", self.claim.task.id)
            return
        except (FleetError, OSError) as error:
            await self._could_not_start(error)
            return
        await self.follow(live)

    async def adopt(self, run: Run, agent: Agent | None) -> None:
        """Go on with a run that was started before us; without an agent it ended meanwhile or vanished."""
        coder = self._coder(run.coder)
        folder = TaskFolder(self._office.home, run.task_id, redactor=self._office.redactor)
        limits = watchdog_for(self._office.settings_for(self.claim.task), self.claim.task)
        await self.follow(Live(self._office, run, coder, folder, limits, agent))

    async def follow(self, live: Live) -> None:
        """Read, watch, and at the end settle."""
        self.live = live
        try:
            exit = await self._watch(live) if live.agent else self._office.launcher.last_exit(live.place)
            live.read_all()
            await settling.settle(self._office, self.claim, live, exit, self._stopping)
        except ClaimLost:
            log.warning("claim on %s lost: its agent is ended and its word not taken", live.run.task_id)
            await self.kill()

    def stop(self, ending: str, reason: str) -> None:
        """Have the agent asked to stop; what is left after the grace is killed."""
        if self._stopping is None:
            self._stopping = Outcome(ending=ending, reason=reason)
        if self.live and self.live.agent:
            self.live.agent.stirred.set()

    async def kill(self) -> None:
        """End the agent and its tree at once."""
        if self.live and self.live.agent:
            with contextlib.suppress(OSError):
                await self.live.agent.kill_tree()

    async def _begin(self) -> Live:
        office, task = self._office, self.claim.task
        home = office.home
        folder = TaskFolder(home, task.id, redactor=office.redactor)
        folder.make()
        task = folder.with_hand_made_changes(task)
        settings = office.settings_for(task)
        coder = self._coder(task.coder or office.coder or settings.coder)
        model = task.model or model_for(settings, coder.name) or ""
        cwd = task.cwd or folder.make_work()
        if not os.path.isdir(cwd):  # noqa: PTH112, ASYNC240 - one stat of a local directory
            raise FleetError(
                f"its directory {cwd} does not exist", hint="`fleet bd update ID --cwd DIR` names another."
            )
        run = Run(
            id="",
            task_id=task.id,
            number=0,
            epoch=self.claim.epoch,
            owner=office.owner,
            launcher="headless",
            containment=office.launcher.containment,
            coder=coder.name,
            model=model,
            workspace=cwd,
            started_at=office.now(),
        )
        run = await office.ask(office.history.begin, self.claim, run)
        caller = Caller(task_id=task.id, run_id=run.id, epoch=self.claim.epoch)
        token = await office.ask(office.queue.admit, self.claim, caller)
        spec = await self._spec(task, run, coder, folder, token)
        folder.write_task_json(task, coder.name, model)
        folder.log("subprocess_started", run=run.id, argv=list(spec.argv), cwd=cwd)
        live = Live(office, run, coder, folder, watchdog_for(settings, task), None)
        live.agent = await office.launcher.start(live.place, spec)
        log.info("started %s: %s/%s in %s", run.id, coder.name, model or "its own model", cwd)
        return live

    async def _spec(self, task: Task, run: Run, coder: Coder, folder: TaskFolder, token: str) -> LaunchSpec:
        office = self._office
        settings = office.settings_for(task)
        questions = await office.ask(office.history.questions, task_id=task.id)
        answers = [(each.text, each.answer) for each in questions if each.answer is not None]
        prompt = prompt_for(office.home, task, run_number=run.number, answers=answers, reason=task.reason)
        permissions = permissions_for(settings, coder.name)
        order = Order(task=task, prompt=prompt, model=run.model or None, permissions=permissions)
        command = coder.command(order)
        env = agent_environment(
            office.home,
            task,
            run,
            token=token,
            ours=os.environ,
            passed=tuple(settings.agent.pass_env),
            added=settings.agent.env,
        )
        cap = office.settings.supervisor.max_output_mb * 1024 * 1024
        return LaunchSpec(
            argv=command.argv,
            env=env | command.env,
            cwd=run.workspace,
            stdin=command.stdin,
            keep_stdin=command.keep_stdin,
            stdout_cap=cap,
        )

    async def _watch(self, live: Live) -> Exit | None:
        agent = live.agent
        assert agent is not None
        ended = asyncio.ensure_future(agent.ended())
        try:
            while not ended.done():
                live.read_some()
                if self._stopping is None:
                    self._stopping = live.alarm()
                if self._stopping is not None:
                    return await self._stop(live, agent, ended)
                await live.stir(ended)
            return await ended
        finally:
            ended.cancel()

    async def _stop(self, live: Live, agent: Agent, ended: asyncio.Future[Exit | None]) -> Exit | None:
        grace = self._office.settings.watchdog.stop_grace_seconds
        for step in live.coder.stop_steps:
            await agent.signal(step)
            done, _ = await asyncio.wait({ended}, timeout=grace / max(len(live.coder.stop_steps), 1))
            live.read_some()
            if done:
                return await ended
        await agent.kill_tree()
        return await ended

    def _coder(self, name: str) -> Coder:
        return coders.load(name)

    async def _could_not_start(self, error: Exception) -> None:
        reason = f"could not be started: {error}"
        log.warning("%s %s", self.claim.task.id, reason)
        with contextlib.suppress(ClaimLost):
            await settling.settle_unstarted(self._office, self.claim, Outcome(ending=Ending.FAILED, reason=reason))
