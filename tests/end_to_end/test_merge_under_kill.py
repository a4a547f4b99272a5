"""SIGKILL of `fleet merge` at any point: the target is before or after the merge; the next merge repairs the rest."""

import logging
import os
import random
import shutil
import signal
from pathlib import Path

import pytest

from fleet.git.repository import find_repository, locked
from merges import Merges, merged
from program import Program
from repositories import run_git

log = logging.getLogger(__name__)

CUT = str(Path(__file__).parents[1] / "workers" / "cut")
FEW = 4


@pytest.fixture
def home(fleet: Program) -> Merges:
    return Merges(fleet, verify="true")


@pytest.mark.parametrize("kills", [FEW, pytest.param(0, marks=pytest.mark.soak("kills"))])
def test_merge_killed_anywhere_leaves_the_target_before_or_after(home: Merges, kills: int) -> None:
    """A few random points including late ones; the soak variant kills at every point."""
    seed = int(os.environ.get("FLEET_SEED") or random.randrange(10**9))
    log.info("FLEET_SEED=%s", seed)
    report = home.fleet.user / "count"
    for name in ("first", "second"):  # the first merge creates files that later ones find
        assert merged(home.merge(home.work(name), PYTHONPATH=CUT, CUT_AT="0", CUT_COUNT=str(report)))
    steps = int(report.read_text())
    assert steps > 30
    points = list(range(1, steps + 1))
    if kills:
        # The branch moves in the last third.
        late, chance = range(steps * 2 // 3, steps + 1), random.Random(seed)
        points = sorted({*chance.sample(points, 2), *chance.sample(late, kills - 2)})
    killed = [check(home, point) for point in points]
    assert any(killed), "it was killed, and did not just end"


def check(home: Merges, point: int) -> bool:
    """Return True if the merge was killed at this point. Check everything else."""
    name, old = f"cut-{point}", home.tip()
    files: dict[str, str | None] = {f"{name}.txt": "x\n", "file1.txt": f"{name}\n", "file2.txt": f"{name}\n" * 99}
    key = home.work(name, files)
    result = home.fleet("merge", name, "--json", PYTHONPATH=CUT, CUT_AT=str(point))
    assert result.code in (0, -signal.SIGKILL), (point, result)
    with locked(home.home, find_repository(str(home.repo))):  # the git that outlived the merge has ended
        tip = home.tip()
    changed = tip != old
    assert not changed or run_git(home.repo, "log", "--format=%P %(trailers:key=Fleet-Task,valueonly)", "-1") == (
        f"{old} {key}\n"
    )
    # The next command repairs the state: a merge or a repair.
    if point % 2:
        home.fleet.ok("list", "--repair")
        assert home.tip() == tip
        home.assert_sound()
        assert changed == ("merged" in home.task(key).metadata), point
    told = home.merge(name)
    assert merged(told) == ([] if changed else [key]), (point, told)
    assert home.task(key).metadata["merged"]["commit"] == home.tip()
    assert (home.repo / "file1.txt").read_text() == f"{name}\n"
    assert run_git(home.repo, "rev-list", "--count", f"{old}..main") == "1"
    home.assert_sound()
    return result.code != 0


@pytest.mark.parametrize("words", [("list", "--repair"), ("merge", "one")])
def test_next_command_reports_an_interrupted_merge_and_git_finishes_it(home: Merges, words: tuple[str, ...]) -> None:
    """git and fleet end in the middle of a file, as in a power failure."""
    key, wrapper = home.work("one"), home.fleet.user / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(
        f'#!/bin/sh\ncase "$*" in *--ff-only*) printf on > {home.repo}/one.txt; kill -9 $PPID; exit 1;; esac\n'
        f'exec {shutil.which("git")} "$@"\n'
    )
    wrapper.chmod(0o755)
    old = home.tip()
    result = home.fleet("merge", "one", PATH=f"{wrapper.parent}:{home.fleet.env['PATH']}")
    assert result.code == -signal.SIGKILL and home.tip() == old
    after = home.fleet(*words)
    assert f"main: a merge was interrupted; it has landed as {home.tip()[:10]}" in after.out + after.err
    assert (home.repo / "one.txt").read_text() == "one\n"
    assert home.task(key).metadata["merged"]["commit"] == home.tip() != old
    home.assert_sound()
