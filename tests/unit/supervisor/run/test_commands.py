"""Commands of the user: how their end is reported, and which part of their log."""

import asyncio
from pathlib import Path

import pytest

from fleet.agents.headless import HeadlessLauncher
from fleet.supervisor.run.commands import TAIL_BYTES, Done, run_command, tail_of
from launching import a_token, living, read, until


def run(place: Path, command: str, seconds: float = 20, *, stop_after: float | None = None) -> Done:
    """Run a command to its end, in a folder beside the log folder."""
    cwd = place.with_name("cwd")
    cwd.mkdir(exist_ok=True)

    async def work() -> Done:
        stop = asyncio.Event()
        if stop_after is not None:
            asyncio.get_running_loop().call_later(stop_after, stop.set)
        launcher = HeadlessLauncher()
        env = {"PATH": "/usr/bin:/bin"}
        return await run_command(launcher, str(place), command, cwd=str(cwd), env=env, seconds=seconds, stop=stop)

    return asyncio.run(work())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "place"


def test_shell_command_logs_both_streams_to_one_file(place: Path) -> None:
    done = run(place, "echo one; echo two >&2; printf 'a b' | tr ' ' '\\n'; pwd > here")
    assert done.ok and done.status == 0 and done.why == "" and done.seconds > 0
    assert done.tail == "one\ntwo\na\nb"
    assert (place.with_name("cwd") / "here").read_text() == f"{place.with_name('cwd')}\n"
    assert done.in_words == f"`{done.command}` ended with exit code 0"


def test_failed_command_reports_the_end_of_its_log(place: Path) -> None:
    done = run(place, "echo why it failed; exit 7")
    assert not done.ok
    assert done.in_words == "`echo why it failed; exit 7` ended with exit code 7: why it failed"


def test_status_is_none_when_a_command_times_out_or_is_stopped(place: Path) -> None:
    late = run(place, "echo begun; sleep 600", seconds=1.5)
    assert (late.ok, late.status, late.why, late.tail) == (False, None, "did not end within 1.5 s", "begun")
    stopped = run(place, "sleep 600", stop_after=0.3)
    assert (stopped.ok, stopped.status, stopped.why, stopped.tail) == (False, None, "was stopped", "")


def test_command_ended_by_a_signal_has_failed(place: Path) -> None:
    done = run(place, "kill -KILL $$")
    assert not done.ok and "signal 9" in done.in_words


def test_failed_start_of_a_command_says_why(place: Path) -> None:
    place.with_name("cwd").write_text("no folder\n")

    async def work() -> Done:
        cwd = str(place.with_name("cwd"))
        return await run_command(HeadlessLauncher(), str(place), "true", cwd=cwd, env={}, seconds=5)

    done = asyncio.run(work())
    assert not done.ok and "could not be started" in done.in_words


def test_next_command_in_a_folder_has_its_own_log(place: Path) -> None:
    run(place, "echo the first one")
    assert run(place, "echo the second").tail == "the second"


def test_command_of_an_earlier_supervisor_is_ended_first(place: Path) -> None:
    token = a_token()

    async def left() -> None:
        command = f"echo theirs; sleep 600; : {token}"
        task = asyncio.create_task(run_command(HeadlessLauncher(), str(place), command, cwd="/", env={}, seconds=600))
        await until(lambda: read(place, "stdout"))
        task.cancel()  # as a stopping supervisor does: the command lives on
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(left())
    assert living(token)
    assert run(place, "echo mine").tail == "mine"
    assert not living(token)


@pytest.mark.parametrize(
    ("log", "tail"),
    [
        (b"", ""),
        (b"\n\n  words \n\n", "words"),
        (b"\xff\xfe not text \x80", "\ufffd\ufffd not text \ufffd"),
        (b"x" * 10 + b"y" * TAIL_BYTES, "y" * TAIL_BYTES),
        ("ü".encode() * TAIL_BYTES + b"z", "\ufffd" + "ü" * (TAIL_BYTES // 2 - 1) + "z"),
    ],
)
def test_end_of_a_long_log_is_kept_whatever_its_content(tmp_path: Path, log: bytes, tail: str) -> None:
    (tmp_path / "stdout").write_bytes(log)
    assert tail_of(str(tmp_path)) == tail


def test_missing_log_has_no_tail(tmp_path: Path) -> None:
    assert tail_of(str(tmp_path)) == ""
