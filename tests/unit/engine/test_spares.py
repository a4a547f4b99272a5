"""Spare checkouts as the supervisor keeps them: only while the repository's settings are the trusted ones."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.actions import homes
from fleet.assembly import Fleet, open_fleet
from fleet.engine import spares as engine
from fleet.engine.spares import Spares, Wanted
from fleet.engine.trusting import changed_repository
from fleet.home import Home
from fleet.workspaces.repository import find_repository
from repositories import make_repository, run_git


class Kept:
    """A repository that was trusted, and a supervisor's spares for it."""

    def __init__(self, folder: Path, fleet: Fleet) -> None:
        self.repo = make_repository(folder / "repo")
        self.place = folder / "worktrees"
        self.place.mkdir()
        self.repository = find_repository(str(self.repo))
        self.spares = Spares()
        self.fleet = fleet
        assert changed_repository(fleet.history, self.repository) == []

    async def is_trusted(self) -> bool:
        return not changed_repository(self.fleet.history, self.repository)

    def fill(self) -> int:
        """Have them made; how many there are."""
        commit = run_git(self.repo, "rev-parse", "HEAD")
        asyncio.run(self.spares.fill(Wanted(self.repository, str(self.place), commit, self.is_trusted)))
        return len(list(self.place.glob(".gone-*/tree/file1.txt")))

    def take_all(self) -> int:
        """Take what there is, and let go of it; how many that were."""
        count = 0
        while spare := self.spares.take(self.repository):
            spare.let_go()
            count += 1
        return count


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    home = Home(str(tmp_path / "home"))
    homes.ensure(home)
    with open_fleet(home) as fleet:
        made = Kept(tmp_path, fleet)
        yield made
        made.take_all()


def test_a_few_are_made_and_each_is_taken_once(kept: Kept) -> None:
    assert kept.fill() == engine.LEAST
    assert kept.fill() == engine.LEAST, "no more than that"
    assert kept.take_all() == engine.LEAST
    assert kept.spares.take(kept.repository) is None


def test_none_is_made_with_settings_that_nobody_trusted(kept: Kept, tmp_path: Path) -> None:
    """A filter is a command, and an agent can write one."""
    ran = tmp_path / "ran"
    run_git(kept.repo, "config", "filter.evil.smudge", f"touch '{ran}'; cat")
    (kept.repo / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    assert kept.fill() == 0
    assert not ran.exists() and kept.spares.take(kept.repository) is None


def test_they_take_no_more_of_the_disk_than_they_may(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    (kept.repo / "large").write_bytes(b"x" * 100_000)
    run_git(kept.repo, "add", "--all")
    run_git(kept.repo, "commit", "--quiet", "--message=large")
    monkeypatch.setattr(engine, "MOST_BYTES", 250_000)
    assert kept.fill() == 2


def test_a_repository_that_is_gone_is_no_fault(kept: Kept) -> None:
    kept.repo.rename(kept.repo.with_name("elsewhere"))
    commit, place = "0" * 40, str(kept.place)

    async def always() -> bool:
        return True

    asyncio.run(kept.spares.fill(Wanted(kept.repository, place, commit, always)))
    assert kept.take_all() == 0
