"""`fleet doctor`: finds each fault and prints a remedy."""

import json
import os
import re
import shutil
from datetime import timedelta

from builders import a_task
from fleet.supervisor.lock import Single
from live_runs import Records, records
from program import Program
from repositories import make_repository

__all__ = ["records"]


def found(fleet: Program, name: str, code: int | None = None) -> dict[str, str]:
    """Return the worst check of this name."""
    done = fleet("doctor", "--json")
    checks = [check for check in json.loads(done.out) if check["name"] == name]
    assert code is None or done.code == code, done
    assert all(check["remedy"] for check in checks if check["state"] != "ok")
    order = ("wrong", "warning", "ok")
    return dict(min(checks, key=lambda check: order.index(check["state"])))


def healthy(records: Records) -> None:
    records.fleet.ok("config", "set", "coder=demo")


def test_doctor_finds_nothing_wrong_in_a_healthy_home(records: Records) -> None:
    healthy(records)
    done = records.fleet("doctor")
    assert done.code == 0 and done.err == "nothing is wrong\n"
    assert "\x1b" not in done.out
    for name in ("home", "file system", "sqlite", "schema", "integrity", "disk", "memory", "git", "coder", "claims"):
        assert f"✓ {name}: " in done.out


def test_doctor_names_fleet_init_when_no_home_exists(fleet: Program) -> None:
    done = fleet("doctor")
    assert done.code == 1 and "no fleet home" in done.out and "fleet init" in done.out


def test_doctor_reports_a_missing_coder(records: Records) -> None:
    records.fleet.ok("config", "set", "coder=nowhere.at_all:Coder")
    assert found(records.fleet, "coder", 1)["state"] == "wrong"


def test_doctor_reports_broken_settings(records: Records) -> None:
    (records.fleet.home / "runtime.toml").write_text("max_concurrent = 'many'\n")
    assert "max_concurrent" in found(records.fleet, "settings", 1)["fact"]


def test_doctor_reports_a_damaged_database(records: Records) -> None:
    healthy(records)
    with records.store.atomic():
        for _ in range(50):
            records.store.tasks.add(a_task())
    records.store.close()  # the last connection writes the log into the file
    path = records.fleet.home / "fleet.db"
    data = bytearray(path.read_bytes())
    data[8192:16384] = b"\xff" * 8192
    path.write_bytes(data)
    assert "restore" in found(records.fleet, "integrity", 1)["remedy"]


def test_doctor_reports_a_home_that_others_can_read(records: Records) -> None:
    records.fleet.home.chmod(0o755)
    assert "chmod 700" in found(records.fleet, "home")["remedy"]
    records.fleet.home.chmod(0o777)
    assert found(records.fleet, "home", 1)["state"] == "wrong"


def test_doctor_reports_low_disk_and_memory(records: Records) -> None:
    records.fleet.ok(
        "config", "set", "supervisor.min_free_disk_mb=999999999", "supervisor.min_free_memory_mb=999999999"
    )
    assert found(records.fleet, "disk", 1)["state"] == found(records.fleet, "memory", 1)["state"] == "wrong"


def test_doctor_reports_a_missing_git(records: Records) -> None:
    records.fleet.env["PATH"] = ""
    assert found(records.fleet, "git", 1)["remedy"] == "install git"


def test_doctor_shows_the_version_of_tmux_or_warns_when_it_is_missing(records: Records) -> None:
    healthy(records)
    told = found(records.fleet, "tmux", 0)
    assert told["state"] == "ok" and re.fullmatch(r"tmux [0-9a-z.-]+", told["fact"])
    git = records.fleet.user / "git-only"
    git.mkdir()
    (git / "git").symlink_to(str(shutil.which("git")))
    records.fleet.env["PATH"] = str(git)
    told = found(records.fleet, "tmux")
    assert told["state"] == "warning" and "run headless" in told["fact"] and "install tmux" in told["remedy"]


def test_doctor_names_the_project_file_that_counts_when_there_are_two(records: Records) -> None:
    healthy(records)
    project = make_repository(records.fleet.user / "project")
    for name in (".fleet", ".aifleet"):
        (project / name).mkdir()
        (project / name / "config.toml").write_text("")
    done = records.fleet("doctor", cwd=project)
    assert f"{project}/.aifleet/config.toml is ignored: {project}/.fleet/config.toml counts" in done.out


def test_doctor_reports_expired_claims_and_tasks_without_an_agent(records: Records) -> None:
    healthy(records)
    expired, idle = records.create("expired"), records.create("idle")
    records.claim(expired)
    records.claim(idle)
    now = records.store.now()
    with records.store.atomic():
        records.store.tasks.save(records.store.tasks.get(expired).replace(claim_expires_at=now - timedelta(minutes=1)))
        records.store.tasks.save(records.store.tasks.get(idle).replace(updated_at=now - timedelta(minutes=10)))
    done = records.fleet("doctor")
    assert done.code == 1
    assert f"expired: {expired}" in done.out and f"in progress without a live run: {idle}" in done.out


def test_doctor_reports_ready_tasks_without_a_supervisor(records: Records) -> None:
    healthy(records)
    records.create("a task")
    assert "fleet run start" in found(records.fleet, "queue", 1)["remedy"]


def test_doctor_shows_whether_the_supervisor_died_or_lives(records: Records) -> None:
    healthy(records)
    assert found(records.fleet, "supervisor")["fact"] == "none runs"
    (records.fleet.home / "supervisor.lock").write_text('{"pid": 4194305, "since": "yesterday"}')
    assert "(pid 4194305) ended without a reason" in found(records.fleet, "supervisor", 0)["fact"]
    single = Single(records.home)
    single.take()
    try:
        assert found(records.fleet, "supervisor")["fact"].startswith(f"pid {os.getpid()}")
        assert found(records.fleet, "wake pipe", 1)["state"] == "wrong"  # nothing created the pipe
    finally:
        single.release()
