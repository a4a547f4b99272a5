"""The number of agents that may start per coder, and the reasons if none may start."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from builders import HOUR, MINUTE, NOON, FakeClock, a_task
from fleet.core.admission import BURST, Ramp, Room, Situation, admit
from fleet.core.run import Account
from fleet.core.task import Claim
from fleet.settings import Settings, accounts_for
from fleet.settings.load import Origin, SettingsLayer, merge
from stores import open_queue

CODERS = {"claude": "", "codex": ""}


def settings(**values: Any) -> Settings:
    """Return settings, given by their dotted names with __ for the dot."""
    return merge(
        [SettingsLayer(Origin("runtime", ""), {tuple(name.split("__")): value for name, value in values.items()})]
    )


def situation(**changes: Any) -> Situation:
    return Situation(**{"now": NOON, "default_coder": "claude", "coders": CODERS, **changes})


def claims(room: Room, *tasks: Any) -> list[Claim]:
    """Return the claims on a queue of these tasks."""
    store = open_queue(FakeClock())
    for task in tasks:
        store.tasks.add(task)
    return store.claims.acquire("host", room.lanes, room=room.room, ttl=MINUTE)


def coders_of(found: list[Claim]) -> list[str]:
    return sorted(claim.task.coder or "-" for claim in found)


def tasks(count: int, **said: Any) -> list[Any]:
    return [a_task(**said) for _ in range(count)]


def test_idle_fleet_offers_all_slots_to_each_coder() -> None:
    room = admit(settings(max_concurrent=5), situation())
    assert (room.room, room.again_at(5), room.reasons) == (5, None, [])
    assert len(claims(room, *tasks(4), *tasks(4, coder="codex"), *tasks(2, coder="claude"))) == 5


@pytest.mark.parametrize(
    ("running", "left"),
    [
        ({}, 3),
        ({("claude", "headless"): 1, ("codex", ""): 1}, 1),
        ({("claude", "headless"): 3}, 0),
        ({("claude", "headless"): 7}, 0),
        ({("claude", "interactive"): 50}, 3),
    ],
)
def test_headless_agents_share_the_slots_and_interactive_ones_do_not_count(running: Any, left: int) -> None:
    assert admit(settings(), situation(running=running)).room == left


def test_full_slots_are_reported() -> None:
    room = admit(settings(), situation(running={("claude", "headless"): 3}))
    assert room.lanes == [] and room.reasons == ["all 3 slots for headless agents are in use"]


def test_interactive_agents_have_their_own_limit() -> None:
    full = situation(running={("claude", "headless"): 3, ("claude", "interactive"): 1})
    room = admit(settings(limits__max_interactive=3), full, "interactive")
    assert room.room == 2
    assert len(claims(room, *tasks(5, mode="interactive"), *tasks(5))) == 2


def test_modes_are_claimed_separately() -> None:
    mixed = [*tasks(2), *tasks(2, mode="headless"), *tasks(2, mode="interactive")]
    assert sorted(c.task.mode for c in claims(admit(settings(max_concurrent=9), situation()), *mixed)) == [
        "",
        "",
        "headless",
        "headless",
    ]


@pytest.mark.parametrize("turn", range(4))
def test_coder_never_exceeds_its_own_limit(turn: int) -> None:
    held = settings(max_concurrent=9, coders__claude__max_concurrent=3)
    room = admit(held, situation(running={("claude", "headless"): 1}, turn=turn))
    mixed = [*tasks(5), *tasks(5, coder="claude"), *tasks(5, mode="headless"), *tasks(5, coder="codex")]
    found = coders_of(claims(room, *mixed))
    assert len(found) - found.count("codex") <= 2
    assert found.count("codex") == 5


def test_all_spellings_of_a_coder_share_its_last_slot() -> None:
    held = settings(max_concurrent=9, coders__claude__max_concurrent=1)
    for said in ({}, {"coder": "claude"}, {"mode": "headless"}, {"coder": "claude", "mode": "headless"}):
        started = [len(claims(admit(held, situation(turn=turn)), *tasks(2, **said))) for turn in range(4)]
        assert started == [1] * 4, said


def test_coder_at_its_limit_is_named_and_others_continue() -> None:
    held = settings(max_concurrent=9, coders__codex__max_concurrent=1)
    room = admit(held, situation(running={("codex", "headless"): 1}))
    assert room.reasons == ["codex runs its maximum number of agents"]
    assert coders_of(claims(room, *tasks(2), *tasks(2, coder="codex"))) == ["-", "-"]


def test_only_slot_is_named_as_such_when_it_is_taken() -> None:
    room = admit(settings(max_concurrent=1), situation(running={("codex", "headless"): 1}))
    assert room.reasons == ["the only slot for headless agents is in use"]


def test_parked_account_closes_only_its_own_lane() -> None:
    parked = Account(coder="claude", parked_until=NOON + HOUR, parked_reason="5-hour limit")
    room = admit(settings(), situation(accounts=[parked]))
    assert room.reasons == ["claude is parked until 2026-03-01 13:00:00 UTC: 5-hour limit"]
    assert coders_of(claims(room, *tasks(2), *tasks(1, coder="claude"), *tasks(2, coder="codex"))) == ["codex"] * 2


def test_account_is_open_again_when_its_parking_has_ended() -> None:
    parked = Account(coder="claude", parked_until=NOON, parked_reason="5-hour limit")
    assert admit(settings(), situation(accounts=[parked])).reasons == []


TWO = (
    {"name": "first", "coder": "claude", "max_concurrent": 2, "start_interval_seconds": 0},
    {"name": "second", "coder": "claude", "start_interval_seconds": 0},
)


def accounts_of(found: list[Claim]) -> list[str]:
    return sorted(claim.task.account or "-" for claim in found)


def test_account_limit_covers_all_modes() -> None:
    only = settings(max_concurrent=9, accounts=TWO[:1])
    room = admit(only, situation(busy={("claude", "first"): 1}))
    assert len(claims(room, *tasks(4))) <= 1
    assert claims(admit(only, situation(busy={("claude", "first"): 2})), *tasks(4)) == []


def test_accounts_add_up_for_tasks_without_an_account() -> None:
    room = admit(settings(max_concurrent=9, accounts=TWO), situation())
    assert len(claims(room, *tasks(12))) == 9


def test_task_with_an_account_runs_only_with_that_account() -> None:
    both = settings(max_concurrent=9, accounts=TWO)
    parked = Account(coder="claude", name="second", parked_until=NOON + HOUR)
    mixed = [*tasks(1, account="second"), *tasks(1, account="first"), *tasks(1, account="nobody")]
    assert accounts_of(claims(admit(both, situation()), *mixed)) == ["first", "second"]
    assert accounts_of(claims(admit(both, situation(accounts=[parked])), *mixed)) == ["first"]


def test_lane_has_the_limit_of_its_account_when_hosts_share_a_queue() -> None:
    both = settings(max_concurrent=9, accounts=TWO)
    alone, shared = (admit(both, situation(shared=shared)).lanes for shared in (False, True))
    assert {(lane.limit, lane.seat) for lane in alone} == {(None, ("", ""))}
    most = {("claude", account.name): account.max_concurrent for account in accounts_for(both, "claude")}
    assert most["claude", "first"] == 2
    assert {lane.seat: lane.limit for lane in shared if lane.seat[0] == "claude"} == most
    assert [(lane.seat, lane.limit) for lane in shared if lane.seat[0] == "codex"] == [(("codex", ""), None)]


def test_tasks_with_and_without_an_account_share_its_limit() -> None:
    only = settings(max_concurrent=9, accounts=TWO[:1])
    for turn in range(4):
        for busy in range(3):
            room = admit(only, situation(busy={("claude", "first"): busy}, turn=turn))
            found = claims(room, *tasks(3), *tasks(3, account="first"))
            assert len(found) == 2 - busy


def test_tasks_of_an_unusable_coder_are_not_claimed() -> None:
    room = admit(settings(), situation(coders={"claude": "", "codex": "not installed"}))
    assert room.reasons == ["codex cannot be used: not installed"]
    assert coders_of(claims(room, *tasks(1), *tasks(2, coder="codex"), *tasks(2, coder="gemini"))) == ["-"]


def test_tasks_without_a_coder_wait_when_the_default_is_unusable() -> None:
    room = admit(settings(), situation(coders={"claude": "not installed", "codex": ""}))
    assert coders_of(claims(room, *tasks(1), *tasks(1, coder="codex"))) == ["codex"]


def test_nothing_is_claimed_when_no_coder_is_usable() -> None:
    room = admit(settings(), situation(coders={"claude": "not installed"}))
    assert (room.lanes, room.room) == ([], 0)


def test_default_coder_can_be_replaced_for_tasks_without_a_coder() -> None:
    room = admit(settings(), situation(default_coder="codex", coders={"codex": "", "claude": "not installed"}))
    assert coders_of(claims(room, *tasks(1), *tasks(1, coder="claude"))) == ["-"]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"paused": True}, "paused"),
        ({"free_disk_mb": 1023}, "only 1023 MB of disk are free; min_free_disk_mb is 1024"),
        ({"free_memory_mb": 100.4}, "only 100 MB of memory are available; min_free_memory_mb is 512"),
    ],
)
def test_reason_that_stops_all_starts_is_reported(said: dict[str, Any], reason: str) -> None:
    room = admit(settings(), situation(**said))
    assert (room.lanes, room.room, room.reasons) == ([], 0, [reason])


def test_starts_continue_when_disk_and_memory_are_above_their_minimum() -> None:
    assert admit(settings(), situation(free_disk_mb=1024, free_memory_mb=512)).room == 3
    assert admit(settings(supervisor__min_free_disk_mb=0), situation(free_disk_mb=0)).room == 3


def test_supervisor_can_be_limited_to_tasks_of_given_origins() -> None:
    room = admit(settings(max_concurrent=9), situation(origins=("fanout", "multi")))
    found = claims(room, *tasks(1), *tasks(1, origin="fanout"), *tasks(1, origin="multi", coder="codex"))
    assert sorted(claim.task.origin for claim in found) == ["fanout", "multi"]


def test_agents_start_one_by_one_when_the_first_burst_is_used_up() -> None:
    held = settings(max_concurrent=200)
    ramp, now = Ramp(), NOON
    started: list[datetime] = []
    while len(started) < 200:
        room = admit(held, situation(now=now, ramp=ramp, running={("claude", "headless"): len(started)}))
        started += [now] * room.room
        ramp = ramp.started(room.room, now, 0.25)
        again_at = room.again_at(room.room)
        assert again_at is not None or len(started) == 200
        now = again_at or now
    assert started.count(NOON) == BURST
    gaps = {later - earlier for earlier, later in zip(started[BURST - 1 :], started[BURST:], strict=False)}
    assert gaps == {timedelta(seconds=0.25)}
    assert started[-1] == NOON + (200 - BURST) * timedelta(seconds=0.25)


def test_no_early_look_is_planned_when_no_tasks_wait() -> None:
    held = settings(max_concurrent=200)
    room = admit(held, situation())
    assert [room.again_at(taken) for taken in (0, BURST - 1)] == [None, None]
    assert room.again_at(BURST) == NOON + timedelta(seconds=0.25)
    used = Ramp().started(BURST, NOON, 0.25)
    assert admit(held, situation(ramp=used)).again_at(0) == NOON + timedelta(seconds=0.25)
    nobody_waits = admit(held, situation(ramp=used, coders={}))
    assert (nobody_waits.again_at(0), nobody_waits.reasons) == (None, [])


def test_ramp_recovers_while_nothing_starts() -> None:
    ramp = Ramp().started(BURST, NOON, 0.25)
    assert [ramp.allowed(NOON + timedelta(seconds=s), 0.25) for s in (0, 0.25, 1, 2.5, 99)] == [0, 1, 4, 10, BURST]
    assert ramp.more_at(NOON, 0.25) == NOON + timedelta(seconds=0.25)


def test_replacement_of_an_ended_agent_starts_at_once() -> None:
    assert Ramp().started(BURST, NOON, 0.25).started(-3, NOON, 0.25).allowed(NOON, 0.25) == 3
    assert Ramp().started(-3, NOON, 0.25).allowed(NOON, 0.25) == BURST


def test_ramp_recovers_when_the_clock_was_set_back() -> None:
    ramp = Ramp().started(5, NOON, 0.25)
    assert ramp.allowed(NOON - HOUR + timedelta(seconds=0.25), 0.25) == 0
    assert ramp.more_at(NOON - HOUR, 0.25) == NOON - HOUR + timedelta(seconds=0.25)
    assert ramp.started(0, NOON - HOUR, 0.25).allowed(NOON - HOUR + MINUTE, 0.25) == BURST


def test_ramp_is_disabled_without_an_interval() -> None:
    room = admit(settings(max_concurrent=900, supervisor__start_interval_seconds=0), situation())
    assert (room.room, room.again_at(900)) == (900, None)
    assert Ramp().started(900, NOON, 0).allowed(NOON, 0) > 900
