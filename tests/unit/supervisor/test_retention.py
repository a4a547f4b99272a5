"""Retention of raw output: what is due, how far a sweep gets, and what it never touches."""

import os
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from builders import HOUR, MINUTE, NOON, FakeClock
from contract.store_builders import a_claim, a_run
from fleet.assembly import open_cluster, open_launcher
from fleet.core.run import Run
from fleet.home import Home
from fleet.supervisor.agent_launchers import AgentLaunchers
from fleet.supervisor.context import Context
from fleet.supervisor.retention import (
    PART,
    RAW,
    SWEPT,
    RemovedOutput,
    RetentionMark,
    due_before,
    read_mark,
    remove,
    sweep_all,
    sweep_raw_output,
)
from fleet.supervisor.store_calls import StoreCalls
from stores import open_queue

DAY = timedelta(days=1)
LONG_AGO = NOON - 40 * DAY


class Place:
    """A home with runs in the store and on disk."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.home = Home(str(folder / "home"))
        self.home.make()
        self.store = open_queue(self.clock)
        self.context = Context(
            self.home, StoreCalls(self.store), AgentLaunchers(open_launcher()), owner="host", cluster=open_cluster
        )

    def run(self, ended_at: datetime | None = LONG_AGO, *, text: str = "raw") -> Run:
        """Add a run with all files that a run has in its folder."""
        run = self.store.runs.begin(a_claim(self.store), a_run())
        folder = self.folder(run)
        folder.mkdir(parents=True)
        for name in (*RAW, "exit.json", "shim.log"):
            (folder / name).write_text(text)
        (folder.parent.parent / "events.jsonl").write_text("{}")
        if ended_at is not None:
            self.store.runs.end(run.replace(ended_at=ended_at))
        return run

    def folder(self, run: Run) -> Path:
        return Path(self.home.task(run.task_id)) / "runs" / str(run.number)

    def left(self, run: Run) -> set[str]:
        return {each.name for each in self.folder(run).iterdir()}

    def kept(self, run: Run) -> bool:
        return set(RAW) <= self.left(run)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.context.close()


def test_sweep_removes_only_raw_output_of_runs_that_ended_long_ago(place: Place) -> None:
    old, young, live = place.run(), place.run(NOON - 29 * DAY), place.run(None)
    assert sweep_raw_output(place.context) == 1
    assert place.left(old) == {"exit.json", "shim.log"}
    assert place.kept(young) and place.kept(live)
    assert (place.folder(old).parent.parent / "events.jsonl").exists()


def test_run_is_due_only_after_its_retention_days(place: Place) -> None:
    before = due_before(NOON, 30)
    at, earlier = place.run(before), place.run(before - MINUTE / 60_000_000)
    sweep_raw_output(place.context)
    assert place.kept(at) and not place.kept(earlier)


def test_sweep_runs_once_a_day_and_resumes_where_it_stopped(place: Place) -> None:
    first = place.run()
    assert sweep_raw_output(place.context) == 1
    late = place.run(LONG_AGO + HOUR)
    place.clock.advance(23 * HOUR)
    assert sweep_raw_output(place.context) == 0 and place.kept(late)
    (place.folder(first) / "stdout").write_text("behind the mark")
    place.clock.advance(HOUR)
    assert sweep_raw_output(place.context) == 1
    assert not place.kept(late) and "stdout" in place.left(first)


def test_sweep_removes_one_part_per_call(place: Place) -> None:
    runs = [place.run(LONG_AGO) for _ in range(PART + 3)]  # all at one time: only the id differs
    assert (sweep_raw_output(place.context), sweep_raw_output(place.context), sweep_raw_output(place.context)) == (
        PART,
        3,
        0,
    )
    assert not any(place.kept(run) for run in runs)


def test_sweep_continues_when_the_clock_was_set_back(place: Place) -> None:
    sweep_raw_output(place.context)
    run = place.run(LONG_AGO - 5 * DAY)
    place.clock.advance(-DAY)
    assert sweep_raw_output(place.context) == 1 and not place.kept(run)


def test_sweep_starts_over_when_its_mark_is_invalid(place: Place) -> None:
    for text in ("", "nonsense", "- ", "2026-03-01T12:00:00 - run", f"{NOON.isoformat()} never x", "\x00" * 9):
        run = place.run()
        place.store.config.set(SWEPT, text)
        sweep_raw_output(place.context)
        assert not place.kept(run), text


@pytest.mark.parametrize(
    "mark",
    [
        RetentionMark(),
        RetentionMark(looked_at=NOON),
        RetentionMark(ended_at=LONG_AGO, run_id="a b/1"),
        RetentionMark(ended_at=NOON, looked_at=NOON),
    ],
)
def test_mark_survives_a_round_trip(mark: RetentionMark) -> None:
    assert read_mark(mark.text()) == mark


def test_manual_sweep_removes_all_due_output_whatever_the_mark(place: Place) -> None:
    place.store.config.set(SWEPT, RetentionMark(ended_at=NOON, run_id="z", looked_at=NOON).text())
    runs = [place.run(text="123") for _ in range(2 * PART + 1)]
    before = due_before(NOON, 30)
    would = sweep_all(place.home, place.store, before=before, dry_run=True)
    assert would == RemovedOutput(runs=len(runs), files=4 * len(runs), bytes=12 * len(runs))
    assert all(place.kept(run) for run in runs)
    assert sweep_all(place.home, place.store, before=before) == would
    assert not any(place.kept(run) for run in runs)
    assert sweep_raw_output(place.context) == 0


@pytest.mark.parametrize("part", ["task", "runs", "number"])
def test_sweep_follows_no_link(place: Place, tmp_path: Path, part: str) -> None:
    run, other = place.run(), place.run(NOON)
    steps = {"task": Path(place.home.task(run.task_id)), "runs": place.folder(run).parent, "number": place.folder(run)}
    target = {
        "task": Path(place.home.task(other.task_id)),
        "runs": place.folder(other).parent,
        "number": place.folder(other),
    }
    steps[part].rename(tmp_path / "aside")
    steps[part].symlink_to(target[part])
    for dry_run in (True, False):
        assert remove(place.home, [place.store.runs.of_task(run.task_id)[0]], dry_run=dry_run) == RemovedOutput(
            failed=1
        )
    assert place.kept(other)


def test_sweep_removes_a_link_and_keeps_its_target(place: Place, tmp_path: Path) -> None:
    run, precious = place.run(), tmp_path / "precious"
    precious.write_text("mine")
    (place.folder(run) / "stdout").unlink()
    (place.folder(run) / "stdout").symlink_to(precious)
    assert sweep_raw_output(place.context) == 1
    assert precious.read_text() == "mine" and place.left(run) == {"exit.json", "shim.log"}


@pytest.mark.parametrize("dry_run", [True, False])
def test_sweep_counts_failures_and_continues(place: Place, dry_run: bool) -> None:
    odd, next_one = place.run(text="123"), place.run(text="123")
    (place.folder(odd) / "stdout").unlink()
    (place.folder(odd) / "stdout").mkdir()
    done = sweep_all(place.home, place.store, before=NOON, dry_run=dry_run)
    assert done == RemovedOutput(runs=2, files=7, bytes=21, failed=1)
    assert place.kept(next_one) is dry_run


def test_sweep_is_not_blocked_by_pipes_and_sockets(place: Place) -> None:
    run = place.run()
    (place.folder(run) / "stderr").unlink()
    os.mkfifo(place.folder(run) / "stderr")
    assert sweep_raw_output(place.context) == 1 and place.left(run) == {"exit.json", "shim.log"}


def test_run_without_a_folder_or_with_an_odd_name_is_harmless(place: Place) -> None:
    gone = place.run()
    for name in (*RAW, "exit.json", "shim.log"):
        (place.folder(gone) / name).unlink()
    place.folder(gone).rmdir()
    odd = a_run(id="../1", task_id="..", number=1, ended_at=LONG_AGO)
    ended = place.store.runs.of_task(gone.task_id)
    assert remove(place.home, [*ended, odd]) == RemovedOutput(failed=1)


def test_sweep_skips_a_live_run_even_when_it_is_named(place: Place) -> None:
    live = place.run(None)
    assert remove(place.home, [live]) == RemovedOutput() and place.kept(live)
