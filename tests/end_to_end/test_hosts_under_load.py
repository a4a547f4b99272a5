"""Four hosts with many slots on one PostgreSQL, and agents that finish at once: each task runs on one host, once."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from postgres import server
from postgres_home import SharedHome
from program import Program
from supervised import wait_for

HOSTS, SLOTS = 4, 25


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[SharedHome]]:
    url = server().make_database()
    made = []
    for number in range(HOSTS):
        (base := tmp_path / f"host-{number}").mkdir()
        made.append(SharedHome(Program(base), url))
        made[-1].set(f"host.name=h{number}", f"max_concurrent={SLOTS}", "supervisor.claim_seconds=60")
    yield made
    for host in made:
        host.stop()


@pytest.mark.parametrize(
    ("tasks", "seconds"), [(200, 240), pytest.param(10_000, 7200, marks=pytest.mark.soak("load"))], ids=["few", "many"]
)
def test_each_task_runs_once_and_all_finish(
    hosts: list[SharedHome], tasks: int, seconds: int, record_property: Callable[[str, object], None]
) -> None:
    first = hosts[0]
    rows = [{"id": f"fleet-n{n}", "title": f"task {n}", "description": "do: ok"} for n in range(tasks)]
    file = first.fleet.user / "tasks.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    first.fleet.ok("bd", "import", str(file))
    first.fleet.ok("pause")  # until all hosts are present, so that each gets its share
    for host in hosts:
        host.spawn()
    wait_for(lambda: len(first.rows("select id from hosts")) == HOSTS, "the hosts", first.describe)
    first.fleet.ok("resume")
    unfinished = "select count(*) as n from tasks where status <> 'closed'"
    wait_for(lambda: first.rows(unfinished)[0]["n"] == 0, "every task", first.describe, patience=seconds)
    notes = {f"h{number}": starts(host) for number, host in enumerate(hosts)}
    started = Counter(key for keys in notes.values() for key in keys)
    assert started == {row["id"]: 1 for row in rows}
    shares = {name: len(keys) for name, keys in notes.items()}
    assert min(shares.values()) > 0, shares
    assert first.rows("select count(*) as n from runs")[0]["n"] == tasks
    record_property(f"table: {tasks} tasks on {HOSTS} hosts", f"each run once; by host {shares}")


def starts(host: SharedHome) -> list[str]:
    """Return the tasks whose agents recorded their start on this host."""
    lines = [line.split() for line in host.audit.read_text().splitlines()]
    return [task for what, task, *_ in lines if what == "start"]
