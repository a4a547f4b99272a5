"""A run that is being followed: what was read of it so far, and when to look again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, cast

from fleet.coders.base import BUSY, READY, STDIN
from fleet.core import watchdog
from fleet.core.clock import to_host_time
from fleet.core.errors import FleetError
from fleet.core.event import Kind
from fleet.core.jsontext import encode
from fleet.core.result_schema import HANDED_IN, is_handed_on
from fleet.core.run import BY_TOOL, STOP_NOTE, UNKNOWN, Ending, Outcome, Quota
from fleet.proof.scope.bounds import bounds_of
from fleet.settings import window_for
from fleet.settings.limits import watchdog_for
from fleet.supervisor.agent_launchers import TMUX
from fleet.supervisor.run.briefing import did_resume
from fleet.supervisor.run.costs import RunBudget, costed, model_of, reports_cost
from fleet.supervisor.run.fold import fold
from fleet.supervisor.run.liveness import Liveness, Sampler
from fleet.supervisor.run.output_reader import LineReader, Transcript
from fleet.supervisor.run.typist import Typist
from fleet.supervisor.run.work import Work

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any

    from fleet.agents.base import Agent, AgentTerminal
    from fleet.coders.base import Coder
    from fleet.core.event import Event, Gauge
    from fleet.core.run import Run
    from fleet.core.task import Task
    from fleet.core.workspace import Workspace
    from fleet.proof.scope.lookout import Lookout, ScopeFindings
    from fleet.settings import Settings
    from fleet.supervisor.context import Context
    from fleet.supervisor.run.output_reader import OutputLine
    from fleet.supervisor.task_folder import TaskFolder


#: Maximum number of sentences kept. Half of the flags remain free for other remarks.
MOST_STRAYED, MOST_FLAGS = 20, 10


def noted(run: Run, seen: ScopeFindings, directory: str) -> Run:
    """Return the run with its findings added. Earlier findings stay, except for refused calls."""
    notes = run.notes
    before = [each for each in strayed_in(run) if each not in seen.undone]
    strayed = list(dict.fromkeys([*before, *seen.strayed]))[:MOST_STRAYED]
    shell = {"shell": directory} if directory != run.workspace else {}
    kept = {name: value for name, value in notes.items() if name not in ("strayed", "shell")}
    made = kept | ({"strayed": strayed} if strayed else {}) | shell
    if made != notes:
        run = run.replace(folded=encode(made))
    flags = run.flagged
    more = [each for each in seen.doubts if each not in flags][: max(MOST_FLAGS - len(flags), 0)]
    return run.replace(flags=encode([*flags, *more])) if more else run


def strayed_in(run: Run) -> list[str]:
    """Return the sentences that a run keeps about its actions out of bounds."""
    kept = run.notes.get("strayed")
    return [str(each) for each in kept] if isinstance(kept, list) else []


log = logging.getLogger(__name__)

TRANSCRIPT_SECONDS = 2.0
#: For an agent in a terminal the session's file is the only source of events.
SESSION_SECONDS = 0.5
#: Events whose text the fold keeps.
KEPT_WORDS = (Kind.TEXT, Kind.RESULT, Kind.ERROR, Kind.LIMIT, Kind.CONTEXT_FULL)
#: An agent without output for this long may have written its complaint to stderr.
COMPLAINT_SECONDS = 10.0
#: How often to look at an agent in a terminal that has not received its prompt.
PROMPT_SECONDS = 0.1
#: Characters per token, for coders that do not report how full their context is.
CHARACTERS_OF_A_TOKEN = 4
#: Smaller changes of the time when an agent will be stopped are not noted.
DEADLINE_SLACK = timedelta(seconds=5)
#: Events about an agent's tools.
OF_TOOLS = (Kind.TOOL_USE, Kind.TOOL_RESULT, Kind.DENIED)
#: Setting: stop an agent that leaves its bounds. Otherwise this is only noted.
STOP = "stop"


class RunTerms(NamedTuple):
    """The task, coder, settings, environment and worktree of a run."""

    task: Task
    coder: Coder
    settings: Settings
    env: Mapping[str, str]
    workspace: Workspace | None = None


class Live:
    """The state of a run in this process. The record of the run is in the store."""

    def __init__(self, context: Context, run: Run, terms: RunTerms, folder: TaskFolder, agent: Agent | None) -> None:
        self._context = context
        self.run = run
        self.coder = coder = terms.coder
        self.workspace = terms.workspace
        self.interactive = run.launcher.startswith(TMUX)
        self.folder = folder
        self.agent = agent
        self.place = folder.run_folder(run.number)
        self.dirty = False  # True if the run has changes that the store does not have
        self.quotas: dict[str, Quota] = {}  # quotas that the account reported; the caller that stores them removes them
        self.delivered: list[str] = []  # messages that were seen to arrive; the caller that stores them removes them
        self.settings = terms.settings
        self.env = terms.env
        self._limits = watchdog_for(terms.settings, terms.task)
        self.budget = RunBudget(context.store, context.ledger, terms.task)
        self._hands_on = is_handed_on(terms.task) and not self.interactive
        self._reader = LineReader(f"{self.place}/stdout", run.stdout_offset)
        known = run.notes.get("transcript")
        start = None if known is None and did_resume(run) else known or 0
        self.began_here = to_host_time(run.started_at, context.now())
        self._transcript = Transcript(
            coder, run.workspace, terms.env, start, whole=self.interactive, since=self.began_here
        )
        self._transcript_at = context.steady()
        self._has_news = True  # it printed something since the last look at the transcript
        age = agent.age_seconds if agent else None
        if age is None:
            age = (context.now() - run.started_at).total_seconds()
        self._signs = Liveness(run, context.steady(), age)
        self._rested = agent.frozen_seconds if agent else 0.0
        self._is_explained = False  # the meaning of its exit code was added
        self._complaint = ""  # the end of its stderr at the last look
        self._stdin_open = coder.steering == STDIN and not self.interactive
        work = Work(folder.home, terms.workspace) if terms.workspace else None
        self._sampler = Sampler(context, coder, work, f"{self.place}/stdout")
        terminal = self.terminal
        self.typist = Typist(terminal, coder, f"{self.place}/stdout") if terminal is not None else None
        self._lookout: Lookout | None = None  # created at the first tool: it reads the list of worktrees

    @property
    def terminal(self) -> AgentTerminal | None:
        """Return the agent if it runs in a terminal, else None."""
        return cast("AgentTerminal", self.agent) if self.interactive and self.agent is not None else None

    def read_some(self) -> bool:
        """Fold a limited part of the agent's output. Return True if more output may exist."""
        if self.interactive:
            return False  # its screen is for users; the session's file has the events
        lines = self._reader.read()
        if not lines:
            return False
        self._take(lines)
        self.run = self.run.replace(stdout_offset=self._reader.offset)
        self._signs.printed(self.run, self._context.steady())
        self._sampler.has_news()
        self._has_news = self.dirty = True
        return True

    async def read_all(self) -> None:
        """Fold the rest of the output after the end, including what the shim kept beyond its size limit."""
        if self.interactive:
            await self._read_session()
            return
        while self.read_some() or self._reader.behind:  # noqa: ASYNC110 - working, not waiting
            await asyncio.sleep(0)  # half a gigabyte takes a minute; other tasks get a turn
        self._take(list(self._reader.rest(f"{self.place}/stdout.tail")))
        while self.look_at_transcript():  # noqa: ASYNC110 - as above
            await asyncio.sleep(0)
        try:
            self.folder.take_stderr(f"{self.place}/stderr")
        except OSError as error:  # only the readable copy is missing, as in `_fold`
            log.warning("stderr of %s not written: %s", self.run.id, error)

    async def _read_session(self) -> None:
        while self.look_at_transcript():  # noqa: ASYNC110 - working, not waiting
            await asyncio.sleep(0)

    def explain(self, status: int | None) -> None:
        """Fold the meaning of the exit code and of stderr if the coder gave no result. Does this once."""
        if self.run.result_at is None and not self.interactive and not self._is_explained:
            self._is_explained = True
            event = self.coder.explain(status, self.folder.stderr_tail())
            self._fold([event] if event else [])

    def look_at_transcript(self) -> bool:
        """Fold a limited part of what the coder writes about the session elsewhere. Return True if more exists."""
        events, grew = self._transcript.look(self.run.session)
        self._transcript_at = self._context.steady()
        self._has_news = False
        if grew:
            self._signs.wrote_transcript(self._transcript_at)
        if events:
            self._fold(events)
            self._signs.printed(self.run, self._transcript_at)
            self._sampler.has_news()
            self.run = self.run.replace(folded=encode(self.run.notes | {"transcript": self._transcript.offset}))
            self.dirty = True
        return self._transcript.behind

    async def say(self, text: str, *, interrupt: bool) -> bool:
        """Send a message to the agent. Return True if it was sent."""
        if self.interactive:
            return self.typist is not None and await self.typist.say(text, interrupt=interrupt)
        if self.agent is None or not self._stdin_open:
            return False
        words = (self.coder.interruption() if interrupt else "") + (self.coder.message(text) if text else "")
        try:
            await self.agent.write(words)
        except FleetError as error:
            log.info("cannot send a message to %s: %s", self.run.id, error)
            return False
        self._signs.has_more_to_read(self._context.steady())
        return True

    async def can_type(self) -> bool:
        """Return True if text typed into the agent's terminal now becomes a message.

        At other times the text could answer a question on the screen or mix with text that a user has not sent. While
        the program starts, the text would be lost.
        """
        # None: no terminal exists, or it is about to close. `say` finds that out.
        return await self.shown() in (BUSY, READY, None)

    async def shown(self) -> str | None:
        """Return what the agent's terminal shows, see `Coder.look`. Return None without a terminal."""
        shown = await self.typist.look() if self.typist is not None else None
        if shown is not None and shown != self.run.screen:
            self.run, self.dirty = self.run.replace(screen=shown), True
        return shown

    async def close_stdin_after_result(self) -> None:
        """Close the stdin of an agent that has given its result: no more messages follow."""
        if self._stdin_open and self.run.result_at is not None and self.agent is not None:
            self._stdin_open = False
            with contextlib.suppress(FleetError):
                await self.agent.close_stdin()

    def alarm(self) -> Outcome | None:
        """Return why the agent must be stopped. Return None if it may continue."""
        if self.settings.scope.live == STOP and (strayed := strayed_in(self.run)):
            return Outcome(ending=Ending.BLOCKED, reason=strayed[0])
        return watchdog.check(self._facts(), self._limits, self._context.steady())

    def rested(self, seconds: float) -> None:
        """Set for how many seconds in total the agent was frozen. That time counts for no limit."""
        if seconds > self._rested:
            self._signs.rested(seconds - self._rested, self._context.steady())
            self._rested = seconds

    async def has_waited(self) -> None:
        """Read how long the agent waited for answers to questions of its tools. That time does not count as silence."""
        context, run = self._context, self.run
        store = context.store
        asked = await store.call(store.questions.find, task_id=run.task_id)
        now = context.now()
        waits = [
            (each.asked_at, each.answered_at or now)
            for each in asked
            if (each.run_id, each.source) == (run.id, BY_TOOL)
        ]
        if waits:
            seconds = sum(max(0.0, (end - begin).total_seconds()) for begin, end in waits)
            ago = (now - max(end for _, end in waits)).total_seconds()
            self._signs.waited(seconds, max(0.0, ago), context.steady())

    async def wait_for_activity(self, ended: asyncio.Future[Any], *, soon: bool = False) -> None:
        """Wait until the agent prints something, ends, or a watchdog is due. With `soon` wait only briefly."""
        assert self.agent is not None
        if not self.interactive and self._reader.behind:
            await asyncio.sleep(0)  # give other tasks a turn, then continue reading
            return
        # Events outside of stdout wake nothing. Look for them soon after each burst of output.
        look = TRANSCRIPT_SECONDS if self._has_news else COMPLAINT_SECONDS
        look = SESSION_SECONDS if self.interactive else look
        look = PROMPT_SECONDS if soon else look
        pause = min(watchdog.next_check(self._facts(), self._limits, self._context.steady()), look, self.budget.pause)
        active = asyncio.ensure_future(self.agent.activity.wait())
        await asyncio.wait({active, ended}, timeout=max(pause, 0.05), return_when=asyncio.FIRST_COMPLETED)
        if active.done():
            self.agent.activity.clear()
        else:
            active.cancel()
            await self._look_at_cpu()
            self._note_deadline()
        often = SESSION_SECONDS if self.interactive else TRANSCRIPT_SECONDS
        if (self._context.steady() - self._transcript_at).total_seconds() >= often:
            self.look_at_transcript()
            self._look_at_complaints()
        sampled = await self._sampler.look(self.run, self.agent, self.terminal)
        if sampled is not self.run:
            self.run, self.dirty = sampled, True

    def _look_at_complaints(self) -> None:
        """Fold a limit reported on stderr: some coders report only there that they wait for a limit to end."""
        if self.interactive or self._signs.silent_seconds(self._context.steady()) < COMPLAINT_SECONDS:
            return
        complaint = self.folder.complaint(self.run.number)
        if complaint and complaint != self._complaint:
            self._complaint = complaint
            event = self.coder.explain(None, complaint)
            self._fold([event] if event is not None and event.limit is not None else [])

    async def _look_at_cpu(self) -> None:
        # Only a silent agent is checked: output is a sufficient sign of life. A terminal is not judged by its silence.
        assert self.agent is not None
        if self.interactive:
            return
        with contextlib.suppress(FleetError, OSError, TimeoutError):
            used = await asyncio.wait_for(self.agent.cpu_seconds(), 5)
            if self._signs.used_cpu(used, self._context.steady()):
                self._sampler.has_news()

    def _note_deadline(self) -> None:
        """Note for people when this silent agent will be stopped."""
        facts, now = self._facts(), self._context.steady()
        deadline = watchdog.first_deadline(facts, self._limits)
        if deadline is None or not watchdog.is_noteworthy(facts, self._limits, now):
            return
        here = self._context.now()
        at, known = here + (deadline.at - now), self.run.planned_stop
        if known is None or abs(at - known[0]) > DEADLINE_SLACK:
            note = [at.isoformat(), deadline.ending, here.isoformat()]
            self.run = self.run.replace(folded=encode(self.run.notes | {STOP_NOTE: note}))
            self.dirty = True

    def _take(self, lines: list[OutputLine]) -> None:
        self._fold([event for line in lines for event in self.coder.parse(line.text)])
        if cut := sum(line.truncated for line in lines):
            self.run = self.run.replace(folded=encode(self.run.notes | {"cut": self.run.notes.get("cut", 0) + cut}))

    def _fold(self, events: list[Event]) -> None:
        now = self._context.now()
        self.run = self._weighed(fold(self.run, [self._clean(event) for event in events], now))
        self._look_out(events)
        for event in events:
            for gauge in event.gauges:
                self._note_quota(gauge, now)
        self._signs.folded(self.run, self._context.steady())
        self.delivered += [event.text for event in events if event.kind == Kind.DELIVERED]
        try:
            self.folder.append_events(events, now, run=self.run.number)
        except OSError as error:  # a full disk costs the readable copy, not the run
            log.warning("events of %s not written: %s", self.run.id, error)

    def _note_quota(self, gauge: Gauge, now: datetime) -> None:
        seen = Quota(
            coder=self.run.coder,
            account=self.run.account,
            span=gauge.window,
            used_pct=gauge.used_pct,
            resets_at=gauge.resets_at,
            seen_at=now,
        )
        known = self.quotas.get(gauge.window)
        self.quotas[gauge.window] = known.then(seen) if known else seen

    def _look_out(self, events: list[Event]) -> None:
        """Note what the agent's tools do outside of its bounds."""
        used = [event for event in events if event.kind in OF_TOOLS]
        if not used:
            return
        if self._lookout is None:
            from fleet.proof.scope.lookout import Lookout

            bounds = bounds_of(self._context.home, self.folder.path, self.run.workspace, self.workspace, self.env)
            self._lookout = Lookout(bounds, self.folder.clean, str(self.run.notes.get("shell") or ""))
        seen = self._lookout.look(used)
        self.run = noted(self.run, seen, self._lookout.directory)

    def _clean(self, event: Event) -> Event:
        """Return the event with secrets removed from texts that the store keeps."""
        if event.kind not in KEPT_WORDS:
            return event
        limit = event.limit.replace(text=self.folder.clean(event.limit.text)) if event.limit else None
        return event.replace(text=self.folder.clean(event.text), data=self._handed_in(event), limit=limit)

    def _handed_in(self, event: Event) -> dict[str, Any]:
        """Return the object in the agent's result, if the task asked for one. Otherwise the object is ordinary text."""
        told = event.data.get(HANDED_IN)
        return {HANDED_IN: self.folder.cleaned(told)} if told is not None and self._hands_on else {}

    def _weighed(self, run: Run) -> Run:
        """Return the run with values that its coder does not report, taken from the settings or estimated."""
        own = window_for(self.settings, self.coder.name)
        if own is not None and run.context_window != own:
            run = run.replace(context_window=own)
        if not self.coder.tells_context:
            run = run.replace(context_peak=run.notes.get("read", 0) // CHARACTERS_OF_A_TOKEN)
        return costed(self.settings, run)

    def _facts(self) -> watchdog.Facts:
        facts = self._signs.facts(self.run, self.run.context_peak, self.run.context_window)
        if self.run.cost_basis == UNKNOWN and not reports_cost(self.coder, interactive=self.interactive):
            facts = facts.replace(unpriced=model_of(self.run))
        return facts.replace(interactive=True) if self.interactive else facts
