"""What every history promises about runs: their numbers, what is folded into them, and their one end."""

from typing import Any

import pytest

from builders import HOUR, MINUTE, NOON, FakeClock
from contract.history_builders import a_claim, a_run, next_claim
from fleet.core.errors import ClaimLost
from fleet.core.run import Run
from fleet.core.task import Verdict
from fleet.store.base import History, Queue

MICROSECOND = MINUTE / 60_000_000
UNICODE = "ünïcode 🚀 \u2028 \x00 'quoted\" \\ \n end"

BEGUN_WITH = ("id", "task_id", "number", "epoch", "owner", "started_at")
ENDED_WITH = ("ended_at", "ending", "reason", "resume_at", "exit_status", "exit_signal", "finding", "receipt")


def different(name: str, default: Any) -> Any:
    """A value for a field that no other field has, and that a careless column would spoil."""
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
def test_runs_of_a_task_are_numbered_from_one(queue: Queue, history: History) -> None:
    claim = a_claim(queue)
    for number in (1, 2, 3):
        run = history.begin(claim, a_run())
        assert (run.id, run.number) == (f"{claim.task.id}/{number}", number)
        assert (run.task_id, run.owner, run.epoch) == (claim.task.id, "host", claim.epoch)
        assert queue.get(claim.task.id).run_id == run.id
        history.end(run)
        queue.release(claim)
        claim = next_claim(queue)
    other = a_claim(queue)
    assert history.begin(other, a_run()).id == f"{other.task.id}/1"


def test_a_new_run_changes_nothing_of_its_task_but_names_it(queue: Queue, history: History) -> None:
    claim = a_claim(queue, labels=("a", "b"), metadata={"k": 1})
    run = history.begin(claim, a_run())
    assert queue.get(claim.task.id) == claim.task.replace(run_id=run.id)


def test_a_number_is_not_given_again_after_its_task_was_removed(queue: Queue, history: History) -> None:
    claim = a_claim(queue)
    first = history.begin(claim, a_run())
    queue.remove(claim.task.id)
    assert history.runs(claim.task.id) == [first]
    again = a_claim(queue, id=claim.task.id)
    assert history.begin(again, a_run()).number == 2


@pytest.mark.bd_in_soak
def test_begin_keeps_the_number_of_a_run_when_it_is_higher(queue: Queue, history: History) -> None:
    """A run that an older database does not know is put on record under the number that its agent has."""
    claim = a_claim(queue)
    first = history.begin(claim, a_run())
    later = history.begin(claim, a_run(number=5))
    assert (later.id, later.number) == (f"{claim.task.id}/5", 5)
    assert [(run.number, run.is_live) for run in history.runs(claim.task.id)] == [(first.number, False), (5, True)]


@pytest.mark.bd_in_soak
def test_every_field_comes_back_as_it_was(queue: Queue, history: History) -> None:
    claim = a_claim(queue)
    bare = history.begin(claim, a_run())
    assert history.run(bare.id) == bare
    assert bare.replace(**dict.fromkeys(BEGUN_WITH)) == a_run().replace(**dict.fromkeys(BEGUN_WITH))
    history.fold(claim, bare.replace(**FULL))
    assert history.run(bare.id) == bare.replace(**FOLDED)
    history.fold(claim, bare)
    assert history.run(bare.id) == bare
    history.end(bare.replace(**FULL))
    kept = history.run(bare.id)
    assert kept == bare.replace(**FULL)
    assert kept is not None and [type(value) for value in kept.as_dict().values()] == [
        type(value) for value in bare.replace(**FULL).as_dict().values()
    ]


@pytest.mark.bd_in_soak
def test_a_run_may_be_begun_with_all_that_is_known(queue: Queue, history: History) -> None:
    claim = a_claim(queue)
    run = history.begin(claim, a_run(**FOLDED, started_at=NOON + MICROSECOND))
    assert history.run(run.id) == run
    assert run.started_at == NOON + MICROSECOND


@pytest.mark.bd_in_soak
def test_folding_leaves_alone_what_a_run_was_begun_with(queue: Queue, history: History) -> None:
    claim = a_claim(queue)
    run = history.begin(claim, a_run())
    history.fold(claim, run.replace(number=7, epoch=7, owner="other", started_at=NOON + HOUR, events=1))
    assert history.run(run.id) == run.replace(events=1)


@pytest.mark.bd_in_soak
def test_counters_and_the_offset_they_were_read_up_to_are_kept_together_or_not_at_all(
    queue: Queue, history: History
) -> None:
    claim = a_claim(queue)
    run = history.begin(claim, a_run())
    history.fold(claim, run.replace(events=1, stdout_offset=10))
    with pytest.raises(ZeroDivisionError), queue.atomic():
        history.fold(claim, run.replace(events=2, stdout_offset=20))
        raise ZeroDivisionError
    assert history.run(run.id) == run.replace(events=1, stdout_offset=10)


@pytest.mark.bd_in_soak
def test_many_runs_are_folded_at_once_and_lost_ones_are_named(queue: Queue, history: History) -> None:
    claims = [a_claim(queue) for _ in range(5)]
    runs = [history.begin(claim, a_run()) for claim in claims]
    queue.release(claims[1])
    queue.remove(claims[3].task.id)
    folded = [run.replace(events=3, stdout_offset=9) for run in runs]
    never = a_run(id="nope/1")
    lost = history.fold_all([*zip(claims, folded, strict=True), (claims[0], never), (claims[0], folded[2])])
    assert lost == [runs[1].id, runs[3].id, "nope/1", runs[2].id]
    assert [history.run(run.id) for run in runs] == [folded[0], runs[1], folded[2], runs[3], folded[4]]
    assert history.fold_all([]) == []


@pytest.mark.bd_in_soak
def test_half_a_character_from_one_agent_does_not_stop_the_others(queue: Queue, history: History) -> None:
    claims = [a_claim(queue), a_claim(queue)]
    cut, whole = (history.begin(claim, a_run()) for claim in claims)
    cut, whole = cut.replace(session="\ud83d", events=1), whole.replace(events=1)
    assert history.fold_all([(claims[0], cut), (claims[1], whole)]) == []
    history.end(cut.replace(reason="\udcff"))
    assert history.run(whole.id) == whole
    assert [run.events for run in history.runs(cut.task_id)] == [1]


@pytest.mark.bd_in_soak
def test_a_run_ends_once(queue: Queue, history: History, clock: FakeClock) -> None:
    claim = a_claim(queue)
    run = history.begin(claim, a_run())
    history.end(run.replace(**ENDED))
    ended = run.replace(**ENDED)
    assert history.run(run.id) == ended
    history.end(run.replace(ending="lost", ended_at=NOON + HOUR, events=99))
    assert history.run(run.id) == ended
    with pytest.raises(ClaimLost):
        history.fold(claim, run.replace(events=99))
    assert history.fold_all([(claim, run)]) == [run.id]
    assert history.run(run.id) == ended


@pytest.mark.bd_in_soak
def test_an_end_that_does_not_say_when_is_now(queue: Queue, history: History, clock: FakeClock) -> None:
    run = history.begin(a_claim(queue), a_run())
    clock.advance(MINUTE)
    history.end(run.replace(ending="failed", started_at=NOON + HOUR))
    assert history.run(run.id) == run.replace(ending="failed", ended_at=NOON + MINUTE)


@pytest.mark.bd_in_soak
def test_a_run_that_was_never_begun_cannot_end(queue: Queue, history: History) -> None:
    with pytest.raises(ClaimLost):
        history.end(a_run(id="nope/1", task_id="nope"))
    assert history.run("nope/1") is None


@pytest.mark.parametrize("settled_first", [True, False])
def test_settling_and_ending_are_one_write(queue: Queue, history: History, settled_first: bool) -> None:
    claim = a_claim(queue)
    run = history.begin(claim, a_run())
    task = queue.get(claim.task.id)

    def settle_and_end() -> None:
        if settled_first:
            queue.settle(claim, Verdict(status="closed"))
        history.end(run.replace(ending="finished"))
        history.park("claude", "", until=NOON, reason="limit")
        if not settled_first:
            queue.settle(claim, Verdict(status="closed"))

    with pytest.raises(ZeroDivisionError), queue.atomic():
        settle_and_end()
        raise ZeroDivisionError
    assert (queue.get(claim.task.id), history.run(run.id), history.accounts()) == (task, run, [])
    with queue.atomic():
        settle_and_end()
    assert queue.get(claim.task.id).status == "closed"
    assert history.runs(claim.task.id) == [run.replace(ending="finished", ended_at=NOON)]


def test_a_run_taken_back_with_its_transaction_leaves_its_number_free(queue: Queue, history: History) -> None:
    claim = a_claim(queue)
    with pytest.raises(ZeroDivisionError), queue.atomic():
        history.begin(claim, a_run())
        raise ZeroDivisionError
    assert history.runs(claim.task.id) == [] and queue.get(claim.task.id).run_id == ""
    assert history.begin(claim, a_run()).number == 1


@pytest.mark.bd_in_soak
def test_runs_are_told_oldest_first(queue: Queue, history: History) -> None:
    claim = a_claim(queue)
    runs = []
    for number in range(1, 12):  # past 9, where text would sort otherwise
        runs.append(history.begin(claim, a_run(started_at=NOON - number * HOUR)))
        history.end(runs[-1])
    assert [run.number for run in history.runs(claim.task.id)] == list(range(1, 12))
    assert history.live() == history.runs("nope") == []


@pytest.mark.bd_in_soak
def test_the_last_runs_of_many_tasks_are_told_at_once(queue: Queue, history: History) -> None:
    never = a_claim(queue).task.id
    last = {}
    for count in (1, 2, 11):  # past 9, where text would sort otherwise
        claim = a_claim(queue)
        for _ in range(count):
            last[claim.task.id] = history.begin(claim, a_run())
            history.end(last[claim.task.id])
            last[claim.task.id] = history.runs(claim.task.id)[-1]
    live = a_claim(queue)
    last[live.task.id] = history.begin(live, a_run())
    assert history.last_runs([*last, never, "nope"]) == last
    assert history.last_runs([live.task.id]) == {live.task.id: last[live.task.id]}
    assert history.last_runs([]) == {}


@pytest.mark.bd_in_soak
def test_live_runs_are_told_oldest_first_of_one_owner_or_of_all(queue: Queue, history: History) -> None:
    begun = [
        history.begin(a_claim(queue, owner=owner), a_run(started_at=NOON - minutes * MINUTE))
        for owner, minutes in (("a", 0), ("b", 1), ("a", 2), ("a", 3), ("", 4))
    ]
    history.end(begun[3])
    assert history.live() == [begun[4], begun[2], begun[1], begun[0]]
    assert (history.live("a"), history.live("b")) == ([begun[2], begun[0]], [begun[1]])
    assert history.live("") == [begun[4]] and history.live("nobody") == []
