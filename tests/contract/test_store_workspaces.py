"""The contract of all stores for workspaces: one per task, and one task per branch, path and port."""

from collections.abc import Callable
from typing import Any

import pytest

from builders import HOUR, MINUTE, NOON, FakeClock, a_task
from contract.store_builders import a_claim, a_run, a_workspace, removed
from fleet.core.errors import BadInput, BranchTaken, FleetError, IllegalMove, WorkspaceNotFound
from fleet.core.relocation import Relocation
from fleet.core.task import Claim, Verdict
from fleet.core.workspace import Workspace
from fleet.store.base import Store

pytestmark = pytest.mark.bd_in_soak

MICROSECOND = MINUTE / 60_000_000
UNICODE = "ünïcode 🚀 \u2028 'quoted\" \\ \n end"


def different(name: str, default: Any) -> Any:
    """Return a value that differs between fields and that a wrong column type would change."""
    number = list(Workspace._fields).index(name)
    if name.endswith("_at"):
        return NOON + number * HOUR + number * MICROSECOND
    if name in ("first_port", "port_count"):
        return 1_000 + number
    return True if default is False else f"{name} {UNICODE}"


FULL = {name: different(name, default) for name, default in Workspace._fields.items() if name != "removed_at"}


def first_free(count: int, *, start: int = 20_000) -> Callable[[frozenset[int]], int]:
    """Return a function that chooses the first block of unleased ports."""

    def choose(leased: frozenset[int]) -> int:
        return next(first for first in range(start, 60_000, count) if leased.isdisjoint(range(first, first + count)))

    return choose


def test_workspace_is_returned_unchanged(store: Store) -> None:
    full, bare = Workspace(**FULL), a_workspace("t")
    assert (store.workspaces.lease(full), store.workspaces.lease(bare)) == (full, bare)
    kept = store.workspaces.get(full.task_id)
    assert (kept, store.workspaces.get("t")) == (full, bare)
    assert kept is not None
    assert [type(value) for value in kept.as_dict().values()] == [type(value) for value in full.as_dict().values()]


def test_lease_returns_the_existing_workspace_of_a_task(store: Store) -> None:
    first = store.workspaces.lease(a_workspace("t", port_count=10), ports=first_free(10))
    other = a_workspace("t", path="/elsewhere", branch="other", made_at=NOON + HOUR, port_count=10)
    assert store.workspaces.lease(other, ports=first_free(10)) == first
    assert store.workspaces.find() == [first]


def test_of_task_returns_every_workspace_of_one_task(store: Store) -> None:
    for key in ("t", "u"):
        store.workspaces.lease(a_workspace(key))
        gone = removed(store, key)
        again = store.workspaces.lease(a_workspace(key, path=f"/again/{key}"))
        assert store.workspaces.of_task(key) == [gone, again]
    assert store.workspaces.of_task("nobody") == []


def test_removed_workspace_stays_on_record_beside_the_next(store: Store, clock: FakeClock) -> None:
    store.workspaces.lease(a_workspace("t"))
    clock.advance(MINUTE)
    gone = removed(store, "t", '["refs/fleet/saved/t/1"]')
    assert (gone.is_gone, gone.removed_at, gone.saved_refs) == (True, NOON + MINUTE, ["refs/fleet/saved/t/1"])
    assert store.workspaces.get("t") == gone
    again = store.workspaces.lease(a_workspace("t", made_at=clock()))
    assert (store.workspaces.get("t"), store.workspaces.find()) == (again, [again])
    assert store.workspaces.find(gone=True) == [gone, again]
    store.workspaces.save(again.replace(ready_at=NOON, notes='{"a": 1}'))
    assert store.workspaces.find(gone=True) == [gone, again.replace(ready_at=NOON, notes='{"a": 1}')]
    clock.advance(MINUTE)
    assert [each.saved_refs for each in (removed(store, "t", '["r"]'), gone)] == [["r"], ["refs/fleet/saved/t/1"]]
    assert store.workspaces.find(gone=True)[0] == gone


def test_branch_belongs_to_one_task(store: Store) -> None:
    store.workspaces.lease(a_workspace("t", branch="x"))
    with pytest.raises(BranchTaken, match="branch 'x' belongs to t") as refused:
        store.workspaces.lease(a_workspace("u", branch="x"))
    assert (refused.value.branch, refused.value.task_id, refused.value.exit_code) == ("x", "t", 1)
    assert "fleet attach t" in refused.value.hint
    assert store.workspaces.get("u") is None


@pytest.mark.parametrize("changes", [{"common": "/r2/.git"}, {"branch": "X"}, {"branch": "x-y"}])
def test_branches_of_another_repository_or_name_are_independent(store: Store, changes: dict[str, str]) -> None:
    store.workspaces.lease(a_workspace("t", branch="x/y"))
    there = store.workspaces.lease(a_workspace("u", **{"branch": "x/y", **changes}))
    assert store.workspaces.get("u") == there


def test_path_belongs_to_one_task_across_repositories(store: Store) -> None:
    store.workspaces.lease(a_workspace("t", path="/w/x"))
    with pytest.raises(BranchTaken, match="/w/x is the worktree of t"):
        store.workspaces.lease(a_workspace("u", path="/w/x", common="/r2/.git"))
    assert [each.task_id for each in store.workspaces.find()] == ["t"]


def test_removed_workspace_frees_its_branch_path_and_ports(store: Store) -> None:
    wanted = a_workspace("t", port_count=10)
    store.workspaces.lease(wanted, ports=first_free(10))
    removed(store, "t")
    other = store.workspaces.lease(wanted.replace(task_id="u"), ports=first_free(10))
    assert (other.branch, other.path, other.first_port) == (wanted.branch, wanted.path, 20_000)
    with pytest.raises(BranchTaken):
        store.workspaces.lease(wanted)


def test_leased_port_blocks_differ(store: Store) -> None:
    seen = []

    def noted(leased: frozenset[int]) -> int:
        seen.append(leased)
        return first_free(3)(leased)

    blocks = [store.workspaces.lease(a_workspace(key, port_count=3), ports=noted).ports for key in "abc"]
    assert [list(block) for block in blocks] == [list(range(start, start + 3)) for start in (20_000, 20_003, 20_006)]
    assert seen == [frozenset(), frozenset(range(20_000, 20_003)), frozenset(range(20_000, 20_006))]
    removed(store, "b")
    assert store.workspaces.lease(a_workspace("d", port_count=3), ports=noted).first_port == 20_003


def test_port_blocks_of_different_sizes_do_not_overlap(store: Store) -> None:
    sizes = {"a": 10, "b": 20, "c": 10, "d": 5, "e": 40}
    for key, count in sizes.items():
        store.workspaces.lease(a_workspace(key, port_count=count), ports=first_free(count))
    ports = [port for each in store.workspaces.find() for port in each.ports]
    assert len(ports) == len(set(ports)) == sum(sizes.values())


@pytest.mark.parametrize("first", [20_000, 20_005, 19_995])
def test_leased_ports_are_refused_to_another_task(store: Store, first: int) -> None:
    store.workspaces.lease(a_workspace("t", port_count=10), ports=lambda leased: 20_000)
    with pytest.raises(IllegalMove, match="leased to another agent"):
        store.workspaces.lease(a_workspace("u", port_count=10), ports=lambda leased: first)
    with pytest.raises(IllegalMove, match="leased to another agent"):
        store.workspaces.lease(a_workspace("u", first_port=first, port_count=10))
    assert store.workspaces.get("u") is None


def test_any_number_of_workspaces_may_have_no_ports(store: Store) -> None:
    for key in "abc":
        assert list(store.workspaces.lease(a_workspace(key, port_count=10), ports=lambda leased: 0).ports) == []
    assert len(store.workspaces.find()) == 3


def test_lease_leaves_nothing_when_no_ports_are_free(store: Store) -> None:
    def none_left(leased: frozenset[int]) -> int:
        raise FleetError("no block of ports is free")

    with pytest.raises(FleetError, match="no block"):
        store.workspaces.lease(a_workspace("t"), ports=none_left)
    assert store.workspaces.find(gone=True) == []


def test_workspaces_are_returned_in_order_of_lease_by_repository(store: Store) -> None:
    leased = [
        store.workspaces.lease(a_workspace(key, common=common, made_at=NOON - number * HOUR))
        for number, (key, common) in enumerate((("b", "/r"), ("c", "/s"), ("a", "/r"), ("d", "/r")))
    ]
    gone = removed(store, "b")
    assert store.workspaces.find() == leased[1:]
    assert store.workspaces.find(common="/r") == leased[2:]
    assert store.workspaces.find(common="/r", gone=True) == [gone, *leased[2:]]
    assert store.workspaces.find(common="/nope", gone=True) == store.workspaces.find(common="/r\udcff") == []
    assert store.workspaces.get("nope") is None


def test_save_stores_the_facts_of_a_workspace(store: Store) -> None:
    leased = store.workspaces.lease(a_workspace("t"))
    assert not leased.is_ready
    facts = {"base": "main", "base_commit": "c0ffee", "made_branch": True, "ready_at": NOON, "notes": '{"a": 1}'}
    store.workspaces.save(leased.replace(**facts, saved='["r"]'))
    kept = store.workspaces.get("t")
    assert kept == leased.replace(**facts, saved='["r"]')
    assert kept is not None and kept.is_ready and kept.made == {"a": 1}


def test_save_neither_moves_a_workspace_nor_stops_its_removal(store: Store) -> None:
    leased = store.workspaces.lease(a_workspace("t", first_port=20_000, port_count=10))
    going = store.workspaces.begin_removal("t")
    elsewhere = {name: "elsewhere" for name in ("repo", "common", "path", "branch")}
    store.workspaces.save(leased.replace(**elsewhere, first_port=1, port_count=1, removed_at=NOON, ready_at=NOON))
    kept = store.workspaces.get("t")
    assert kept == going.replace(ready_at=NOON)
    assert kept is not None and not kept.is_ready


def test_save_of_a_removed_workspace_does_not_change_the_next_one(store: Store, clock: FakeClock) -> None:
    with pytest.raises(WorkspaceNotFound, match="t has no worktree"):
        store.workspaces.save(a_workspace("t"))
    first = store.workspaces.lease(a_workspace("t"))
    removed(store, "t")
    with pytest.raises(WorkspaceNotFound):
        store.workspaces.save(first.replace(ready_at=NOON))
    clock.advance(MINUTE)
    second = store.workspaces.lease(a_workspace("t", made_at=clock()))
    with pytest.raises(WorkspaceNotFound):
        store.workspaces.save(first.replace(ready_at=NOON))
    assert store.workspaces.get("t") == second


def test_started_removal_can_be_resumed(store: Store, clock: FakeClock) -> None:
    store.workspaces.lease(a_workspace("t"))
    assert store.workspaces.begin_removal("t").removing_at == NOON
    clock.advance(HOUR)
    assert store.workspaces.begin_removal("t") == store.workspaces.get("t") == a_workspace("t", removing_at=NOON)
    gone = store.workspaces.end_removal("t", "[]")
    assert gone == a_workspace("t", removing_at=NOON, removed_at=NOON + HOUR)
    clock.advance(HOUR)
    assert store.workspaces.end_removal("t", '["other"]') == store.workspaces.get("t") == gone


def test_stop_removal_restores_the_workspace(store: Store) -> None:
    with pytest.raises(WorkspaceNotFound):
        store.workspaces.stop_removal("t")
    leased = store.workspaces.lease(a_workspace("t", ready_at=NOON))
    store.workspaces.begin_removal("t")
    assert store.workspaces.stop_removal("t") == store.workspaces.get("t") == leased
    assert store.workspaces.lease(a_workspace("t")) == leased
    gone = removed(store, "t")
    assert store.workspaces.stop_removal("t") == store.workspaces.get("t")
    assert gone is None or store.workspaces.get("t") == gone


def test_removal_is_refused_when_it_was_not_begun(store: Store) -> None:
    with pytest.raises(WorkspaceNotFound):
        store.workspaces.begin_removal("t")
    with pytest.raises(WorkspaceNotFound):
        store.workspaces.end_removal("t", "[]")
    leased = store.workspaces.lease(a_workspace("t"))
    with pytest.raises(IllegalMove, match="never began"):
        store.workspaces.end_removal("t", "[]")
    assert store.workspaces.get("t") == leased
    removed(store, "t")
    with pytest.raises(WorkspaceNotFound):
        store.workspaces.begin_removal("t")


def test_workspace_being_removed_is_not_leased_again(store: Store) -> None:
    store.workspaces.lease(a_workspace("t", ready_at=NOON))
    assert not store.workspaces.begin_removal("t").is_ready
    with pytest.raises(IllegalMove, match="is being removed") as refused:
        store.workspaces.lease(a_workspace("t"))
    assert "fleet kill t" in refused.value.hint
    store.workspaces.end_removal("t", "[]")
    assert store.workspaces.lease(a_workspace("t", ready_at=NOON)).is_ready


def test_workspace_of_a_running_task_cannot_be_removed(store: Store) -> None:
    claim = a_claim(store, id="t")
    leased = store.workspaces.lease(a_workspace("t"))
    with pytest.raises(IllegalMove, match="an agent is working on t") as refused:
        store.workspaces.begin_removal("t")
    assert "fleet kill t" in refused.value.hint
    run = store.runs.begin(claim, a_run())
    store.claims.settle(claim, Verdict(status="blocked"))  # released, but the run has not ended
    with pytest.raises(IllegalMove):
        store.workspaces.begin_removal("t")
    assert store.workspaces.get("t") == leased
    store.runs.end(run)
    assert store.workspaces.begin_removal("t").removing_at == NOON


def test_workspace_can_be_left_when_another_host_holds_its_task(store: Store, clock: FakeClock) -> None:
    """The host of the workspace is gone, and another host holds the claim, which forbids a removal."""
    claim = a_claim(store)
    key = claim.task.id
    first = store.workspaces.lease(a_workspace(key, first_port=20_000, port_count=10))
    store.runs.begin(claim, a_run(task_id=key, epoch=claim.epoch, owner=claim.owner))
    clock.advance(MINUTE)
    left = store.workspaces.leave(key)
    assert left == first.replace(removing_at=NOON + MINUTE, removed_at=NOON + MINUTE)
    assert (store.workspaces.leave(key), store.workspaces.find()) == (left, [])
    again = store.workspaces.lease(a_workspace(key, first_port=20_000, port_count=10, made_at=clock()))
    assert (store.workspaces.get(key), store.workspaces.find(gone=True)) == (again, [left, again])
    with pytest.raises(WorkspaceNotFound):
        store.workspaces.leave("nobody")


def taken_by_hand(store: Store, claim: Claim) -> None:
    store.claims.release(claim)
    store.claims.take("t", "ada")


ENDS: dict[str, Callable[[Store, Claim], object]] = {
    "closed": lambda store, claim: store.claims.settle(claim, Verdict(status="closed")),
    "given back": lambda store, claim: store.claims.release(claim),
    "taken by hand": taken_by_hand,
    "deleted": lambda store, claim: store.tasks.remove("t"),
}


@pytest.mark.parametrize("end", ENDS)
def test_workspace_can_be_removed_when_its_task_is_not_running(store: Store, end: str) -> None:
    store.runs.begin(a_claim(store, id="u"), a_run())  # other tasks do not matter
    claim = a_claim(store, id="t")
    store.workspaces.lease(a_workspace("t"))
    store.runs.end(store.runs.begin(claim, a_run()))
    ENDS[end](store, claim)
    assert removed(store, "t").is_gone


def test_workspace_stays_on_record_when_its_task_is_deleted(store: Store) -> None:
    store.tasks.add(a_task(id="t"))
    leased = store.workspaces.lease(a_workspace("t"))
    store.tasks.remove("t")
    assert (store.workspaces.get("t"), store.workspaces.find()) == (leased, [leased])
    with pytest.raises(BranchTaken):
        store.workspaces.lease(a_workspace("u", branch=leased.branch))


@pytest.mark.parametrize("name", ["repo", "common", "path", "branch", "base"])
def test_name_that_is_not_utf_8_is_refused(store: Store, name: str) -> None:
    with pytest.raises(BadInput, match=rf"the {name} of the worktree is not UTF-8: x\\udcff") as refused:
        store.workspaces.lease(a_workspace("t", **{name: "x\udcff"}))
    assert "rename the folder" in refused.value.hint
    assert store.workspaces.find() == []


def test_workspaces_are_rolled_back_with_their_transaction(store: Store) -> None:
    kept = store.workspaces.lease(a_workspace("t"))
    with pytest.raises(ZeroDivisionError), store.atomic():
        store.workspaces.lease(a_workspace("u"))
        store.workspaces.save(kept.replace(ready_at=NOON))
        removed(store, "t")
        raise ZeroDivisionError
    assert store.workspaces.find(gone=True) == [kept]


def test_runs_and_workspaces_move_with_their_home(store: Store) -> None:
    claim = a_claim(store, owner="old")
    store.runs.begin(claim, a_run(home="/home/a", workspace="/home/a/w/t"))
    inside = store.workspaces.lease(
        a_workspace(claim.task.id, path="/home/a/w/t", notes='{"host":"old","admin":"/r/.git/worktrees/t"}')
    )
    beside = store.workspaces.lease(a_workspace("u", path="/home/ab/w/u"))
    foreign = store.workspaces.lease(a_workspace("v", path="/home/a/w/v", notes='{"host":"third"}'))
    store.workspaces.relocate(Relocation(before=("/home/a", "/real/a"), after="/new", owner_before="old", owner="new"))
    moved = store.workspaces.get(claim.task.id)
    assert moved is not None and (moved.path, moved.host) == ("/new/w/t", "new")
    assert moved.replace(path=inside.path, notes=inside.notes) == inside
    assert (store.workspaces.get("u"), store.workspaces.get("v")) == (beside, foreign)
    [run] = store.runs.live("new")
    assert (run.home, run.workspace) == ("/new", "/home/a/w/t"), "coders know their sessions by the directory"
    assert store.runs.live("old") == []
