"""The speed of a supervisor's writes about its runs: `python tests/bench/bench_history.py [rounds]`. No bar."""

import sys
import tempfile
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from fleet.core import clock
from fleet.core.filter import Lane
from fleet.core.run import Run
from fleet.core.task import Claim, Task
from fleet.store.sqlite.store import SqliteStore

AGENTS = 100
ROUNDS = 5
COMMITS = 200
NOTES = '{"message": "msg_0123456789", "usage": {"input": 1, "output": 2, "cache_read": 3, "cache_write": 4}}'


def main() -> None:
    """Measure and print."""
    rounds = max(3, int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
    figures = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            figures.append(measured(Path(folder)))
    speeds = [speed for speed, _ in figures]
    cost = median(used for _, used in figures)
    print(
        f"fold_all of {AGENTS} runs, commits/s: {median(speeds):,.0f} "
        f"(min {min(speeds):,.0f}, max {max(speeds):,.0f}, n={rounds}); "
        f"once a second it takes {cost * 100:.2f} % of a core"
    )


def measured(folder: Path) -> tuple[float, float]:
    """Return the commits per second and the processor seconds of one commit."""
    with closing(SqliteStore(str(folder / "fleet.db"), make=True)) as store:
        pairs = begun(store)
        start, used = perf_counter(), process_time()
        for number in range(COMMITS):
            lost = store.runs.fold_all([(claim, further(run, number)) for claim, run in pairs])
            assert lost == []
        return COMMITS / (perf_counter() - start), (process_time() - used) / COMMITS


def begun(store: SqliteStore) -> list[tuple[Claim, Run]]:
    """Add claimed tasks, each with a live run. Return the claims and runs."""
    now = clock.now()
    for number in range(AGENTS):
        store.tasks.add(Task(id=f"fleet-{number:03}", title=f"Task {number}", created_at=now, updated_at=now))
    claims = store.claims.acquire("host", [Lane(room=AGENTS)], room=AGENTS, ttl=timedelta(hours=1))
    new = Run(id="", task_id="", number=0, epoch=0, owner="", started_at=now, coder="claude", workspace="/srv/project")
    return [(claim, store.runs.begin(claim, new)) for claim in claims]


def further(run: Run, number: int) -> Run:
    """Return the run after some more events."""
    return run.replace(
        events=number * 10,
        tool_calls=number,
        output_tokens=number * 1_000,
        cost_usd=number / 100,
        last_event_at=clock.now(),
        stdout_offset=number * 4_096,
        folded=NOTES,
    )


if __name__ == "__main__":
    main()
