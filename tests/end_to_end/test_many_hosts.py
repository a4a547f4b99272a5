"""Several hosts on one PostgreSQL: which host runs which task, draining, and a host that disappears with its work."""

import json
import re
from collections.abc import Callable

from machines import Machine, machine
from repositories import make_repository, run_git
from supervised import wait_for

__all__ = ["machine"]


def test_each_host_runs_matching_tasks_and_a_drained_host_none(machine: Callable[..., Machine]) -> None:
    one, two = machine("one", "gpu", "linux"), machine("two", "arm", "linux")
    assert {name: (row["labels"], row["this"]) for name, row in one.hosts().items()} == {
        "one": (["gpu", "linux"], True),
        "two": (["arm", "linux"], False),
    }
    one.add(
        gpu1=["gpu"], gpu2=["gpu", "linux"], arm=["arm"], pin1=["host:one"], pin2=["host:two", "linux"], tpu=["tpu"]
    )
    made = json.loads(one.fleet.ok("bd", "create", "x", "-d", "do: ok", "--host", "two", "--json"))["id"]
    one.wait("t-tpu")
    assert one.ran() == ["t-gpu1", "t-gpu2", "t-pin1"]
    assert two.ran() == sorted(["t-arm", "t-pin2", made])
    # Every host shows why the last task waits, and can drain any host.
    assert "nothing starts: no host offers tpu (1 task waits for it)" in two.fleet("tasks").err
    two.fleet.ok("hosts", "drain", "one")
    assert two.hosts()["one"]["state"] == "drained"
    two.add(late=["gpu"], free=[])
    two.wait("t-late", "t-tpu")
    assert "host one is drained (1 task waits for it)" in two.fleet("tasks").err
    assert "t-free" in two.ran()
    two.fleet.ok("hosts", "undrain", "one")
    two.wait("t-tpu")
    assert "t-late" in one.ran()


def test_work_of_a_vanished_host_continues_elsewhere(machine: Callable[..., Machine]) -> None:
    one, two = machine("one"), machine("two")
    two.fleet.ok("hosts", "drain", "two")
    two.add(f"until file={one.fleet.user / 'go'}", work=[])
    wait_for(one.ran, "its agent", one.said)
    two.fleet.ok("hosts", "undrain", "two")
    assert two.hosts()["one"]["agents"] == 1
    refused = two.fleet("hosts", "forget", "one")
    assert refused.code == 1 and "error: host one still holds t-work" in refused.err
    one.vanish()
    wait_for(lambda: two.hosts()["one"]["state"] == "gone", "the others to notice", two.said)
    assert re.search(r"one +gone +– +\d +– +– +last seen at \d", two.fleet.ok("hosts"))
    (one.fleet.user / "go").touch()
    two.wait()
    assert two.ran() == ["t-work"]
    two.add(pinned=["host:one"])
    assert re.search(r"host one was last seen at \d+.* \(1 task waits for it\)", two.fleet("tasks").err)
    # The host returns with its identity, and runs the tasks that waited for it.
    one.start()
    two.wait()
    assert "t-pinned" in one.ran()
    one.stop()
    assert two.hosts()["one"]["state"] == "gone"
    assert two.fleet.ok("hosts", "forget", "one") == "one is forgotten\n"
    assert list(two.hosts()) == ["two"]


def test_home_that_creates_a_task_becomes_a_host_only_if_the_task_must_stay_there(
    machine: Callable[..., Machine],
) -> None:
    worker = machine("worker")
    laptop = machine("laptop", start=False)
    remote = laptop.fleet.user / "remote.git"
    run_git(laptop.fleet.user, "init", "--quiet", "--bare", str(remote))
    travels = make_repository(laptop.fleet.user / "travels")
    run_git(travels, "remote", "add", "origin", str(remote))
    run_git(travels, "push", "--quiet", "--set-upstream", "origin", "main")
    asked = laptop.fleet("create", "there", "-p", "do: ok", "--headless", "--no-wait", cwd=travels)
    assert asked.code == 0 and "supervisor started" not in asked.err
    assert laptop.fleet("run", "status").code == 1 and list(laptop.hosts()) == ["worker"]
    stays = make_repository(laptop.fleet.user / "stays")
    asked = laptop.fleet("create", "here", "-p", "do: ok", "--headless", "--no-wait", cwd=stays)
    assert asked.code == 0 and "supervisor started" in asked.err
    wait_for(lambda: laptop.ran() and worker.ran(), "both agents", worker.said)
    assert laptop.ran() != worker.ran() and set(laptop.hosts()) == {"laptop", "worker"}
