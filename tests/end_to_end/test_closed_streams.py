"""Commands whose caller closed stdin, stdout or stderr: they do their work once and report success."""

import subprocess

import pytest

from fleet.core.filter import Filter
from live_runs import Records, records

__all__ = ["records"]

CLOSINGS = ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"]
PROGRAMS = {"fleet": ["bd", "create"], "bd": ["create"]}


def call(records: Records, closing: str, *argv: str) -> subprocess.CompletedProcess[bytes]:
    line = f'exec "$@" {closing}'
    return subprocess.run(["sh", "-c", line, "sh", *argv], env=records.fleet.env, capture_output=True, timeout=60)


@pytest.mark.parametrize("closing", CLOSINGS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_create_succeeds_when_a_stream_is_closed(records: Records, program: str, closing: str) -> None:
    done = call(records, closing, str(records.fleet.home / "bin" / program), *PROGRAMS[program], "once")
    assert (done.returncode, done.stderr) == (0, b"")
    assert [task.title for task in records.store.tasks.find(Filter(), sort="id")] == ["once"]
    assert not list((records.fleet.home / "logging").glob("crash-*"))


@pytest.mark.parametrize("closing", CLOSINGS)
def test_command_succeeds_when_a_stream_is_closed(records: Records, closing: str) -> None:
    key = records.create("a task")
    done = call(records, closing, *records.fleet.argv, "kill", key)
    assert (done.returncode, done.stderr) == (0, b"")
    assert records.store.tasks.get(key).status == "blocked"


def test_command_exits_with_1_and_writes_no_crash_report_when_all_streams_are_closed(records: Records) -> None:
    done = call(records, "<&- >&- 2>&-", *records.fleet.argv, "kill", "fleet-none")
    assert done.returncode == 1
    assert not list((records.fleet.home / "logging").glob("crash-*"))


@pytest.mark.parametrize("ending", [">/dev/full", ">/dev/full 2>&1", "| true", "2>/dev/full"])
def test_command_does_all_of_its_work_when_its_output_is_lost(records: Records, ending: str) -> None:
    """The output is lost to a pipe without a reader or a full disk; the command still handles the last name."""
    keys = [records.create(f"task {number}") for number in range(3)]
    bd = str(records.fleet.home / "bin" / "bd")
    for words, status in (
        ([bd, "close"], "closed"),
        ([bd, "reopen"], "open"),
        ([*records.fleet.argv, "done"], "closed"),
    ):
        line = f'"$@" {ending}'
        done = subprocess.run(
            ["sh", "-c", line, "sh", *words, *keys], env=records.fleet.env, capture_output=True, timeout=60
        )
        assert {records.store.tasks.get(key).status for key in keys} == {status}, done
        if ending == ">/dev/full":
            assert done.returncode == 1 and b"its work is done" in done.stderr
        if ending == "2>/dev/full":
            assert done.returncode == 0


def test_watching_command_ends_when_its_output_cannot_be_written(records: Records) -> None:
    done = call(records, ">/dev/full", *records.fleet.argv, "tasks", "-w", "--json")
    assert done.returncode == 1 and b"cannot write the output" in done.stderr
