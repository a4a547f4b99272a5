"""Random work on all stores at once, compared with a simple model and with each other after each step."""

import os
import random
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

from builders import MINUTE
from contract.queue_machine import DELAYS, PICK, STATUSES, TaskMachine
from fleet.core.errors import AlreadyClaimed, ClaimLost, FleetError, NotClaimable
from fleet.core.filter import Filter, Lane
from fleet.core.task import Caller, Claim, Verdict

TTL = 10 * MINUTE
OWNERS = st.sampled_from(["host-a", "host-b", "ada"])
LANES = st.one_of(
    st.fixed_dictionaries({"": st.integers(0, 4)}),
    st.dictionaries(st.sampled_from(["claude", "codex"]), st.integers(0, 3)),
)


class QueueMachine(TaskMachine):
    """Actions of people, agents and supervisors on a queue."""

    def __init__(self) -> None:
        super().__init__()
        self.claims: list[Claim] = []
        self.granted: dict[str, int] = {}
        self.tokens: list[tuple[tuple[str, ...], Caller, Claim]] = []

    def grant(self, key: str, epoch: int) -> None:
        """Record an epoch. It must be higher than all earlier epochs of the task."""
        assert epoch > self.granted.get(key, 0)
        self.granted[key] = epoch

    @rule(owner=OWNERS, lanes=LANES, room=st.integers(0, 4))
    def claim(self, owner: str, lanes: dict[str, int], room: int) -> None:
        expected = self.model.chosen(lanes, room)
        asked = [Lane(room=size, where=Filter(coder=coder or None)) for coder, size in lanes.items()]
        claims: list[Claim] = self.on_each(lambda store: store.claims.acquire(owner, asked, room=room, ttl=TTL))
        assert [claim.task.id for claim in claims] == expected
        for claim in claims:
            self.model.hold(claim.task.id, owner, TTL)
            self.grant(claim.task.id, claim.epoch)
        self.claims += claims

    @rule(pick=PICK, actor=OWNERS)
    def take(self, pick: int, actor: str) -> None:
        key = self.key(pick)
        task = self.model.tasks[key]
        answer = self.on_each(lambda store: store.claims.take(key, actor))
        if task.status == "in_progress" and task.assignee == actor:
            assert answer.epoch == task.epoch
        elif task.assignee not in ("", actor) or task.owner not in ("", actor):
            assert answer[0] == AlreadyClaimed.__name__
        elif not self.model.may_start(task):
            assert answer[0] == NotClaimable.__name__
        else:
            self.model.hold(key, actor, None)
            self.grant(key, answer.epoch)

    @precondition(lambda self: self.claims)
    @rule()
    def renew(self) -> None:
        held = [each for each in self.claims if self.model.holds(each.task.id, each.owner, each.epoch)]
        answer: list[Claim] = self.on_each(lambda store: store.claims.renew(self.claims, ttl=TTL))
        assert [(each.task.id, each.epoch) for each in answer] == [(each.task.id, each.epoch) for each in held]
        assert len({each.task.id for each in answer}) == len(answer)
        for each in answer:
            self.model.tasks[each.task.id].expires = self.model.now + TTL
            assert (each.task.cancel_requested_at is not None) is self.model.tasks[each.task.id].cancel

    @precondition(lambda self: self.claims)
    @rule(pick=PICK, status=STATUSES, delay=DELAYS, failures=st.integers(0, 1))
    def settle(self, pick: int, status: str, delay: timedelta | None, failures: int) -> None:
        claim = self.recent(pick)
        later = None if delay is None else self.model.now + delay
        verdict = Verdict(status=status, reason="so", not_before=later, failures=failures)
        answer = self.on_each(lambda store: store.claims.settle(claim, verdict))
        if self.still_held(claim, answer):
            self.model.free(claim.task.id, status)
            task = self.model.tasks[claim.task.id]
            task.defer, task.failures = later, task.failures + failures

    @precondition(lambda self: self.claims)
    @rule(pick=PICK)
    def release(self, pick: int) -> None:
        claim = self.recent(pick)
        if self.still_held(claim, self.on_each(lambda store: store.claims.release(claim))):
            self.model.free(claim.task.id)

    @precondition(lambda self: self.claims)
    @rule(pick=PICK)
    def adopt(self, pick: int) -> None:
        old = self.recent(pick)
        answer = self.on_each(lambda store: store.claims.adopt(old.task.id, old.owner, epoch=old.epoch, ttl=TTL))
        if self.still_held(old, answer):
            task = self.model.tasks[old.task.id]
            task.epoch, task.expires = task.epoch + 1, self.model.now + TTL
            self.grant(old.task.id, answer.epoch)
            self.claims.append(answer)
            self.tokens = [
                (tokens, caller.replace(epoch=answer.epoch) if claim.epoch == old.epoch else caller, answer)
                if claim.task.id == old.task.id and claim.epoch == old.epoch
                else (tokens, caller, claim)
                for tokens, caller, claim in self.tokens
            ]

    @rule(spare=st.lists(PICK, max_size=2))
    def reap(self, spare: list[int]) -> None:
        spared = {self.key(pick) for pick in spare}
        expired = {
            key for key, task in self.model.tasks.items() if task.expires is not None and task.expires < self.model.now
        } - spared
        reaped = self.on_each(lambda store: sorted(task.id for task in store.claims.reap(spare=spared)))
        assert reaped == sorted(expired)
        for key in expired:
            self.model.free(key)

    @rule(pick=PICK)
    def request_cancel(self, pick: int) -> None:
        key = self.key(pick)
        self.on_each(lambda store: store.claims.request_cancel(key, "enough"))
        self.model.tasks[key].cancel = True

    @precondition(lambda self: self.claims)
    @rule(pick=PICK)
    def admit(self, pick: int) -> None:
        claim = self.recent(pick)
        caller = Caller(task_id=claim.task.id, run_id="run", epoch=claim.epoch)
        held = self.model.holds(claim.task.id, claim.owner, claim.epoch)
        tokens = []
        for store in self.stores:
            try:
                tokens.append(store.tokens.issue(claim, caller))
            except FleetError:
                assert not held
        assert len(tokens) == (len(self.stores) if held else 0)
        if tokens:
            self.tokens = [*self.tokens[-3:], (tuple(tokens), caller, claim)]

    def recent(self, pick: int) -> Claim:
        """Return one of the last claims, held or not."""
        return self.claims[-6:][pick % len(self.claims[-6:])]

    def still_held(self, claim: Claim, answer: Any) -> bool:
        """Return True if the model considers a claim held. Assert that the stores agree."""
        held = self.model.holds(claim.task.id, claim.owner, claim.epoch)
        refused = isinstance(answer, tuple) and answer[0] in (ClaimLost.__name__, "TaskNotFound")
        assert refused is not held, (claim, answer)
        return held

    @invariant()
    def tokens_are_known_only_while_their_claim_lives(self) -> None:
        for tokens, caller, claim in self.tokens:
            task = self.model.tasks.get(claim.task.id)
            live = task is not None and task.owner != "" and task.epoch == claim.epoch
            for store, token in zip(self.stores, tokens, strict=True):
                assert store.tokens.caller(token) == (caller if live else None)


class SharedQueueMachine(QueueMachine):
    """The same machine with a database that hosts share."""

    kinds = ("sqlite", "postgres")


class BeadsQueueMachine(QueueMachine):
    """The same machine with tasks in bd."""

    kinds = ("sqlite", "beads")


class OlderBeadsQueueMachine(QueueMachine):
    """The same machine with a bd that has no guards."""

    kinds = ("sqlite", "beads-old")


def run(machine: type[QueueMachine], examples: int, number: int, *, length: int = 50, shrink: bool = True) -> int:
    """Run this many examples of fifty steps. Return the number of steps."""
    machine.steps = 0
    note_of_seed = f"seed {number}; run it again with FLEET_SEED={number}"
    try:
        run_state_machine_as_test(
            seed(number)(machine),
            settings=settings(
                max_examples=examples,
                stateful_step_count=length,
                deadline=None,
                database=None,
                print_blob=True,
                phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
                suppress_health_check=list(HealthCheck),
            ),
        )
    except BaseException as error:
        error.add_note(note_of_seed)
        raise
    return machine.steps


def test_stores_match_the_model_after_three_thousand_random_steps() -> None:
    assert run(QueueMachine, 95, int(os.environ.get("FLEET_SEED", "20260301"))) >= 3_000


def test_shared_store_matches_the_model_after_a_thousand_random_steps() -> None:
    assert run(SharedQueueMachine, 30, int(os.environ.get("FLEET_SEED", "20260301"))) >= 1_000


@pytest.mark.soak("queues")
def test_stores_match_the_model_after_a_quarter_million_random_steps() -> None:
    number = int(os.environ.get("FLEET_SEED", random.SystemRandom().randrange(10**9)))
    assert run(QueueMachine, 5_000, number) >= 240_000


@pytest.mark.soak("queues")
def test_shared_store_matches_the_model_after_ten_thousand_random_steps() -> None:
    number = int(os.environ.get("FLEET_SEED", random.SystemRandom().randrange(10**9)))
    assert run(SharedQueueMachine, 270, number) >= 10_000


def test_beads_store_matches_the_model_after_a_few_random_steps() -> None:
    assert run(BeadsQueueMachine, 2, int(os.environ.get("FLEET_SEED", "20260301")), length=12, shrink=False) >= 12


@pytest.mark.soak("queues")
@pytest.mark.parametrize("machine", [BeadsQueueMachine, OlderBeadsQueueMachine])
def test_beads_store_matches_the_model_after_five_hundred_random_steps(machine: type[QueueMachine]) -> None:
    number = int(os.environ.get("FLEET_SEED", random.SystemRandom().randrange(10**9)))
    assert run(machine, 12, number, shrink=False) >= 400
