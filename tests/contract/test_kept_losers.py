"""Branches that were not picked stay under fleet's own refs, whatever their names."""

from pathlib import Path
from typing import Any

import pytest

from builders import a_task
from fleet.actions.proof.candidates import Candidate
from fleet.actions.proof.keep_winner import KEPT, keep, refusal, take
from fleet.actions.proof.ranking import entry
from fleet.assembly import Fleet
from fleet.core.errors import FleetError
from fleet.core.finding import Finding
from fleet.core.verification import Verification
from fleet.git.diffs import DiffSize
from repositories import commit, run_git
from stores import open_queue
from workplaces import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def opened(place: Place) -> Fleet:
    store = open_queue()
    return Fleet(place.home, store)


def an_entry(name: str, tip: str, status: int | None = 0, **changes: Any) -> Any:
    size = DiffSize(files=1, added=1)
    candidate = Candidate(name=name, branch=name, tip=tip, base=tip, size=size, **changes)
    seen = None if status is None else Verification(command="true", commit=tip, status=status)
    return entry(candidate, seen)


def kept(place: Place) -> dict[str, str]:
    told = run_git(place.top, "for-each-ref", "--format=%(refname) %(objectname)", KEPT)
    return dict(line.split(" ") for line in told.splitlines())


def test_each_tip_is_kept_under_its_task_or_branch(place: Place) -> None:
    tip = commit(place.top, "a", "1")
    task = a_task(id="fleet-x.1")
    found = keep(opened(place), place.view, [an_entry("fix/a", tip), an_entry("b", place.base, task=task)])
    assert found == {"fix/a": f"{KEPT}fix-a", "b": f"{KEPT}fleet-x.1"}
    assert kept(place) == {f"{KEPT}fix-a": tip, f"{KEPT}fleet-x.1": place.base}


def test_kept_tip_is_never_overwritten(place: Place) -> None:
    first, second = place.base, commit(place.top, "a", "1")
    for tip in (first, second, first, second):
        keep(opened(place), place.view, [an_entry("same", tip)])
    assert kept(place) == {f"{KEPT}same": first, f"{KEPT}same-2": second}


def test_both_tips_are_kept_when_their_names_become_the_same_ref(place: Place) -> None:
    tip = commit(place.top, "a", "1")
    some = [an_entry("a/b", tip), an_entry("a-b", tip), an_entry("a+b", place.base)]
    found = keep(opened(place), place.view, some)
    assert found == {"a/b": f"{KEPT}a-b", "a-b": f"{KEPT}a-b", "a+b": f"{KEPT}a-b-2"}
    assert kept(place) == {f"{KEPT}a-b": tip, f"{KEPT}a-b-2": place.base}


@pytest.mark.parametrize(
    "name", ["a/b", "a", "a/b/c", "x.lock", "x..y", ".x", "-x", "x.", "ü ~^:?*[\\", "refs/heads/y"]
)
def test_any_name_becomes_a_valid_ref(place: Place, name: str) -> None:
    keep(opened(place), place.view, [an_entry("a", place.base), an_entry(name, place.base)])
    assert set(kept(place).values()) == {place.base}
    assert all(ref.count("/") == 3 for ref in kept(place))


def test_branch_is_not_merged_when_it_moved_after_its_proof(place: Place) -> None:
    """The proof covers a commit, not the current tip of the branch."""
    with pytest.raises(FleetError, match="main moved since"):
        looked_at = an_entry("main", place.base, task=a_task())
        commit(place.top, "a", "1")
        take(opened(place), place.view, looked_at, [], by="ada", tell=lambda _: None)


def test_only_just_verified_work_is_merged() -> None:
    tip, task = "t" * 40, a_task()
    assert refusal(None) == "no candidate is good enough"
    assert refusal(an_entry("a", tip, task=task)) == ""
    assert "does not belong to a task" in refusal(an_entry("a", tip))
    unproven = an_entry("a", tip, None, task=task)
    assert unproven.finding == Finding.UNVERIFIED and refusal(unproven).startswith("a is unverified: ")
