"""Names of tasks: first an exact id, then a branch of the current repository, then a glob over both."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from builders import NOON, a_task
from fleet.actions.tasks.names import NameScope, find_task, find_tasks, is_pattern
from fleet.assembly import Fleet
from fleet.core.errors import FleetError, TaskNotFound, UsageError
from fleet.core.filter import Filter
from fleet.core.task import Status
from fleet.home import Home
from repositories import make_repository
from stores import open_queue


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    store = open_queue()
    with Fleet(Home("/nowhere"), store) as made:
        yield made


def add(fleet: Fleet, key: str, branch: str = "", repo: str = "/one", **more: Any) -> str:
    """Add a task with a branch. Return its id."""
    fleet.store.tasks.add(a_task(id=key, branch=branch, repo=repo if branch else "", **more))
    return key


class In(NameScope):
    """The scope of a repository that a test names."""

    def __init__(self, repo: str) -> None:
        super().__init__()
        self.__dict__["repo"] = repo


def test_exact_id_has_precedence_over_a_branch(fleet: Fleet) -> None:
    add(fleet, "fleet-1", branch="fleet-2")
    assert add(fleet, "fleet-2") == find_task(fleet, "fleet-2")


def test_branch_has_precedence_over_a_part_of_an_id(fleet: Fleet) -> None:
    add(fleet, "fleet-abc1")
    named = add(fleet, "fleet-xyz", branch="abc1")
    assert find_task(fleet, "abc1") == named
    assert find_task(fleet, "xyz") == named, "a part of an id still does"


def test_branch_is_searched_in_the_current_repository(fleet: Fleet) -> None:
    here, there = add(fleet, "fleet-1", branch="fix"), add(fleet, "fleet-2", branch="fix", repo="/two")
    assert find_task(fleet, "fix", scope=In("/one")) == here
    assert find_task(fleet, "fix", scope=In("/two")) == there
    with pytest.raises(UsageError, match=r"fleet-[12] .*fleet-[12]") as told:
        find_task(fleet, "fix")
    assert "/one" in str(told.value) and "/two" in str(told.value)
    with pytest.raises(TaskNotFound):
        find_task(fleet, "fix", scope=In("/three"))


@pytest.mark.parametrize("over", [Status.CLOSED, Status.BLOCKED])
def test_branch_name_finds_its_unfinished_task(fleet: Fleet, over: Status) -> None:
    add(fleet, "fleet-1", branch="fix", status=over)
    alive = add(fleet, "fleet-2", branch="fix")
    add(fleet, "fleet-3", branch="fix", status=over)
    assert find_task(fleet, "fix") == alive


def test_branch_name_finds_the_newest_task_when_all_have_ended(fleet: Fleet) -> None:
    for number in (1, 3, 2):
        add(fleet, f"fleet-{number}", branch="fix", status=Status.BLOCKED, created_at=NOON.replace(hour=number))
    assert find_task(fleet, "fix") == "fleet-3"


def test_fanout_letter_finds_its_number_unless_a_branch_has_that_name(fleet: Fleet) -> None:
    second = add(fleet, "fleet-1", branch="x-A2")
    assert find_task(fleet, "x-B") == second
    own = add(fleet, "fleet-2", branch="x-B")
    assert find_task(fleet, "x-B") == own


def test_glob_matches_local_branches_and_ids_with_their_prefix(fleet: Fleet) -> None:
    add(fleet, "fleet-1", branch="fix-a")
    add(fleet, "fleet-2", branch="fix-b", repo="/two")
    add(fleet, "fleet-3")
    assert find_tasks(fleet, ["fix-*"]) == ["fleet-1", "fleet-2"]
    assert find_tasks(fleet, ["fix-*"], scope=In("/two")) == ["fleet-2"]
    assert find_tasks(fleet, ["fleet-*"], scope=In("/one")) == ["fleet-1", "fleet-3"]
    assert find_tasks(fleet, ["fleet-[13]", "fleet-1", "fix-a"]) == ["fleet-1", "fleet-3"], "each once"


@pytest.mark.parametrize("pattern", ["f*", "*", "fleet*", "*-abc1", "[f]leet-abc1", "fleet-abc?"])
def test_find_tasks_returns_ids_when_the_glob_spells_their_prefix(fleet: Fleet, pattern: str) -> None:
    branch, _ = add(fleet, "fleet-1", branch="fleet"), add(fleet, "fleet-abc1")
    add(fleet, "fleet-2", branch="fleet", repo="/two")
    wanted = {"f*": [branch], "*": [branch], "fleet*": [branch], "fleet-abc?": ["fleet-abc1"]}
    if pattern in wanted:
        assert find_tasks(fleet, [pattern], scope=In("/one")) == wanted[pattern]
    else:
        with pytest.raises(FleetError, match="no task matches"):
            find_tasks(fleet, [pattern], scope=In("/one"))


def test_find_tasks_finds_no_branch_when_the_directory_is_in_no_repository(fleet: Fleet, tmp_path: Path) -> None:
    add(fleet, "fleet-1", branch="fix-a")
    with pytest.raises(FleetError, match="no task matches"):
        find_tasks(fleet, ["fix-*"], scope=NameScope(str(tmp_path)))
    assert find_tasks(fleet, ["fix-*"]) == ["fleet-1"]


def test_find_tasks_refuses_a_part_of_an_id_when_names_are_exact(fleet: Fleet) -> None:
    add(fleet, "fleet-aefb")
    assert find_tasks(fleet, ["ef"]) == find_tasks(fleet, ["fleet-aefb"], exact=True) == ["fleet-aefb"]
    for part in ("ef", "aefb"):
        with pytest.raises(TaskNotFound) as raised:
            find_tasks(fleet, [part], exact=True)
        assert "fleet-aefb" in raised.value.hint


def test_glob_respects_the_filter_and_a_name_does_not(fleet: Fleet) -> None:
    add(fleet, "fleet-1", branch="fix-a", status=Status.CLOSED)
    add(fleet, "fleet-2", branch="fix-b")
    under_way = Filter(statuses=(Status.OPEN,))
    assert find_tasks(fleet, ["fix-*"], among=under_way) == ["fleet-2"]
    assert find_tasks(fleet, ["fix-a"], among=under_way) == ["fleet-1"]
    with pytest.raises(FleetError, match="no task matches 'fix-a\\*'"):
        find_tasks(fleet, ["fix-a*"], among=under_way)


def test_glob_that_matches_several_tasks_is_refused_for_one_task(fleet: Fleet) -> None:
    for number in range(7):
        add(fleet, f"fleet-{number}", branch=f"fix-{number}")
    with pytest.raises(UsageError, match=r"matches 7 tasks: fleet-0 .*fleet-4 \(fix-4\) …"):
        find_task(fleet, "fix-*")
    assert find_task(fleet, "fix-[3]") == "fleet-3"


def test_pattern_is_a_glob_only_when_no_task_has_that_name(fleet: Fleet) -> None:
    add(fleet, "fleet-1")
    assert is_pattern(fleet, "fleet-*") and is_pattern(fleet, "fleet-?") and is_pattern(fleet, "[f]leet-1")
    assert not is_pattern(fleet, "fleet-1")


@pytest.mark.parametrize("name", ["", "-", "--all", "fix\n", "../fix", "\0", "fleet-999"])
def test_unknown_name_raises_an_error(fleet: Fleet, name: str) -> None:
    add(fleet, "fleet-1", branch="fix")
    with pytest.raises(FleetError):
        find_task(fleet, name)


def test_scope_of_a_directory_is_the_main_checkout_of_its_repository(tmp_path: Path) -> None:
    top = make_repository(tmp_path / "repo")
    (top / "deep" / "inside").mkdir(parents=True)
    assert NameScope(str(top / "deep" / "inside")).repo == str(top)
    assert NameScope(str(tmp_path)).repo is None
    assert NameScope().repo is None


def test_glob_results_are_sorted_naturally_by_branch(fleet: Fleet) -> None:
    for number, branch in enumerate(["w-A10", "w-A2", "v", "w-A1"]):
        add(fleet, f"fleet-{number}", branch)
    assert find_tasks(fleet, ["*w-*"], scope=In("/one")) == ["fleet-3", "fleet-1", "fleet-0"]


def test_ambiguous_name_error_lists_ids_and_branches(fleet: Fleet) -> None:
    add(fleet, "fleet-aab1", "one")
    add(fleet, "fleet-aab2")
    with pytest.raises(UsageError, match=r"'aab' matches fleet-aab1 \(one\), fleet-aab2"):
        find_task(fleet, "aab")
    with pytest.raises(UsageError, match=r"matches 2 tasks: fleet-aab1 \(one\), fleet-aab2"):
        find_task(fleet, "fleet-aab*")


@pytest.mark.parametrize("name", ["nope", "nope*"])
def test_unknown_name_error_points_to_fleet_list(fleet: Fleet, name: str) -> None:
    with pytest.raises(FleetError) as raised:
        find_task(fleet, name)
    assert raised.value.hint.startswith("run `fleet list --all`")
