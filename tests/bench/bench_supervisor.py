"""The supervisor and its bars: the start time of work, its throughput, and its cost while idle."""

import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from program import Process, Program  # noqa: E402
from repositories import make_repository  # noqa: E402
from supervised import Supervised, wait_for  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
#: The number of agents that print while people look, and the number of calls of each command.
WATCHED, LOOKS = 60, 15
#: The orders of these agents: wait, or print 100 lines a second.
QUIET, LOUD = "ok until={go}", "talk seconds=300 rate=100"


def main() -> int:
    """Measure everything. Return 0 if every bar is met."""
    results = [latency(), throughput(), recovery(), *idle(), *crowd(), *views()]
    for what, measured, bar, ok, detail in results:
        print(f"{what:<66} {measured:>12} {bar:>12}  {'pass' if ok else 'SHORT'}   {detail}")
    return 0 if all(ok for _, _, _, ok, _ in results) else 1


Row = tuple[str, str, str, bool, str]


def a_home(folder: str, *settings: str) -> Supervised:
    """Return a home with default settings, except for the coder and the given ones."""
    home = Supervised(Program(Path(folder)))
    home.set("supervisor.claim_seconds=60", *settings)
    return home


def latency() -> Row:
    """Measure the time from the return of `fleet bd create` to the running agent."""
    with tempfile.TemporaryDirectory() as folder:
        home = a_home(folder)
        home.start()
        times = []
        for number in range(15):
            home.create("ok")
            returned = time.time()
            wait_for(lambda n=number: len(home.notes("start")) > n, "the agent to start")  # type: ignore[misc]
            times.append((float(home.notes("start")[number][4]) - returned) * 1000)
            wait_for(lambda n=number: len(home.notes("end")) > n, "the agent to end")  # type: ignore[misc]
            time.sleep(0.1)
        home.stop()
    median = statistics.median(times)
    return (
        "create returns → agent's first line runs, median",
        f"{median:.0f} ms",
        "≤ 100 ms",
        median <= 100,
        f"{min(times):.0f}–{max(times):.0f}, n={len(times)}",
    )


def throughput() -> Row:
    """Measure 100 instant tasks on 10 slots, from the start of the supervisor to the last settled task."""
    with tempfile.TemporaryDirectory() as folder:
        home = a_home(folder, "max_concurrent=10")
        rows = [
            {"id": f"fleet-t{n:03}", "title": f"task {n}", "description": "do: ok", "priority": 2} for n in range(100)
        ]
        home.fleet.ok("bd", "import", "-", stdin="\n".join(json.dumps(row) for row in rows))
        home.start()
        began = time.monotonic()
        home.wait_all([str(row["id"]) for row in rows], "closed", patience=120)
        rate = 100 / (time.monotonic() - began)
        home.stop()
    return ("100 instant tasks, 10 slots, end to end", f"{rate:.1f}/s", "≥ 20/s", rate >= 20, "one run")


def recovery() -> Row:
    """Measure the time from the start of a supervisor until it has the 20 tasks of a killed one."""
    with tempfile.TemporaryDirectory() as folder:
        home = a_home(folder, "max_concurrent=20", "supervisor.start_interval_seconds=0")
        home.create_many([f"ok until={home.go}"] * 20)
        home.start()
        home.wait_started(20)
        sql = "select count(*) as n from tasks where epoch = ?"
        times = []
        for number in range(5):
            home.kill()
            began = time.monotonic()
            home.spawn()
            wait_for(lambda n=number: home.rows(sql, n + 2)[0]["n"] == 20, "its return", home.describe)  # type: ignore[misc]
            times.append(time.monotonic() - began)
        home.go.touch()
        home.stop()
    most = max(times)
    return ("kill -9 → the next has taken over 20 agents", f"{most:.2f} s", "≤ 5 s", most <= 5, f"n={len(times)}")


def idle() -> list[Row]:
    """Measure the cost of an idle supervisor over 20 s."""
    with tempfile.TemporaryDirectory() as folder:
        home = a_home(folder)
        home.start()
        time.sleep(3)
        share, memory = cost_of(home, 20)
        home.stop()
    return [
        ("idle supervisor: share of a core", f"{share:.2f} %", "≤ 0.2 %", share <= 0.2, "20 s"),
        ("idle supervisor: memory", f"{memory:.1f} MiB", "≤ 40 MiB", memory <= 40, "resident"),
    ]


def crowd() -> list[Row]:
    """Measure 100 agents that print 10 events a second each."""
    with tempfile.TemporaryDirectory() as folder:
        home = a_home(folder, "max_concurrent=100", "supervisor.start_interval_seconds=0.05")
        count, seconds = 100, 25
        rows = [
            {
                "id": f"fleet-c{n:03}",
                "title": f"talker {n}",
                "description": f"do: talk seconds={seconds} rate=10",
                "priority": 2,
            }
            for n in range(count)
        ]
        home.fleet.ok("bd", "import", "-", stdin="\n".join(json.dumps(row) for row in rows))
        home.start()
        wait_for(lambda: len(home.notes("start")) == count, "all to run", home.describe, 120)
        share, memory = cost_of(home, 10)
        home.wait_all([str(row["id"]) for row in rows], "closed", patience=180)
        seen = home.rows("select sum(events) as n from runs")[0]["n"]
        home.stop()
    said = count * (seconds * 10 + 4)
    return [
        ("100 agents, 10 events/s each: share of a core", f"{share:.0f} %", "≤ 45 %", share <= 45, "10 s"),
        ("100 agents, 10 events/s each: memory", f"{memory:.0f} MiB", "≤ 150 MiB", memory <= 150, "resident"),
        ("100 agents: events lost", f"{said - seen}", "0", seen == said, f"{seen} of {said} seen"),
    ]


def views() -> list[Row]:
    """Measure `tasks` and `list` while agents print and while they are quiet."""
    quiet, loud = look_at(QUIET), look_at(LOUD)
    rows = []
    for command, times in loud.items():
        alone, beside = statistics.median(quiet[command]) * 1000, statistics.median(times) * 1000
        what = f"{command} beside {WATCHED} agents, 100 lines/s each, against quiet ones"
        ok = beside <= 2 * alone
        rows.append((what, f"{beside / alone:.1f}x", "≤ 2x", ok, f"{beside:.0f} ms against {alone:.0f} ms"))
    return rows


def look_at(order: str) -> dict[str, list[float]]:
    """Return the seconds of each call of the commands while agents carry out an order."""
    times: dict[str, list[float]] = {"tasks": [], "list": []}
    with tempfile.TemporaryDirectory() as folder:
        home = a_home(folder, f"max_concurrent={WATCHED}", "supervisor.start_interval_seconds=0.05")
        home.fleet.cwd = make_repository(Path(folder) / "repo")
        home.start()
        prompt = f"do: {order.format(go=home.go)}"
        home.fleet.ok("fanout", str(WATCHED), "watched", "--headless", "--no-wait", "-p", prompt)
        wait_for(lambda: len(home.notes("start")) == WATCHED, "all to run", home.describe, 120)
        time.sleep(3)
        for _ in range(LOOKS):
            for command, taken in times.items():
                began = time.monotonic()
                shown = home.fleet.ok(command)
                taken.append(time.monotonic() - began)
                if shown.count("fleet-") != WATCHED:
                    raise SystemExit(f"{command} does not show {WATCHED} agents:\n{shown}")
        home.stop()
    return times


def cost_of(home: Supervised, seconds: float) -> tuple[float, float]:
    """Return the supervisor's percentage of a core over this many seconds, and its resident MiB."""
    assert home.process is not None
    before, began = used(home.process), time.monotonic()
    time.sleep(seconds)
    share = (used(home.process) - before) / (time.monotonic() - began) * 100
    status = Path(f"/proc/{home.process.pid}/status").read_text()
    resident = next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]
    return share, int(resident) / 1024


def used(process: Process) -> float:
    """Return the CPU seconds of a process so far, without its children."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


if __name__ == "__main__":
    sys.exit(main())
