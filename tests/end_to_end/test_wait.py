"""`fleet wait`: ends when nothing more will happen without a person, and reports the result by its exit code."""

from fleet.core.task import Verdict
from live_runs import Records, in_background, next_line, records

__all__ = ["records"]


def test_wait_returns_at_once_when_all_tasks_are_closed(records: Records) -> None:
    task = records.create("a task")
    records.fleet.ok("bd", "close", task, "-r", "all done")
    done = records.fleet("wait", task)
    assert (done.code, done.out) == (0, "")
    assert done.err == f"{task} closed: all done\n1 closed\n"


def test_wait_exits_with_1_when_a_task_needs_a_person(records: Records) -> None:
    task = records.create("first")
    after = records.create("second", "--deps", task)
    last = records.create("third", "--deps", after)
    records.fleet.ok("kill", task)
    done = records.fleet("wait", "--all", "--timeout", "20")
    assert done.code == 1
    assert "3 blocked" in done.err and f"{last} blocked: waits for a task that needs a person" in done.err


def test_wait_exits_with_124_when_its_time_is_over(records: Records) -> None:
    task = records.create("a task")
    done = records.fleet("wait", task, "--timeout", "0.3")
    assert done.code == 124 and done.err == "1 waiting: out of time\n"


def test_wait_ends_with_the_last_task(records: Records) -> None:
    first, second = records.create("first"), records.create("second")
    claim, run = records.begin(first)
    with in_background(records.fleet, "wait", first, second) as waiting:
        records.end(claim, run, "finished", Verdict(status="closed", reason="verified"))
        assert next_line(waiting.stderr) == f"{first} closed: verified\n"
        assert waiting.poll() is None
        records.fleet.ok("bd", "close", second)
        assert waiting.communicate(timeout=30)[1].endswith("2 closed\n")
        assert waiting.returncode == 0


def test_wait_needs_tasks_to_wait_for(records: Records) -> None:
    assert records.fleet("wait").code == 2
    assert records.fleet("wait", "--all", "x").code == 2
    assert records.fleet("wait", "nope").code == 1
    assert records.fleet("wait", "--all").code == 0
