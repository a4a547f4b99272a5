"""What every history promises about workspaces: one for a task, one task for a branch, a path and a port."""

from collections.abc import Callable
from typing import Any

import pytest

from builders import HOUR, MINUTE, NOON, FakeClock, a_task
from contract.history_builders import a_claim, a_run, a_workspace, removed
from fleet.core.errors import BadInput, BranchTaken, FleetError, IllegalMove, WorkspaceNotFound
from fleet.core.relocation import Relocation
from fleet.core.task import Claim, Verdict
from fleet.core.workspace import Workspace
from fleet.store.base import History, Queue

pytestmark = pytest.mark.bd_in_soak

MICROSECOND = MINUTE / 60_000_000
UNICODE = "ünïcode 🚀 \u2028 'quoted\" \\ \n end"


def different(name: str, default: Any) -> Any:
    """A value for a field that no other field has, and that a careless column would spoil."""
    number = list(Workspace._fields).index(name)
    if name.endswith("_at"):
        return NOON + number * HOUR + number * MICROSECOND
    if name in ("first_port", "port_count"):
        return 1_000 + number
    return True if default is False else f"{name} {UNICODE}"


FULL = {name: different(name, default) for name, default in Workspace._fields.items() if name != "removed_at"}


def first_free(count: int, *, start: int = 20_000) -> Callable[[frozenset[int]], int]:
    """Chooses the first block of which no port is leased."""

    def choose(leased: frozenset[int]) -> int:
        return next(first for first in range(start, 60_000, count) if leased.isdisjoint(range(first, first + count)))

    return choose


def test_every_field_comes_back_as_it_was(queue: Queue, history: History) -> None:
    full, bare = Workspace(**FULL), a_workspace("t")
    assert (history.lease(full), history.lease(bare)) == (full, bare)
    kept = history.workspace(full.task_id)
    assert (kept, history.workspace("t")) == (full, bare)
    assert kept is not None
    assert [type(value) for value in kept.as_dict().values()] == [type(value) for value in full.as_dict().values()]


def test_a_task_goes_on_in_the_workspace_it_has(queue: Queue, history: History) -> None:
    first = history.lease(a_workspace("t", port_count=10), ports=first_free(10))
    other = a_workspace("t", path="/elsewhere", branch="other", made_at=NOON + HOUR, port_count=10)
    assert history.lease(other, ports=first_free(10)) == first
    assert history.workspaces() == [first]


def test_all_that_a_task_ever_had_is_told_without_those_of_others(queue: Queue, history: History) -> None:
    for key in ("t", "u"):
        history.lease(a_workspace(key))
        gone = removed(history, key)
        again = history.lease(a_workspace(key, path=f"/again/{key}"))
        assert history.workspaces_of(key) == [gone, again]
    assert history.workspaces_of("nobody") == []


def test_a_gone_workspace_is_followed_by_a_fresh_one_and_stays_on_record(
    queue: Queue, history: History, clock: FakeClock
) -> None:
    history.lease(a_workspace("t"))
    clock.advance(MINUTE)
    gone = removed(history, "t", '["refs/fleet/saved/t/1"]')
    assert (gone.is_gone, gone.removed_at, gone.saved_refs) == (True, NOON + MINUTE, ["refs/fleet/saved/t/1"])
    assert history.workspace("t") == gone
    again = history.lease(a_workspace("t", made_at=clock()))
    assert (history.workspace("t"), history.workspaces()) == (again, [again])
    assert history.workspaces(gone=True) == [gone, again]
    history.keep_workspace(again.replace(ready_at=NOON, notes='{"a": 1}'))
    assert history.workspaces(gone=True) == [gone, again.replace(ready_at=NOON, notes='{"a": 1}')]
    clock.advance(MINUTE)
    assert [each.saved_refs for each in (removed(history, "t", '["r"]'), gone)] == [["r"], ["refs/fleet/saved/t/1"]]
    assert history.workspaces(gone=True)[0] == gone


def test_a_branch_belongs_to_one_task(queue: Queue, history: History) -> None:
    history.lease(a_workspace("t", branch="x"))
    with pytest.raises(BranchTaken, match="branch 'x' belongs to t") as refused:
        history.lease(a_workspace("u", branch="x"))
    assert (refused.value.branch, refused.value.task_id, refused.value.exit_code) == ("x", "t", 1)
    assert "fleet attach t" in refused.value.hint
    assert history.workspace("u") is None


@pytest.mark.parametrize("changes", [{"common": "/r2/.git"}, {"branch": "X"}, {"branch": "x-y"}])
def test_another_repository_or_another_name_is_another_branch(
    queue: Queue, history: History, changes: dict[str, str]
) -> None:
    history.lease(a_workspace("t", branch="x/y"))
    there = history.lease(a_workspace("u", **{"branch": "x/y", **changes}))
    assert history.workspace("u") == there


def test_a_path_belongs_to_one_task_whatever_the_repository(queue: Queue, history: History) -> None:
    history.lease(a_workspace("t", path="/w/x"))
    with pytest.raises(BranchTaken, match="/w/x is the worktree of t"):
        history.lease(a_workspace("u", path="/w/x", common="/r2/.git"))
    assert [each.task_id for each in history.workspaces()] == ["t"]


def test_what_is_gone_frees_its_branch_path_and_ports(queue: Queue, history: History) -> None:
    wanted = a_workspace("t", port_count=10)
    history.lease(wanted, ports=first_free(10))
    removed(history, "t")
    other = history.lease(wanted.replace(task_id="u"), ports=first_free(10))
    assert (other.branch, other.path, other.first_port) == (wanted.branch, wanted.path, 20_000)
    with pytest.raises(BranchTaken):
        history.lease(wanted)


def test_agents_have_ports_of_their_own(queue: Queue, history: History) -> None:
    seen = []

    def noted(leased: frozenset[int]) -> int:
        seen.append(leased)
        return first_free(3)(leased)

    blocks = [history.lease(a_workspace(key, port_count=3), ports=noted).ports for key in "abc"]
    assert [list(block) for block in blocks] == [list(range(start, start + 3)) for start in (20_000, 20_003, 20_006)]
    assert seen == [frozenset(), frozenset(range(20_000, 20_003)), frozenset(range(20_000, 20_006))]
    removed(history, "b")
    assert history.lease(a_workspace("d", port_count=3), ports=noted).first_port == 20_003


def test_blocks_of_different_sizes_do_not_overlap(queue: Queue, history: History) -> None:
    sizes = {"a": 10, "b": 20, "c": 10, "d": 5, "e": 40}
    for key, count in sizes.items():
        history.lease(a_workspace(key, port_count=count), ports=first_free(count))
    ports = [port for each in history.workspaces() for port in each.ports]
    assert len(ports) == len(set(ports)) == sum(sizes.values())


@pytest.mark.parametrize("first", [20_000, 20_005, 19_995])
def test_ports_that_are_leased_are_refused_to_another(queue: Queue, history: History, first: int) -> None:
    history.lease(a_workspace("t", port_count=10), ports=lambda leased: 20_000)
    with pytest.raises(IllegalMove, match="leased to another agent"):
        history.lease(a_workspace("u", port_count=10), ports=lambda leased: first)
    with pytest.raises(IllegalMove, match="leased to another agent"):
        history.lease(a_workspace("u", first_port=first, port_count=10))
    assert history.workspace("u") is None


def test_any_number_of_agents_may_have_no_ports(queue: Queue, history: History) -> None:
    for key in "abc":
        assert list(history.lease(a_workspace(key, port_count=10), ports=lambda leased: 0).ports) == []
    assert len(history.workspaces()) == 3


def test_a_choice_of_ports_that_fails_leaves_nothing(queue: Queue, history: History) -> None:
    def none_left(leased: frozenset[int]) -> int:
        raise FleetError("no block of ports is free")

    with pytest.raises(FleetError, match="no block"):
        history.lease(a_workspace("t"), ports=none_left)
    assert history.workspaces(gone=True) == []


def test_workspaces_are_told_in_the_order_of_their_leases_of_one_repository_or_all(
    queue: Queue, history: History
) -> None:
    leased = [
        history.lease(a_workspace(key, common=common, made_at=NOON - number * HOUR))
        for number, (key, common) in enumerate((("b", "/r"), ("c", "/s"), ("a", "/r"), ("d", "/r")))
    ]
    gone = removed(history, "b")
    assert history.workspaces() == leased[1:]
    assert history.workspaces(common="/r") == leased[2:]
    assert history.workspaces(common="/r", gone=True) == [gone, *leased[2:]]
    assert history.workspaces(common="/nope", gone=True) == history.workspaces(common="/r\udcff") == []
    assert history.workspace("nope") is None


def test_what_became_of_a_workspace_is_kept(queue: Queue, history: History) -> None:
    leased = history.lease(a_workspace("t"))
    assert not leased.is_ready
    facts = {"base": "main", "base_commit": "c0ffee", "made_branch": True, "ready_at": NOON, "notes": '{"a": 1}'}
    history.keep_workspace(leased.replace(**facts, saved='["r"]'))
    kept = history.workspace("t")
    assert kept == leased.replace(**facts, saved='["r"]')
    assert kept is not None and kept.is_ready and kept.made == {"a": 1}


def test_keeping_a_workspace_neither_moves_it_nor_stops_its_removal(queue: Queue, history: History) -> None:
    leased = history.lease(a_workspace("t", first_port=20_000, port_count=10))
    going = history.begin_removal("t")
    elsewhere = {name: "elsewhere" for name in ("repo", "common", "path", "branch")}
    history.keep_workspace(leased.replace(**elsewhere, first_port=1, port_count=1, removed_at=NOON, ready_at=NOON))
    kept = history.workspace("t")
    assert kept == going.replace(ready_at=NOON)
    assert kept is not None and not kept.is_ready


def test_late_words_about_a_gone_workspace_do_not_reach_the_next(
    queue: Queue, history: History, clock: FakeClock
) -> None:
    with pytest.raises(WorkspaceNotFound, match="t has no worktree"):
        history.keep_workspace(a_workspace("t"))
    first = history.lease(a_workspace("t"))
    removed(history, "t")
    with pytest.raises(WorkspaceNotFound):
        history.keep_workspace(first.replace(ready_at=NOON))
    clock.advance(MINUTE)
    second = history.lease(a_workspace("t", made_at=clock()))
    with pytest.raises(WorkspaceNotFound):
        history.keep_workspace(first.replace(ready_at=NOON))
    assert history.workspace("t") == second


def test_a_removal_that_was_begun_is_gone_on_with(queue: Queue, history: History, clock: FakeClock) -> None:
    history.lease(a_workspace("t"))
    assert history.begin_removal("t").removing_at == NOON
    clock.advance(HOUR)
    assert history.begin_removal("t") == history.workspace("t") == a_workspace("t", removing_at=NOON)
    gone = history.end_removal("t", "[]")
    assert gone == a_workspace("t", removing_at=NOON, removed_at=NOON + HOUR)
    clock.advance(HOUR)
    assert history.end_removal("t", '["other"]') == history.workspace("t") == gone


def test_a_removal_that_could_not_be_is_taken_back(queue: Queue, history: History) -> None:
    with pytest.raises(WorkspaceNotFound):
        history.stop_removal("t")
    leased = history.lease(a_workspace("t", ready_at=NOON))
    history.begin_removal("t")
    assert history.stop_removal("t") == history.workspace("t") == leased
    assert history.lease(a_workspace("t")) == leased
    gone = removed(history, "t")
    assert history.stop_removal("t") == history.workspace("t")
    assert gone is None or history.workspace("t") == gone


def test_what_is_not_there_or_not_being_removed_cannot_go(queue: Queue, history: History) -> None:
    with pytest.raises(WorkspaceNotFound):
        history.begin_removal("t")
    with pytest.raises(WorkspaceNotFound):
        history.end_removal("t", "[]")
    leased = history.lease(a_workspace("t"))
    with pytest.raises(IllegalMove, match="never began"):
        history.end_removal("t", "[]")
    assert history.workspace("t") == leased
    removed(history, "t")
    with pytest.raises(WorkspaceNotFound):
        history.begin_removal("t")


def test_a_workspace_that_is_being_removed_is_not_worked_in_again(queue: Queue, history: History) -> None:
    history.lease(a_workspace("t", ready_at=NOON))
    assert not history.begin_removal("t").is_ready
    with pytest.raises(IllegalMove, match="is being removed") as refused:
        history.lease(a_workspace("t"))
    assert "fleet kill t" in refused.value.hint
    history.end_removal("t", "[]")
    assert history.lease(a_workspace("t", ready_at=NOON)).is_ready


def test_a_task_that_is_worked_on_keeps_its_workspace(queue: Queue, history: History) -> None:
    claim = a_claim(queue, id="t")
    leased = history.lease(a_workspace("t"))
    with pytest.raises(IllegalMove, match="t is being worked on") as refused:
        history.begin_removal("t")
    assert "fleet kill t" in refused.value.hint
    run = history.begin(claim, a_run())
    queue.settle(claim, Verdict(status="blocked"))  # not held any more, but the run is not over
    with pytest.raises(IllegalMove):
        history.begin_removal("t")
    assert history.workspace("t") == leased
    history.end(run)
    assert history.begin_removal("t").removing_at == NOON


def test_a_workspace_can_be_left_behind_whoever_holds_its_task(
    queue: Queue, history: History, clock: FakeClock
) -> None:
    """Its host is gone, and another goes on: the claim that forbids a removal is the other's."""
    claim = a_claim(queue)
    key = claim.task.id
    first = history.lease(a_workspace(key, first_port=20_000, port_count=10))
    history.begin(claim, a_run(task_id=key, epoch=claim.epoch, owner=claim.owner))
    clock.advance(MINUTE)
    left = history.leave_workspace(key)
    assert left == first.replace(removing_at=NOON + MINUTE, removed_at=NOON + MINUTE)
    assert (history.leave_workspace(key), history.workspaces()) == (left, [])
    again = history.lease(a_workspace(key, first_port=20_000, port_count=10, made_at=clock()))
    assert (history.workspace(key), history.workspaces(gone=True)) == (again, [left, again])
    with pytest.raises(WorkspaceNotFound):
        history.leave_workspace("nobody")


def taken_by_hand(queue: Queue, claim: Claim) -> None:
    queue.release(claim)
    queue.take("t", "ada")


ENDS: dict[str, Callable[[Queue, Claim], object]] = {
    "closed": lambda queue, claim: queue.settle(claim, Verdict(status="closed")),
    "given back": lambda queue, claim: queue.release(claim),
    "taken by hand": taken_by_hand,
    "deleted": lambda queue, claim: queue.remove("t"),
}


@pytest.mark.parametrize("end", ENDS)
def test_no_supervisor_no_run_no_objection(queue: Queue, history: History, end: str) -> None:
    history.begin(a_claim(queue, id="u"), a_run())  # what others do is no reason
    claim = a_claim(queue, id="t")
    history.lease(a_workspace("t"))
    history.end(history.begin(claim, a_run()))
    ENDS[end](queue, claim)
    assert removed(history, "t").is_gone


def test_a_deleted_task_leaves_its_workspace_on_record(queue: Queue, history: History) -> None:
    queue.add(a_task(id="t"))
    leased = history.lease(a_workspace("t"))
    queue.remove("t")
    assert (history.workspace("t"), history.workspaces()) == (leased, [leased])
    with pytest.raises(BranchTaken):
        history.lease(a_workspace("u", branch=leased.branch))


@pytest.mark.parametrize("name", ["repo", "common", "path", "branch", "base"])
def test_a_name_that_could_not_be_told_from_another_is_refused(queue: Queue, history: History, name: str) -> None:
    with pytest.raises(BadInput, match=rf"the {name} of the worktree is not UTF-8: x\\udcff") as refused:
        history.lease(a_workspace("t", **{name: "x\udcff"}))
    assert "another name" in refused.value.hint
    assert history.workspaces() == []


def test_workspaces_are_taken_back_with_their_transaction(queue: Queue, history: History) -> None:
    kept = history.lease(a_workspace("t"))
    with pytest.raises(ZeroDivisionError), queue.atomic():
        history.lease(a_workspace("u"))
        history.keep_workspace(kept.replace(ready_at=NOON))
        removed(history, "t")
        raise ZeroDivisionError
    assert history.workspaces(gone=True) == [kept]


def test_runs_and_workspaces_follow_when_their_home_was_moved(queue: Queue, history: History) -> None:
    claim = a_claim(queue, owner="old")
    history.begin(claim, a_run(home="/home/a", workspace="/home/a/w/t"))
    inside = history.lease(
        a_workspace(claim.task.id, path="/home/a/w/t", notes='{"host":"old","admin":"/r/.git/worktrees/t"}')
    )
    beside = history.lease(a_workspace("u", path="/home/ab/w/u"))
    foreign = history.lease(a_workspace("v", path="/home/a/w/v", notes='{"host":"third"}'))
    history.relocate(Relocation(before=("/home/a", "/real/a"), after="/new", owner_before="old", owner="new"))
    moved = history.workspace(claim.task.id)
    assert moved is not None and (moved.path, moved.host) == ("/new/w/t", "new")
    assert moved.replace(path=inside.path, notes=inside.notes) == inside
    assert (history.workspace("u"), history.workspace("v")) == (beside, foreign)
    [run] = history.live("new")
    assert (run.home, run.workspace) == ("/new", "/home/a/w/t"), "coders know their sessions by the directory"
    assert history.live("old") == []
