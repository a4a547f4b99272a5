"""One run: start it, follow it to its end, and settle its task. Other modules make the decisions."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from typing import TYPE_CHECKING

from fleet.coders.base import NEXT_RUN, READY, STDIN
from fleet.core.errors import ClaimLost, FleetError, StoreAway
from fleet.core.finding import Finding
from fleet.core.run import Delivery, Ending, Outcome
from fleet.core.task import INTERACTIVE
from fleet.git.repository import NotOwned, RepositoryGone
from fleet.supervisor.logins import NotLoggedIn
from fleet.supervisor.room import ROOM_SECONDS, is_no_room
from fleet.supervisor.run import lost_claim, settle, stage
from fleet.supervisor.run import start as starting
from fleet.supervisor.run.secrets import SecretRefused
from fleet.supervisor.run.stage import StageSkipped
from fleet.supervisor.run.workplace import NotReady, RetryLater

if TYPE_CHECKING:
    from datetime import datetime

    from fleet.agents.base import Agent
    from fleet.core.outcome import Exit
    from fleet.core.run import Message, Run
    from fleet.core.task import Claim
    from fleet.supervisor.context import Context
    from fleet.supervisor.run.live import Live

log = logging.getLogger(__name__)

#: How long an agent may continue after it handed in its result.
LAST_WORD_SECONDS = 30.0
#: How long a message that is being typed may delay the supervisor's end.
STILL_SECONDS = 5.0
#: How often to check whether a frozen agent may continue.
FENCED_SECONDS = 0.25
#: Signals that ask an agent in a terminal to stop. In a terminal SIGINT is an ordinary key.
TERMINAL_STEPS = (signal.SIGTERM,)


class Runner:
    """The supervisor's side of one run of a claimed task, from its start to its settlement."""

    def __init__(self, context: Context, claim: Claim) -> None:
        self._context = context
        self.claim = claim
        self.live: Live | None = None
        self._stopping: Outcome | None = None
        self._stop_asked = asyncio.Event()
        self._handed_in: datetime | None = None  # when its interactive agent handed in
        self._left = False  # another supervisor follows this run
        self._lost = False  # another host has its task
        self.is_settled = False  # its claim was settled or given back
        self._inbox: dict[str, Message] = {}  # messages to give to the agent
        self._prompt: Message | None = None  # the prompt that an agent in a terminal must receive before them
        self._pasted = False  # the prompt was put into the terminal
        self._sent: dict[str, Message] = {}  # messages whose arrival was not seen yet
        self._telling = asyncio.Lock()  # held until messages sent or received are recorded

    async def start(self) -> None:
        """Begin a run of the claimed task and follow it to its end."""
        try:
            live = await self._begun()
        except ClaimLost:
            log.warning("claim on %s lost before it started", self.claim.task.id)
            await lost_claim.end_run_of(self._context, self.claim)
        else:
            if live is not None:
                await self._take_messages(live)
                await self.follow(live)

    async def adopt(self, run: Run, agent: Agent | None) -> None:
        """Continue a run that an earlier supervisor started. Without an agent the run ended meanwhile or vanished."""
        live = await starting.adopted(self._context, self.claim, run, agent)
        await self._take_messages(live)
        await self.follow(live)

    async def follow(self, live: Live) -> None:
        """Read the output, watch the agent, and settle the task at the end.

        Wait while a disk is full: nothing is cut short.
        """
        self.live = live
        try:
            while True:
                try:
                    return await self._follow(live)
                except (FleetError, OSError) as error:
                    if not is_no_room(error):
                        raise
                    from fleet.supervisor.run.end import EndedWithoutRoom

                    if isinstance(error, EndedWithoutRoom) and self._stopping is None:
                        reason = f"it ended while a disk was full: {error}"
                        self._stopping = Outcome(ending=Ending.RELEASED, reason=reason)
                    log.warning("%s waits for free disk space: %s", live.run.id, error)
                await asyncio.sleep(ROOM_SECONDS)
        finally:
            self._context.busy[live.run.coder, live.run.account] -= 1
            self._context.places[live.run.workspace] -= 1

    async def _follow(self, live: Live) -> None:
        try:
            launcher = self._context.launchers.find(live.run.launcher)
            if live.agent:
                self._context.cluster.leases.guard(self.claim.task.id, launcher, live.place)
                await self.put_off()
            exit = await self._watch(live) if live.agent else launcher.last_exit(live.place)
            if self._left:
                return
            if self._lost:
                await lost_claim.end_lost_run(self._context, live.run, None)
                return
            if exit is None and not launcher.was_started(live.place):
                self._stopping = Outcome(ending=Ending.RELEASED, reason="its agent never started")
            from fleet.supervisor.run.end import close_terminal, finish_run

            await live.read_all()
            async with self._telling:
                await self._note_delivered(live)
            await finish_run(self._context, self.claim, live, exit, self._stopping)
            self.is_settled = True
            await close_terminal(live)
        except ClaimLost:
            try:
                await self.let_go()
            except StoreAway:  # the store cannot report who has the claim
                await self.kill()
            if not self._left:
                await lost_claim.end_lost_run(self._context, live.run, live.agent)

    async def give_up(self, error: Exception) -> None:
        """End the agent after a bug of the supervisor, and count a failure, so that the task does not return forever.

        If the agent does not end, its run continues: the supervisor finds it when its claim has expired.
        """
        outcome = Outcome(ending=Ending.FAILED, reason=f"fleet failed to follow it: {error}")
        with contextlib.suppress(FleetError):
            live = self.live
            if live is None:
                is_gone = await lost_claim.end_agent_of(self._context, self.claim)
            else:
                is_gone = await lost_claim.end_agent(self._context, live.run)
            if not is_gone:
                return
            try:
                await settle.settle_unstarted(self._context, self.claim, outcome)
            except ClaimLost:
                await lost_claim.end_run_of(self._context, self.claim)

    def stop(self, ending: str, reason: str) -> None:
        """Ask the agent to stop. After the grace period its remaining processes are killed."""
        if self._stopping is None:
            self._stopping = Outcome(ending=ending, reason=reason)
        self._stop_asked.set()
        self._wake()

    def note_hand_in(self) -> None:
        """Note that the agent handed in. An agent in a terminal would wait, so it is ended after its last output."""
        if self.live is not None and self.live.interactive and self._handed_in is None:
            self._handed_in = self._context.steady()
            self._wake()

    def note_closed(self, reason: str) -> None:
        """Stop the run because a user closed its task.

        For an interactive agent this is the usual end, for others a cancellation.
        """
        if self.claim.task.mode == INTERACTIVE:
            self.stop(Ending.FINISHED, reason or "closed manually")
        else:
            self.stop(Ending.CANCELLED, "closed manually")

    def hand(self, message: Message) -> None:
        """Give the agent a message as its coder allows: now, by an interruption, or in its next run."""
        if self.live is None or message.is_prompt or message.id in self._inbox or message.id in self._sent:
            return
        steering = self.live.coder.steering
        if steering == STDIN or self.live.interactive:
            self._inbox[message.id] = message
            self._wake()
        elif steering != NEXT_RUN or message.interrupts:
            self.stop(Ending.INTERRUPTED, "a message for it arrived" if message.text else "interrupted manually")

    async def put_off(self) -> None:
        """Let the agent continue while the claim is certain, without a limit if no other host can take the task."""
        live = self.live
        if live is None or live.agent is None:
            return
        left = self._context.cluster.leases.left(self.claim.task.id)
        if left is None and not live.agent.is_fenced:
            return
        try:
            live.rested(await live.agent.put_off(left))
        except (FleetError, OSError) as error:
            log.warning("cannot tell %s to continue: %s", live.run.id, error)

    async def let_go(self) -> None:
        """React to a lost claim: leave the agent to the supervisor that follows it, or end it."""
        store = self._context.store
        if self.live is None or self._lost:
            return
        run = await store.call_once(store.runs.get, self.live.run.id)
        if run is not None and run.is_live and run.owner != self._context.owner:
            log.warning("%s is followed by %s now", run.id, run.owner)
            self._left = True
            self._wake()
        else:
            log.warning("claim on %s lost: stopping its agent and ignoring its result", self.live.run.task_id)
            await self.kill()
            # Another host has the task, and perhaps this host again by now. What happens here does not end the run.
            self._lost = self._context.cluster.may_be_elsewhere(self.claim.task.id)

    async def kill(self) -> None:
        """End the agent and all its processes at once."""
        if self.live and self.live.agent:
            with contextlib.suppress(OSError, FleetError):
                await self.live.agent.kill_tree()

    async def note_heard(self) -> None:
        """Record which messages the agent has received, unless a message is being sent at this moment."""
        if self.live is not None and self.live.delivered and not self._telling.locked():
            async with self._telling:
                await self._note_delivered(self.live)

    async def hold_still(self) -> None:
        """Stop sending to the agent. First record what is being sent and what the agent has received."""
        with contextlib.suppress(TimeoutError, FleetError):
            await asyncio.wait_for(self._telling.acquire(), STILL_SECONDS)
            if self.live is not None:
                await self._note_delivered(self.live)

    def _wake(self) -> None:
        if self.live and self.live.agent:
            self.live.agent.activity.set()

    async def _watch(self, live: Live) -> Exit | None:
        agent = live.agent
        assert agent is not None
        ended = asyncio.ensure_future(agent.ended())
        try:
            while not ended.done() and not self._left:
                if not await self._talk(live):
                    # The agent is frozen, and its watchdogs pause.
                    await asyncio.wait({ended}, timeout=FENCED_SECONDS)
                    continue
                if self._stopping is None:
                    self._stopping = await self._alarm(live) or self._over(live)
                if self._stopping is not None:
                    return await self._stop(live, agent, ended)
                await live.wait_for_activity(ended, soon=self._prompt is not None)
            return await ended if ended.done() else None
        finally:
            ended.cancel()

    async def _take_messages(self, live: Live) -> None:
        """Take the prompt that the agent must receive, and sent messages whose arrival was not seen."""
        store = self._context.store
        with contextlib.suppress(FleetError):  # without the store a message may be sent twice; the run continues
            for each in await store.call(store.messages.find, live.run.task_id):
                if each.run_id != live.run.id or each.state not in (Delivery.QUEUED, Delivery.SENT):
                    continue
                if each.is_prompt:
                    self._prompt = each
                if each.state == Delivery.SENT:
                    self._sent[each.id] = each

    async def _talk(self, live: Live) -> bool:
        """Read the agent's output and send its messages. Return False if the agent may do nothing now."""
        async with self._telling:
            live.read_some()
            if self._stopping is None and self._context.cluster.leases.is_closed(self.claim.task.id):
                return False
            if self._prompt is not None and self._pasted:
                await live.read_all()  # the agent may have received the prompt
            await self._note_delivered(live)
            if await self._give_prompt(live):
                await self._say(live)
            return True

    async def _give_prompt(self, live: Live) -> bool:
        """Type the prompt into a terminal whose input is empty, and send it.

        Return True when the prompt has left the input.

        The terminal keeps whether the prompt was typed, so that the next supervisor does not type it again.
        """
        prompt, typist = self._prompt, live.typist
        if prompt is None or typist is None:
            return True
        if self._stopping is not None or (not self._pasted and not typist.has_drawn()):
            return False
        try:
            shown = await live.shown()
            if not self._pasted and not await typist.has_pasted(prompt.id):
                if shown != READY:
                    return False  # it is starting, asks something, or a user is typing
                shown = await typist.paste(prompt.text, prompt.id)
        except FleetError as error:
            log.info("cannot type the prompt of %s: %s", live.run.id, error)
            return False
        if not self._pasted:
            self._pasted, self._sent[prompt.id] = True, prompt
            await self._mark(prompt, Delivery.SENT, live)
        if shown != "" or not await typist.send():
            return False  # it has not read the text yet, has sent it, or asks something
        self._prompt = None
        return True

    async def _alarm(self, live: Live) -> Outcome | None:
        """Return why the agent must be stopped, else None. Time spent waiting for users does not count."""
        alarm = live.alarm()
        if alarm is not None:
            await self.put_off()  # the shim reports how long the agent was frozen, which does not count
            alarm = live.alarm()
        alarm = alarm or await live.budget.alarm(live.run, self._context.settings)
        if alarm is None or alarm.ending not in (Ending.STALLED, Ending.TIMED_OUT):
            return alarm
        await live.has_waited()
        return live.alarm()

    def _over(self, live: Live) -> Outcome | None:
        """Return the outcome if an interactive agent that handed in has finished, or had the time to.

        Return None otherwise.
        """
        if self._handed_in is None:
            return None
        waited = (self._context.steady() - self._handed_in).total_seconds()
        if live.run.result_at is None and waited < LAST_WORD_SECONDS:
            return None
        return Outcome(ending=Ending.FINISHED, reason="handed in")

    async def _say(self, live: Live) -> None:
        """Send the agent its messages. If none are left after its result, close its stdin."""
        for message in list(self._inbox.values()):
            if live.interactive and not await live.can_type():
                return  # it waits for a choice: typing now would choose
            del self._inbox[message.id]
            self._sent[message.id] = message  # first: until it is sent, the queue still has it to deliver
            if not await live.say(message.text, interrupt=message.interrupts):
                del self._sent[message.id]
                continue  # its next run gets the message
            await self._mark(message, Delivery.SENT, live)
            if message.interrupts and not message.text:
                await self._mark(message, Delivery.DELIVERED, live)
                self._stopping = Outcome(ending=Ending.INTERRUPTED, reason="interrupted manually")
        await live.close_stdin_after_result()

    async def _note_delivered(self, live: Live) -> None:
        while live.delivered:
            text = live.delivered[0]
            known = [each for each in self._sent.values() if _is_same(each.text, text)]
            # The first message that an agent receives is its prompt, even if its program changed the text.
            known += [each for each in self._sent.values() if each.is_prompt and self._prompt is None]
            for message in known[:1]:
                await self._mark(message, Delivery.DELIVERED, live)
                del self._sent[message.id]
                if message.is_prompt:
                    self._prompt = None
            del live.delivered[0]  # only now: until then the output is not recorded as read

    async def _mark(self, message: Message, state: str, live: Live) -> None:
        context, store = self._context, self._context.store
        await store.call(store.messages.mark, message.id, state, context.now(), live.run.id)

    async def _stop(self, live: Live, agent: Agent, ended: asyncio.Future[Exit | None]) -> Exit | None:
        steps = TERMINAL_STEPS if live.interactive else live.coder.stop_steps
        grace = self._context.settings.watchdog.stop_grace_seconds / max(len(steps), 1)
        for step in steps:
            await agent.signal(step)
            done, _ = await asyncio.wait({ended}, timeout=grace)
            live.read_some()
            if done:
                return await ended
        await agent.kill_tree()
        return await ended

    async def _begun(self) -> Live | None:
        """Return the started run of the claimed task. Raises ClaimLost.

        Return None if the run cannot start. Its task is then settled, given back or left to the next supervisor.
        """
        try:
            return await starting.start_run(self._context, self.claim, self._stop_asked)
        except ClaimLost:
            raise
        except starting.StillLives as error:  # the supervisor finds the agent when its claim has expired
            log.error("%s", error)
        except StageSkipped as skipped:
            await stage.skip(self._context.store, self.claim, skipped)
            log.info("%s is skipped: %s", self.claim.task.id, skipped)
        except (FleetError, OSError) as error:
            await self._could_not_start(error)
        return None

    async def _could_not_start(self, error: Exception) -> None:
        reason = f"could not be started: {_in_words(error)}"
        log.warning("%s %s", self.claim.task.id, reason)
        home = self._context.home
        if self._stopping is not None and self._stop_asked.is_set():
            await settle.settle_unstarted(self._context, self.claim, self._stopping)
        elif isinstance(error, OSError) or is_no_room(error, home.root, home.tasks, home.worktrees):
            # No agent has run yet. A folder of the home that is missing or is a file is not a failure of the task.
            await settle.give_back(self._context, self.claim, reason, ROOM_SECONDS)
        elif isinstance(error, NotReady | NotOwned):
            outcome = Outcome(ending=Ending.BLOCKED, reason=_with_hint(error))
            await settle.settle_unstarted(self._context, self.claim, outcome)
        elif isinstance(error, RepositoryGone):
            outcome = Outcome(ending=Ending.BLOCKED, reason=_with_hint(error), finding=Finding.INFRA_ERROR)
            await settle.settle_unstarted(self._context, self.claim, outcome)
        elif isinstance(error, RetryLater):
            await settle.give_back(self._context, self.claim, str(error), error.seconds)
        elif isinstance(error, SecretRefused | NotLoggedIn):
            outcome = Outcome(ending=Ending.NOT_LOGGED_IN, reason=str(error), limit="auth")
            await settle.settle_unstarted(self._context, self.claim, outcome)
        else:
            await settle.settle_unstarted(self._context, self.claim, Outcome(ending=Ending.FAILED, reason=reason))


def _is_same(text: str, heard: str) -> bool:
    """Return True if a program received a text. Programs may trim the text, or replace or drop tabs."""
    return "".join(text.split()) == "".join(heard.split())


def _in_words(error: Exception) -> str:
    """Return what failed, without the error number."""
    if not isinstance(error, OSError) or not error.strerror:
        return str(error)
    return f"{error.strerror}: {error.filename}" if error.filename else error.strerror


def _with_hint(error: FleetError) -> str:
    return f"{error}; {error.hint.rstrip('.')}" if error.hint else str(error)
