"""`fleet doctor`: each thing that can be wrong is found, and told with its remedy."""

import json
import os
import re
import shutil
from datetime import timedelta

from builders import a_task
from fleet.engine.single import Single
from live_runs import Store, store
from program import Program
from repositories import make_repository

__all__ = ["store"]


def found(fleet: Program, name: str, code: int | None = None) -> dict[str, str]:
    """What doctor says about one thing: the worst of it."""
    done = fleet("doctor", "--json")
    checks = [check for check in json.loads(done.out) if check["name"] == name]
    assert code is None or done.code == code, done
    assert all(check["remedy"] for check in checks if check["state"] != "ok")
    order = ("wrong", "warning", "ok")
    return dict(min(checks, key=lambda check: order.index(check["state"])))


def healthy(store: Store) -> None:
    store.fleet.ok("config", "set", "coder=demo")


def test_a_healthy_home_has_nothing_wrong(store: Store) -> None:
    healthy(store)
    done = store.fleet("doctor")
    assert done.code == 0 and done.err == "nothing is wrong\n"
    assert "\x1b" not in done.out
    for name in ("home", "file system", "sqlite", "schema", "integrity", "disk", "memory", "git", "coder", "claims"):
        assert f"✓ {name}: " in done.out


def test_without_a_home_it_says_how_to_make_one(fleet: Program) -> None:
    done = fleet("doctor")
    assert done.code == 1 and "there is no fleet home" in done.out and "fleet init" in done.out


def test_a_coder_that_is_not_there(store: Store) -> None:
    store.fleet.ok("config", "set", "coder=nowhere.at_all:Coder")
    assert found(store.fleet, "coder", 1)["state"] == "wrong"


def test_broken_settings(store: Store) -> None:
    (store.fleet.home / "runtime.toml").write_text("max_concurrent = 'many'\n")
    assert "max_concurrent" in found(store.fleet, "settings", 1)["fact"]


def test_a_damaged_database(store: Store) -> None:
    healthy(store)
    with store.queue.atomic():
        for _ in range(50):
            store.queue.add(a_task())
    store.queue.close()  # the last one out writes the log into the file
    path = store.fleet.home / "fleet.db"
    data = bytearray(path.read_bytes())
    data[8192:16384] = b"\xff" * 8192
    path.write_bytes(data)
    assert "restore" in found(store.fleet, "integrity", 1)["remedy"]


def test_a_home_others_can_read(store: Store) -> None:
    store.fleet.home.chmod(0o755)
    assert "chmod 700" in found(store.fleet, "home")["remedy"]
    store.fleet.home.chmod(0o777)
    assert found(store.fleet, "home", 1)["state"] == "wrong"


def test_floors_of_disk_and_memory(store: Store) -> None:
    store.fleet.ok("config", "set", "supervisor.min_free_disk_mb=999999999", "supervisor.min_free_memory_mb=999999999")
    assert found(store.fleet, "disk", 1)["state"] == found(store.fleet, "memory", 1)["state"] == "wrong"


def test_no_git(store: Store) -> None:
    store.fleet.env["PATH"] = ""
    assert found(store.fleet, "git", 1)["remedy"] == "install git."


def test_tmux_is_told_with_its_version_and_missed_where_it_is_not(store: Store) -> None:
    healthy(store)
    told = found(store.fleet, "tmux", 0)
    assert told["state"] == "ok" and re.fullmatch(r"tmux [0-9a-z.-]+", told["fact"])
    git = store.fleet.user / "git-only"
    git.mkdir()
    (git / "git").symlink_to(str(shutil.which("git")))
    store.fleet.env["PATH"] = str(git)
    told = found(store.fleet, "tmux")
    assert told["state"] == "warning" and "run headless" in told["fact"] and "install tmux" in told["remedy"]


def test_of_two_project_files_the_one_that_counts_is_named(store: Store) -> None:
    healthy(store)
    project = make_repository(store.fleet.user / "project")
    for name in (".fleet", ".aifleet"):
        (project / name).mkdir()
        (project / name / "config.toml").write_text("")
    done = store.fleet("doctor", cwd=project)
    assert f"{project}/.aifleet/config.toml is ignored: {project}/.fleet/config.toml counts" in done.out


def test_claims_that_ran_out_and_work_without_an_agent(store: Store) -> None:
    healthy(store)
    expired, idle = store.create("expired"), store.create("idle")
    store.claim(expired)
    store.claim(idle)
    now = store.queue.now()
    with store.queue.atomic():
        store.queue.save(store.queue.get(expired).replace(claim_expires_at=now - timedelta(minutes=1)))
        store.queue.save(store.queue.get(idle).replace(updated_at=now - timedelta(minutes=10)))
    done = store.fleet("doctor")
    assert done.code == 1
    assert f"expired: {expired}" in done.out and f"in progress without a live run: {idle}" in done.out


def test_ready_work_and_no_supervisor(store: Store) -> None:
    healthy(store)
    store.create("a task")
    assert "fleet run start" in found(store.fleet, "queue", 1)["remedy"]


def test_a_supervisor_that_died_and_one_that_lives(store: Store) -> None:
    healthy(store)
    assert found(store.fleet, "supervisor")["fact"] == "none runs"
    (store.fleet.home / "supervisor.lock").write_text('{"pid": 4194305, "since": "yesterday"}')
    assert "(pid 4194305) ended without a word" in found(store.fleet, "supervisor", 0)["fact"]
    single = Single(store.home)
    single.take()
    try:
        assert found(store.fleet, "supervisor")["fact"].startswith(f"pid {os.getpid()}")
        assert found(store.fleet, "wake pipe", 1)["state"] == "wrong"  # nobody made it
    finally:
        single.release()
