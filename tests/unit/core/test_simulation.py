"""A fleet with a fake clock: policy, admission and watchdogs against random faults, with checked invariants."""

import heapq
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from builders import HOUR, MINUTE, NOON, FakeClock, a_task
from fleet.core.accounts import after_run, is_parked
from fleet.core.admission import BURST, Ramp, Situation, admit
from fleet.core.budget import TOKENS, Budget, Spent, check_budgets
from fleet.core.errors import ClaimLost
from fleet.core.filter import Filter
from fleet.core.policy import decide, limit_runs
from fleet.core.run import Account, Ending, Outcome
from fleet.core.task import HEADLESS, INTERACTIVE, Claim, Status, Task, Verdict
from fleet.core.watchdog import check, next_check
from fleet.settings.limits import watchdog_for
from fleet.settings.load import Origin, SettingsLayer, merge
from fleet.settings.project_sections import FindingSettings
from stores import open_queue
from unit.core.simulated import CURSES, FAILURES, FATES, SECOND, WATCHED, Agent

OWNER = "host"
#: In each group of FAMILY tasks, the first has created the next CHILDREN ones, and they share its budget.
FAMILY, CHILDREN, BUDGET = 8, 3, 500_000
FINDINGS = FindingSettings()


class World:
    """Tasks, agents, people, and a supervisor that is killed now and then."""

    def __init__(self, seed: int, tasks: int, slots: int) -> None:
        self.random, self.clock = random.Random(seed), FakeClock()
        self.store = open_queue(self.clock)
        self.slots, self.cap = slots, max(1, slots // 5)
        self.settings = merge([SettingsLayer(Origin("runtime", ""), self._said())])
        self.ttl = timedelta(seconds=self.settings.supervisor.claim_seconds)
        self.agenda: list[tuple[datetime, int, Callable[[], None]]] = []
        self.steps = 0
        self.agents: dict[str, Agent] = {}  # the real state
        self.unheard: dict[str, Outcome] = {}  # agents that ended while no supervisor ran
        self.claims: dict[str, Claim] = {}  # the supervisor's state
        self.is_up, self.is_paused, self.gemini = True, False, "not installed"
        self.ramp, self.turn = Ramp(), 0
        self.looked_at = self.look_at = NOON - HOUR  # the last look, and the next one if it is later
        self.accounts: dict[str, Account] = {}
        self.started: dict[str, datetime] = {}  # the last start of each task
        self.life, self.starts = 1, [(0, NOON)]  # the life of the supervisor at each start of an agent, and the time
        self.runs: Counter[str] = Counter()
        self.uncounted: Counter[str] = Counter()  # returns to the queue that no counter bounds
        self.ended: dict[str, Counter[str]] = defaultdict(Counter)
        self.cursed: dict[str, str] = {}  # tasks that meet the same fate in each run
        self.used: dict[str, list[int]] = defaultdict(list)  # the tokens of each run of a task that has ended
        self.made_used: Counter[str] = Counter()  # the tokens of all runs of the tasks that a task created
        self.over: dict[str, datetime] = {}  # when these tokens alone exhausted the budget of the task
        self.stopped = 0  # agents that a shared budget stopped
        for number in range(tasks):
            self.store.tasks.add(task := self._new_task(number))
            if self.random.random() < 0.06:
                self.cursed[task.id] = self.random.choice(CURSES)
        self._plan()

    def _said(self) -> dict[tuple[str, ...], Any]:
        return {
            ("max_concurrent",): self.slots,
            ("coders", "codex", "max_concurrent"): self.cap,
            ("limits", "max_interactive"): 5,
            ("limits", "limit_waits"): 6,
            ("watchdog", "max_tokens"): 500_000,
            ("watchdog", "wall_seconds"): 3_600,
            ("supervisor", "claim_seconds"): 600,
            ("supervisor", "start_interval_seconds"): 1,
        }

    def _new_task(self, number: int) -> Task:
        coder = self.random.choices(["", "claude", "codex", "gemini"], [40, 30, 20, 10])[0]
        mode = self.random.choices(["", HEADLESS, INTERACTIVE], [90, 7, 3])[0]
        first, place = f"t-{number - number % FAMILY:04}", number % FAMILY
        shares = {"made_by": first} if 0 < place <= CHILDREN else {}
        limits = f'{{"max_tokens": {BUDGET}}}' if place == 0 else ""
        key, priority = f"t-{number:04}", self.random.randint(0, 4)
        return a_task(id=key, priority=priority, coder=coder, mode=mode, limits=limits, **shares)

    def _plan(self) -> None:
        self.at(NOON, self.look)
        self.at(NOON + self.ttl / 3, self.renew)
        self.at(NOON + HOUR, self.install)
        for _ in range(4):
            self.at(NOON + self.random.uniform(0.01, 1.5) * HOUR, self.crash)
            self.at(NOON + self.random.uniform(0.01, 1.5) * HOUR, self.pause)

    def at(self, moment: datetime, what: Callable[[], None]) -> None:
        self.steps += 1
        heapq.heappush(self.agenda, (moment, self.steps, what))

    def run(self) -> None:
        """Run the simulation until no event is left."""
        while self.agenda:
            moment, _, what = heapq.heappop(self.agenda)
            self.clock.advance(moment - self.clock())
            what()
            assert self.clock() < NOON + timedelta(days=30), "something goes on for ever"

    def wake(self, moment: datetime) -> None:
        """Let the supervisor look soon. Several reasons within ten seconds are one look."""
        moment = max(moment, self.clock(), self.looked_at + 10 * SECOND)
        if self.look_at <= self.looked_at or moment < self.look_at:
            self.look_at = moment
            self.at(moment, self.look)

    def waits(self, *modes: str) -> bool:
        """Return True if a task of one of these modes waits."""
        spellings = ("", *modes) if HEADLESS in modes else modes
        return bool(self.store.tasks.count(Filter(statuses=(Status.OPEN,), modes=spellings))[""])

    # The supervisor

    def look(self) -> None:
        """Claim as many tasks as allowed and start them."""
        self.looked_at, self.turn = self.clock(), self.turn + 1
        if not self.is_up:
            return
        for mode in (HEADLESS, INTERACTIVE):
            if not self.waits(mode):
                continue
            room = admit(self.settings, self._situation(), mode)
            claims = self.store.claims.acquire(OWNER, room.lanes, room=room.room, ttl=self.ttl) if room.lanes else []
            self.ramp = self.ramp.started(len(claims), self.clock(), 1)
            if claims and self.random.random() < 0.02:
                self.crash()  # killed after the claim and before the first start
                return
            for claim in claims:
                self.start(claim)
            self.wake(room.again_at(len(claims)) or self.clock() + 2 * MINUTE)

    def _situation(self) -> Situation:
        return Situation(
            now=self.clock(),
            default_coder="claude",
            coders={"claude": "", "codex": "", "gemini": self.gemini},
            running=Counter((agent.coder, agent.mode) for agent in self.agents.values()),
            accounts=list(self.accounts.values()),
            ramp=self.ramp,
            paused=self.is_paused,
            turn=self.turn,
        )

    def start(self, claim: Claim) -> None:
        now, key = self.clock(), claim.task.id
        coder = claim.task.coder or "claude"
        assert key not in self.agents, f"{key} would have two agents"
        assert not self.is_paused and (coder != "gemini" or not self.gemini)
        assert coder not in self.accounts or not is_parked(self.accounts[coder], now), f"{coder} is parked"
        self.started[key] = now
        fate = self.cursed.get(key) or self.random.choices(list(FATES), list(FATES.values()))[0]
        if claim.task.mode == INTERACTIVE and fate in WATCHED:
            fate = "finished"
        agent = Agent(claim, coder, fate, self.random.uniform(5, 900) * SECOND, now)
        agent.life = self.life
        self.claims[key], self.agents[key] = claim, agent
        self.starts.append((self.life, now))
        self.runs[key] += 1
        self._check_room()
        if fate not in WATCHED:
            self.at(agent.turns_at, lambda: self.end(agent, self._outcome(fate)))
        self.at(agent.turns_at, lambda: self.watch(agent, again=False))  # output causes a look
        self.watch(agent)

    def _check_room(self) -> None:
        count = Counter(agent.mode for agent in self.agents.values())
        assert count[HEADLESS] <= self.slots and count[INTERACTIVE] <= 5
        codex = [agent for agent in self.agents.values() if (agent.coder, agent.mode) == ("codex", HEADLESS)]
        assert len(codex) <= self.cap

    def watch(self, agent: Agent, again: bool = True) -> None:
        """Check the watchdogs, now and again at the time they give."""
        if not self.is_up or self.agents.get(agent.task.id) is not agent:
            return
        now, limits = self.clock(), watchdog_for(self.settings, agent.task)
        facts = agent.facts(now)
        alarm = check(facts, limits, now)
        if alarm is not None:
            overdue = now - agent.started_at >= HOUR and agent.life != self.life  # nothing watched the agent for long
            assert alarm.ending == ("timed_out" if overdue else agent.fate), f"{agent.fate} taken for {alarm.ending}"
            self.end(agent, alarm.replace(tool_calls=1))
        elif over := self._check_budget(agent):
            self.stopped += 1
            self.end(agent, over.replace(tool_calls=1))
        elif again and (pause := next_check(facts, limits, now)) < 10**6:
            self.at(now + pause * SECOND, lambda: self.watch(agent))

    def _check_budget(self, agent: Agent) -> Outcome | None:
        first = _first(agent.task)
        if not self.store.tasks.get(first).limits:
            return None
        live = [each for each in self.agents.values() if _first(each.task) == first]
        own = [] if first in self.agents else self.used[first][-1:]  # only the last run of the task itself counts
        used = sum(own) + self.made_used[first] + sum(each.facts(self.clock()).tokens for each in live)
        spent = Spent(amounts={TOKENS: used})
        return check_budgets([(Budget(task_id=first, amounts={TOKENS: BUDGET}), spent)])

    def _outcome(self, fate: str) -> Outcome:
        ends = self.random.choice([None, self.clock() + self.random.uniform(-1, 2) * HOUR])
        if fate != Ending.RATE_LIMITED:
            return Outcome(ending=fate, reason=f"it was {fate}", tool_calls=1)
        limit = self.random.choice(["rate", "plan", "overload", "auth"])
        return Outcome(ending=fate, reason=f"it was {fate}", limit=limit, resume_at=ends, tool_calls=1)

    def end(self, agent: Agent, outcome: Outcome) -> None:
        """End an agent. A live supervisor hears of it."""
        key = agent.task.id
        if self.agents.get(key) is not agent:
            return
        del self.agents[key]
        first, used = _first(agent.task), agent.facts(self.clock()).tokens
        was_over = first != key and self.over.get(first, agent.started_at) < agent.started_at
        assert not was_over or agent.started_at == self.clock(), f"{key} worked on after its budget was used up"
        self.used[key].append(used)
        self.made_used[first] += used if first != key else 0
        if self.made_used[first] >= BUDGET:
            self.over.setdefault(first, self.clock())
        for other in [each for each in self.agents.values() if _first(each.task) == first]:
            self.at(self.clock() + SECOND, partial(self.watch, other, again=False))  # shared budgets are polled
        if self.is_up:
            self.settle(self.claims.pop(key), outcome)
        else:
            self.unheard[key] = outcome

    def settle(self, claim: Claim, outcome: Outcome) -> None:
        now, limits, task = self.clock(), self.settings.limits, self.store.tasks.get(claim.task.id)
        verdict = decide(task, outcome, now=now, limits=limits, jitter=self.random.random(), findings=FINDINGS)
        after = self.store.claims.settle(claim, verdict)
        self.ended[after.id][outcome.ending] += 1
        coder = task.coder or "claude"
        account = self.accounts.get(coder) or Account(coder=coder)
        account = after_run(account, outcome, started_at=self.started[after.id], now=now, limits=limits)
        self.accounts[coder] = account
        if outcome.ending == Ending.BLOCKED and self.ended[after.id][Ending.BLOCKED] <= 3:
            self.at(now + self.random.uniform(1, 60) * MINUTE, lambda: self.answer(after.id))
        self.wake(verdict.not_before or now)
        self.wake(account.parked_until or now)

    def renew(self) -> None:
        """Renew the claims, and reap expired ones."""
        if self.is_up:
            held = self.store.claims.renew(self.claims.values(), ttl=self.ttl)
            assert len(held) == len(self.claims), "a claim was lost under a living supervisor"
            self.claims = {claim.task.id: claim for claim in held}
        for task in self.store.claims.reap(spare=self.agents):
            assert not self.is_up
            self.uncounted[task.id] += 1
        if self.agents or self.unheard or self.waits(HEADLESS, INTERACTIVE) or not self.is_up:
            self.at(self.clock() + self.ttl / 3, self.renew)

    # Events

    def crash(self) -> None:
        """Kill the supervisor: it forgets everything, and its agents live on."""
        if self.is_up:
            self.is_up, self.claims, self.ramp = False, {}, Ramp()
            down = self.random.choice([self.random.uniform(1, 30), self.random.uniform(600, 2_000)])
            self.at(self.clock() + down * SECOND, self.recover)

    def recover(self) -> None:
        """Adopt live agents, settle ended or missing ones, and release claims without an agent."""
        self.is_up, self.life = True, self.life + 1
        for task in [each for each in self.store.tasks.find(Filter()) if each.claim_owner == OWNER]:
            claim = self.store.claims.adopt(task.id, OWNER, epoch=task.epoch, ttl=self.ttl)
            with pytest.raises(ClaimLost):
                self.store.claims.settle(claim.replace(epoch=task.epoch), Verdict(status=Status.OPEN))
            if task.id in self.agents:
                self.claims[task.id] = claim
                self.watch(self.agents[task.id])
            elif task.id in self.unheard:
                self.settle(claim, self.unheard[task.id])
            else:
                self.store.claims.release(claim)
        self.unheard = {}
        self.wake(self.clock())
        assert set(self.claims) == set(self.agents)

    def pause(self) -> None:
        self.is_paused = not self.is_paused
        if self.is_paused:
            self.at(self.clock() + self.random.uniform(1, 30) * MINUTE, self.resume)

    def resume(self) -> None:
        self.is_paused = False
        self.wake(self.clock())

    def install(self) -> None:
        assert all(run == 0 for key, run in self.runs.items() if self.store.tasks.get(key).coder == "gemini")
        self.gemini = ""
        self.wake(self.clock())

    def answer(self, key: str) -> None:
        """Answer as a person, which reopens the task."""
        with self.store.atomic():
            self.store.tasks.save(self.store.tasks.get(key).reopened(self.clock()))
        self.uncounted[key] += 1
        self.wake(self.clock())

    # Invariants at the end

    def check(self) -> None:
        assert not self.agents and not self.claims and not self.unheard
        tasks = self.store.tasks.find(Filter())
        waiting = [task.id for task in tasks if task.status not in (Status.CLOSED, Status.BLOCKED)]
        assert not waiting, f"left waiting: {waiting}"
        for task in tasks:
            self._check_task(task)
        for (life, earlier), (same, later) in zip(self.starts, self.starts[BURST:], strict=False):
            assert life != same or later - earlier >= SECOND, "more at once than the ramp allows"

    def _check_task(self, task: Task) -> None:
        ended, limits = self.ended[task.id], self.settings.limits
        assert task.reason and not task.is_claimed
        assert len(self.used[task.id]) == self.runs[task.id]
        assert self.runs[task.id] <= limit_runs(limits, FINDINGS) + self.uncounted[task.id]
        assert task.failures == sum(ended[ending] for ending in FAILURES) <= limits.retry_limit
        assert task.waits == ended["rate_limited"] <= limits.limit_waits + 1
        assert task.fresh_starts == ended["context_full"] <= limits.context_limit + 1
        assert task.losses == ended["lost"] <= limits.lost_limit + 1
        assert task.continues == ended["incomplete"] <= limits.continue_limit + 1
        assert (task.status == Status.CLOSED) == (task.finding == "unverified")


def _first(task: Task) -> str:
    """Return the id of the task that created a task, or its own id."""
    return task.made_by or task.id


def simulate(seed: int, tasks: int, slots: int) -> World:
    world = World(seed, tasks, slots)
    try:
        world.run()
        world.check()
    except BaseException as error:
        error.add_note(f"seed {seed}, {tasks} tasks, {slots} slots; FLEET_SEED={seed} runs it alone")
        raise
    return world


def seeds(count: int) -> list[int]:
    said = os.environ.get("FLEET_SEED")
    return [int(said)] if said else list(range(count))


@pytest.mark.parametrize("count", [20, pytest.param(200, marks=pytest.mark.soak)])
def test_small_fleets_come_to_rest(count: int) -> None:
    for seed in seeds(count):
        simulate(seed, 16, 4)


def test_a_thousand_tasks_over_two_hundred_slots_come_to_rest() -> None:
    world = simulate(seeds(1)[0], 1_000, 200)
    assert sum(world.runs.values()) > 1_000 and world.stopped
    assert {ending for ended in world.ended.values() for ending in ended} == set(FATES)


@pytest.mark.soak
@pytest.mark.parametrize("seed", seeds(200))
def test_two_hundred_large_fleets_come_to_rest(seed: int) -> None:
    simulate(seed, 1_000, 200)
