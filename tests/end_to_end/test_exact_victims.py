"""Commands that stop, remove, merge or close: they reach exactly the named tasks."""

import json
from pathlib import Path

import pytest

from builders import a_task
from fleet.core.filter import Filter
from fleet.core.task import WORKTREE
from live_runs import Records, records
from repositories import commit, make_repository, run_git

__all__ = ["records"]


class Shop:
    """Two repositories with similar branches, and a queue task of a plain directory."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.here, self.there = (make_repository(records.fleet.user / name) for name in ("here", "there"))
        self.mine = [self.make(self.here, name) for name in ("fix-a", "fix-b", "feat")]
        self.other = self.make(self.there, "fix-c")
        self.plain = records.create("plain", "--cwd", str(records.fleet.cwd), "--id", "fleet-xefz")

    def make(self, repo: Path, branch: str) -> str:
        key = f"fleet-{repo.name}-{branch}"
        self.records.store.tasks.add(a_task(id=key, branch=branch, repo=str(repo), workspace=WORKTREE, batch="manual"))
        return key

    def open(self) -> set[str]:
        """Return the tasks that are still open."""
        return {task.id for task in self.records.store.tasks.find(Filter(), sort="id") if task.status == "open"}

    @property
    def everything(self) -> set[str]:
        return {*self.mine, self.other, self.plain}


@pytest.fixture
def shop(records: Records) -> Shop:
    return Shop(records)


def test_kill_spares_other_repositories_and_queue_tasks_when_a_glob_fits_their_ids(shop: Shop) -> None:
    shop.records.fleet.ok("kill", "-f", "f*", cwd=shop.here)
    assert shop.open() == {shop.other, shop.plain}


@pytest.mark.parametrize(
    "words", [["kill"], ["kill", "-f"], ["done"], ["merge"], ["pr"], ["bd", "close"], ["bd", "delete"]]
)
def test_command_refuses_a_part_of_an_id_when_it_ends_work(shop: Shop, words: list[str]) -> None:
    for part in ("ef", "xefz"):  # the second part is the whole id without its prefix
        refused = shop.records.fleet(*words, part, cwd=shop.here)
        assert refused.code != 0 and shop.plain not in refused.out
        assert shop.open() == shop.everything
        if words[0] != "bd":
            assert f"error: no task '{part}'" in refused.err and f"did you mean {shop.plain}?" in refused.err


def test_bd_update_refuses_a_part_of_an_id_when_it_closes(shop: Shop) -> None:
    for part in ("ef", "xefz"):
        assert shop.records.fleet("bd", "update", part, "--status", "closed").code != 0
    assert shop.open() == shop.everything


@pytest.mark.parametrize("command", ["kill", "done", "merge", "pick --merge"])
def test_command_needs_yes_when_a_glob_fits_several_tasks_without_a_terminal(shop: Shop, command: str) -> None:
    refused = shop.records.fleet(*command.split(), "f*", cwd=shop.here)
    assert refused.code == 2 and "3 tasks fit: " in refused.err and "pass --yes" in refused.err
    assert all(key in refused.err for key in shop.mine)
    assert shop.open() == shop.everything


def test_kill_spares_other_repositories_when_their_tasks_are_in_the_same_batch(shop: Shop) -> None:
    refused = shop.records.fleet("kill", "--batch", "manual", cwd=shop.here)
    assert refused.code == 2 and "3 tasks fit: " in refused.err and "pass --yes" in refused.err
    outside = shop.records.fleet("kill", "--batch", "manual", "--yes")
    assert outside.code == 1 and "pass --all-projects" in outside.err
    assert shop.open() == shop.everything
    shop.records.fleet.ok("kill", "--batch", "manual", "--yes", cwd=shop.here)
    assert shop.open() == {shop.other, shop.plain}


@pytest.mark.parametrize("command", ["kill", "done"])
def test_command_accepts_a_glob_without_yes_when_it_fits_one_task(shop: Shop, command: str) -> None:
    shop.records.fleet.ok(command, "fix-[a]", cwd=shop.here)
    assert shop.open() == shop.everything - {shop.mine[0]}


def test_done_closes_all_that_a_glob_fits_when_yes_is_passed(shop: Shop) -> None:
    shop.records.fleet.ok("done", "fix-*", "--yes", cwd=shop.here)
    assert shop.open() == shop.everything - set(shop.mine[:2])


def test_kill_finds_no_branch_by_a_glob_outside_a_repository(shop: Shop) -> None:
    refused = shop.records.fleet("kill", "--yes", "f*")
    assert refused.code == 1 and "no task matches 'f*'" in refused.err
    assert shop.open() == shop.everything
    shop.records.fleet.ok("kill", "--yes", "--all-projects", "f*")
    assert shop.open() == {shop.plain}


def test_pick_takes_a_plain_branch_when_it_is_also_a_part_of_an_id(shop: Shop) -> None:
    run_git(shop.here, "branch", "ef")
    run_git(shop.here, "checkout", "--quiet", "ef")
    commit(shop.here, "new.txt", "new\n")
    told = json.loads(shop.records.fleet("pick", "ef", "--verify", "true", "--json", cwd=shop.here).out)
    assert shop.plain not in json.dumps(told) and "ef" in json.dumps(told)
