"""The contract of all stores for runs: numbers, folded counters and a single end."""

from typing import Any

import pytest

from builders import HOUR, MINUTE, NOON, FakeClock
from contract.store_builders import a_claim, a_run, next_claim
from fleet.core.errors import ClaimLost
from fleet.core.run import Run, Spent, spent_by, total_cost
from fleet.core.task import Verdict
from fleet.store.base import Store

MICROSECOND = MINUTE / 60_000_000
UNICODE = "ünïcode 🚀 \u2028 \x00 'quoted\" \\ \n end"

BEGUN_WITH = ("id", "task_id", "number", "epoch", "owner", "started_at")
ENDED_WITH = ("ended_at", "ending", "reason", "resume_at", "exit_status", "exit_signal", "finding", "receipt")


def different(name: str, default: Any) -> Any:
    """Return a value that differs between fields and that a wrong column type would change."""
    number = list(Run._fields).index(name)
    if name.endswith("_at"):
        return NOON + number * HOUR + number * MICROSECOND
    if isinstance(default, str):
        return f'{{"{name}": "{UNICODE}"}}' if name in ("folded", "receipt", "verify") else f"{name} {UNICODE}"
    return number + 0.1 if name in ("cost_usd", "cpu_pct") else 2**62 + number


FULL = {name: different(name, default) for name, default in Run._fields.items() if name not in BEGUN_WITH}
FOLDED = {name: value for name, value in FULL.items() if name not in ENDED_WITH}
ENDED = {name: value for name, value in FULL.items() if name in ENDED_WITH}


@pytest.mark.bd_in_soak
def test_runs_of_a_task_are_numbered_from_one(store: Store) -> None:
    claim = a_claim(store)
    for number in (1, 2, 3):
        run = store.runs.begin(claim, a_run())
        assert (run.id, run.number) == (f"{claim.task.id}/{number}", number)
        assert (run.task_id, run.owner, run.epoch) == (claim.task.id, "host", claim.epoch)
        assert store.tasks.get(claim.task.id).run_id == run.id
        store.runs.end(run)
        store.claims.release(claim)
        claim = next_claim(store)
    other = a_claim(store)
    assert store.runs.begin(other, a_run()).id == f"{other.task.id}/1"


def test_begin_changes_only_the_run_id_of_the_task(store: Store) -> None:
    claim = a_claim(store, labels=("a", "b"), metadata={"k": 1})
    run = store.runs.begin(claim, a_run())
    assert store.tasks.get(claim.task.id) == claim.task.replace(run_id=run.id)


def test_run_number_is_not_reused_after_its_task_was_removed(store: Store) -> None:
    claim = a_claim(store)
    first = store.runs.begin(claim, a_run())
    store.tasks.remove(claim.task.id)
    assert store.runs.of_task(claim.task.id) == [first]
    again = a_claim(store, id=claim.task.id)
    assert store.runs.begin(again, a_run()).number == 2


@pytest.mark.bd_in_soak
def test_begin_keeps_the_number_of_a_run_when_it_is_higher(store: Store) -> None:
    """A run that is missing in an older database is recorded with the number of its agent."""
    claim = a_claim(store)
    first = store.runs.begin(claim, a_run())
    later = store.runs.begin(claim, a_run(number=5))
    assert (later.id, later.number) == (f"{claim.task.id}/5", 5)
    assert [(run.number, run.is_live) for run in store.runs.of_task(claim.task.id)] == [
        (first.number, False),
        (5, True),
    ]


@pytest.mark.bd_in_soak
def test_run_is_returned_unchanged(store: Store) -> None:
    claim = a_claim(store)
    bare = store.runs.begin(claim, a_run())
    assert store.runs.get(bare.id) == bare
    assert bare.replace(**dict.fromkeys(BEGUN_WITH)) == a_run().replace(**dict.fromkeys(BEGUN_WITH))
    store.runs.fold(claim, bare.replace(**FULL))
    assert store.runs.get(bare.id) == bare.replace(**FOLDED)
    store.runs.fold(claim, bare)
    assert store.runs.get(bare.id) == bare
    store.runs.end(bare.replace(**FULL))
    kept = store.runs.get(bare.id)
    assert kept == bare.replace(**FULL)
    assert kept is not None and [type(value) for value in kept.as_dict().values()] == [
        type(value) for value in bare.replace(**FULL).as_dict().values()
    ]


@pytest.mark.bd_in_soak
def test_begin_accepts_a_run_with_counters(store: Store) -> None:
    claim = a_claim(store)
    run = store.runs.begin(claim, a_run(**FOLDED, started_at=NOON + MICROSECOND))
    assert store.runs.get(run.id) == run
    assert run.started_at == NOON + MICROSECOND


@pytest.mark.bd_in_soak
def test_fold_does_not_change_the_fields_set_at_begin(store: Store) -> None:
    claim = a_claim(store)
    run = store.runs.begin(claim, a_run())
    store.runs.fold(claim, run.replace(number=7, epoch=7, owner="other", started_at=NOON + HOUR, events=1))
    assert store.runs.get(run.id) == run.replace(events=1)


@pytest.mark.bd_in_soak
def test_counters_and_offset_are_stored_together_or_not_at_all(store: Store) -> None:
    claim = a_claim(store)
    run = store.runs.begin(claim, a_run())
    store.runs.fold(claim, run.replace(events=1, stdout_offset=10))
    with pytest.raises(ZeroDivisionError), store.atomic():
        store.runs.fold(claim, run.replace(events=2, stdout_offset=20))
        raise ZeroDivisionError
    assert store.runs.get(run.id) == run.replace(events=1, stdout_offset=10)


@pytest.mark.bd_in_soak
def test_fold_all_stores_many_runs_and_returns_lost_ones(store: Store) -> None:
    claims = [a_claim(store) for _ in range(5)]
    runs = [store.runs.begin(claim, a_run()) for claim in claims]
    store.claims.release(claims[1])
    store.tasks.remove(claims[3].task.id)
    folded = [run.replace(events=3, stdout_offset=9) for run in runs]
    never = a_run(id="nope/1")
    lost = store.runs.fold_all([*zip(claims, folded, strict=True), (claims[0], never), (claims[0], folded[2])])
    assert lost == [runs[1].id, runs[3].id, "nope/1", runs[2].id]
    assert [store.runs.get(run.id) for run in runs] == [folded[0], runs[1], folded[2], runs[3], folded[4]]
    assert store.runs.fold_all([]) == []


@pytest.mark.bd_in_soak
def test_half_a_surrogate_pair_of_one_run_does_not_stop_the_others(store: Store) -> None:
    claims = [a_claim(store), a_claim(store)]
    cut, whole = (store.runs.begin(claim, a_run()) for claim in claims)
    cut, whole = cut.replace(session="\ud83d", events=1), whole.replace(events=1)
    assert store.runs.fold_all([(claims[0], cut), (claims[1], whole)]) == []
    store.runs.end(cut.replace(reason="\udcff"))
    assert store.runs.get(whole.id) == whole
    assert [run.events for run in store.runs.of_task(cut.task_id)] == [1]


@pytest.mark.bd_in_soak
def test_run_ends_once(store: Store, clock: FakeClock) -> None:
    claim = a_claim(store)
    run = store.runs.begin(claim, a_run())
    store.runs.end(run.replace(**ENDED))
    ended = run.replace(**ENDED)
    assert store.runs.get(run.id) == ended
    store.runs.end(run.replace(ending="lost", ended_at=NOON + HOUR, events=99))
    assert store.runs.get(run.id) == ended
    with pytest.raises(ClaimLost):
        store.runs.fold(claim, run.replace(events=99))
    assert store.runs.fold_all([(claim, run)]) == [run.id]
    assert store.runs.get(run.id) == ended


@pytest.mark.bd_in_soak
def test_end_defaults_to_the_current_time(store: Store, clock: FakeClock) -> None:
    run = store.runs.begin(a_claim(store), a_run())
    clock.advance(MINUTE)
    store.runs.end(run.replace(ending="failed", started_at=NOON + HOUR))
    assert store.runs.get(run.id) == run.replace(ending="failed", ended_at=NOON + MINUTE)


@pytest.mark.bd_in_soak
def test_unknown_run_cannot_end(store: Store) -> None:
    with pytest.raises(ClaimLost):
        store.runs.end(a_run(id="nope/1", task_id="nope"))
    assert store.runs.get("nope/1") is None


@pytest.mark.parametrize("settled_first", [True, False])
def test_settle_and_end_are_written_together(store: Store, settled_first: bool) -> None:
    claim = a_claim(store)
    run = store.runs.begin(claim, a_run())
    task = store.tasks.get(claim.task.id)

    def settle_and_end() -> None:
        if settled_first:
            store.claims.settle(claim, Verdict(status="closed"))
        store.runs.end(run.replace(ending="finished"))
        store.accounts.park("claude", "", until=NOON, reason="limit")
        if not settled_first:
            store.claims.settle(claim, Verdict(status="closed"))

    with pytest.raises(ZeroDivisionError), store.atomic():
        settle_and_end()
        raise ZeroDivisionError
    assert (store.tasks.get(claim.task.id), store.runs.get(run.id), store.accounts.all()) == (task, run, [])
    with store.atomic():
        settle_and_end()
    assert store.tasks.get(claim.task.id).status == "closed"
    assert store.runs.of_task(claim.task.id) == [run.replace(ending="finished", ended_at=NOON)]


def test_run_number_is_free_again_after_a_rollback(store: Store) -> None:
    claim = a_claim(store)
    with pytest.raises(ZeroDivisionError), store.atomic():
        store.runs.begin(claim, a_run())
        raise ZeroDivisionError
    assert store.runs.of_task(claim.task.id) == [] and store.tasks.get(claim.task.id).run_id == ""
    assert store.runs.begin(claim, a_run()).number == 1


@pytest.mark.bd_in_soak
def test_runs_are_returned_oldest_first(store: Store) -> None:
    claim = a_claim(store)
    runs = []
    for number in range(1, 12):  # past 9, to detect sorting as text
        runs.append(store.runs.begin(claim, a_run(started_at=NOON - number * HOUR)))
        store.runs.end(runs[-1])
    assert [run.number for run in store.runs.of_task(claim.task.id)] == list(range(1, 12))
    assert store.runs.live() == store.runs.of_task("nope") == []


@pytest.mark.bd_in_soak
def test_last_runs_of_many_tasks_are_returned_at_once(store: Store) -> None:
    never = a_claim(store).task.id
    last = {}
    for count in (1, 2, 11):  # past 9, to detect sorting as text
        claim = a_claim(store)
        for _ in range(count):
            last[claim.task.id] = store.runs.begin(claim, a_run())
            store.runs.end(last[claim.task.id])
            last[claim.task.id] = store.runs.of_task(claim.task.id)[-1]
    live = a_claim(store)
    last[live.task.id] = store.runs.begin(live, a_run())
    assert store.runs.last([*last, never, "nope"]) == last
    assert store.runs.last([live.task.id]) == {live.task.id: last[live.task.id]}
    assert store.runs.last([]) == {}


@pytest.mark.bd_in_soak
def test_totals_of_tasks_count_all_their_runs(store: Store) -> None:
    claim, other, never = a_claim(store), a_claim(store), a_claim(store).task.id
    used: tuple[dict[str, Any], ...] = (
        {"input_tokens": 1, "output_tokens": 2, "cost_usd": 0.5, "cost_basis": "reported"},
        {"cache_read_tokens": 4, "cost_usd": 0.25, "cost_basis": "computed:2026-01-01"},
        {},
    )
    for said in used:
        run = store.runs.begin(claim, a_run())
        store.runs.end(run.replace(ended_at=run.started_at + MINUTE, **said))
    unknown = store.runs.begin(other, a_run())
    store.runs.end(unknown.replace(cache_write_tokens=8, ended_at=unknown.started_at + MINUTE))
    found = store.runs.spent([claim.task.id, other.task.id, never])
    assert found == {
        claim.task.id: Spent(task_id=claim.task.id, runs=3, tokens=7, cost_usd=0.75, computed=1, seconds=180.0),
        other.task.id: Spent(task_id=other.task.id, runs=1, tokens=8, unpriced=1, seconds=60.0),
    }
    for key in (claim.task.id, other.task.id):
        assert (found[key].cost_usd, found[key].cost_basis) == total_cost(store.runs.of_task(key))
    only = store.runs.of_task(other.task.id)[0]
    assert spent_by(only, only.started_at) == found[other.task.id]
    live = store.runs.begin(other, a_run())
    store.runs.fold(other, live.replace(input_tokens=2))
    assert store.runs.spent([other.task.id])[other.task.id].tokens == 10


@pytest.mark.bd_in_soak
def test_live_runs_are_returned_oldest_first_by_owner(store: Store) -> None:
    begun = [
        store.runs.begin(a_claim(store, owner=owner), a_run(started_at=NOON - minutes * MINUTE))
        for owner, minutes in (("a", 0), ("b", 1), ("a", 2), ("a", 3), ("", 4))
    ]
    store.runs.end(begun[3])
    assert store.runs.live() == [begun[4], begun[2], begun[1], begun[0]]
    assert (store.runs.live("a"), store.runs.live("b")) == ([begun[2], begun[0]], [begun[1]])
    assert store.runs.live("") == [begun[4]] and store.runs.live("nobody") == []


@pytest.mark.bd_in_soak
def test_ended_runs_are_returned_in_parts_by_their_end(store: Store) -> None:
    ends = [NOON - MINUTE * minutes for minutes in (5, 3, 3, 3, 1, 0)]
    ids = []
    for number, ended_at in enumerate(ends):
        run = store.runs.begin(a_claim(store, id=f"t-{number}"), a_run())
        store.runs.end(run.replace(ended_at=ended_at))
        ids.append(run.id)
    store.runs.begin(a_claim(store), a_run())
    found: list[str] = []
    after = None
    while part := store.runs.ended(before=NOON, after=after, limit=2):
        assert len(part) <= 2 and part[0].id not in found
        found += [run.id for run in part]
        last = part[-1]
        assert last.ended_at is not None
        after = (last.ended_at, last.id)
    assert found == ids[:5]  # the last one ended exactly at the limit, and one is live
    assert store.runs.ended(before=NOON - HOUR, limit=9) == []


@pytest.mark.bd_in_soak
def test_last_ended_runs_are_returned_latest_first(store: Store) -> None:
    for number, minutes in enumerate((3, 9, 1, 5)):
        run = store.runs.begin(a_claim(store, id=f"t-{number}"), a_run())
        store.runs.end(run.replace(ended_at=NOON - MINUTE * minutes))
    store.runs.begin(a_claim(store), a_run())

    def found(minutes: int, limit: int = 9) -> list[str]:
        return [run.task_id for run in store.runs.ended_last(after=NOON - MINUTE * minutes, limit=limit)]

    assert found(60) == ["t-2", "t-0", "t-3", "t-1"]
    assert found(60, limit=2) == ["t-2", "t-0"]
    assert found(5) == ["t-2", "t-0"]
    assert found(0) == []
