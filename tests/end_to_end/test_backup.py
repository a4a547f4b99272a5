"""`fleet backup` and `fleet restore`: a home in one file and back, without losing data that exists only on disk."""

import io
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repositories import commit, make_repository, run_git
from supervised import Supervised, home, wait_for

__all__ = ["home"]


@pytest.fixture
def repo(home: Supervised) -> Path:
    """Return a repository with a remote, in which agents are created."""
    home.fleet.cwd = make_repository(home.fleet.cwd / "repo")
    run_git(home.fleet.cwd, "init", "--quiet", "--bare", "../remote.git")
    run_git(home.fleet.cwd, "remote", "add", "origin", "../remote.git")
    run_git(home.fleet.cwd, "push", "--quiet", "origin", "main")
    return home.fleet.cwd


def create(home: Supervised, branch: str, do: str) -> str:
    return str(json.loads(home.fleet.ok("create", branch, "--headless", "--prompt", f"do: {do}", "--json"))["task"])


def tree_of(home: Supervised, task: str) -> Path:
    return Path(home.rows("select path from workspaces where task = ?", task)[0]["path"])


def done(home: Supervised, branch: str) -> str:
    """Return a task whose branch has a commit that no remote has."""
    task = create(home, branch, "ok")
    home.wait_status(task, "closed", "blocked")
    commit(tree_of(home, task), f"{branch}.txt", "unmerged")
    return task


def backed_up(home: Supervised, name: str = "copy.tar.gz") -> tuple[Path, dict[str, Any]]:
    file = home.fleet.user / name
    return file, json.loads(home.fleet.ok("backup", str(file), "--json"))


def names_in(file: Path) -> set[str]:
    with tarfile.open(file) as tar:
        return set(tar.getnames())


def titles(home: Supervised) -> set[str]:
    return {row["title"] for row in home.rows("select title from tasks")}


def test_backup_holds_everything_when_fleet_is_at_work(home: Supervised, repo: Path) -> None:
    home.start()
    task = done(home, "work")
    busy = create(home, "busy", "ok seconds=600")
    home.wait_started(2)
    (home.fleet.home / "tasks" / task / "artifacts" / "lock").write_text("an agent's own file")
    (home.fleet.home / "tasks" / task / "artifacts" / "link").symlink_to("/etc/passwd")
    file, told = backed_up(home)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    names = names_in(file)
    assert {"manifest.json", "home/fleet.db", "home/runtime.toml", f"home/tasks/{task}/artifacts/lock"} <= names
    assert f"home/tasks/{busy}/runs/1/stdout" in names
    assert not {f"home/tasks/{busy}/runs/1/{name}" for name in ("lock", "control", "spec.json")} & names
    assert told["left_out"] == [f"home/tasks/{task}/artifacts/link"]
    (one,) = told["repositories"]
    assert {"refs/heads/work", "refs/heads/busy"} <= one["refs"].keys()
    with tarfile.open(file) as tar:
        tar.extract(one["bundle"], home.fleet.user, filter="data")
    heads = run_git(repo, "bundle", "list-heads", str(home.fleet.user / one["bundle"]))
    assert "refs/heads/work" in heads and "refs/heads/busy" not in heads, "what the remote has is not in it"
    assert [path.name for path in file.parent.glob(".copy*")] == [] and not list(home.fleet.home.glob("backup-*"))
    assert home.agents(), "it stopped nobody"


def test_restore_brings_back_what_is_missing_when_home_and_branches_are_lost(home: Supervised, repo: Path) -> None:
    home.start()
    task = done(home, "work")
    tip = run_git(repo, "rev-parse", "work")
    file, _ = backed_up(home)
    home.stop()
    shutil.rmtree(tree_of(home, task))
    run_git(repo, "worktree", "prune")
    run_git(repo, "worktree", "list")
    shutil.rmtree(home.fleet.home)
    shutil.rmtree(repo / ".git" / "worktrees", ignore_errors=True)
    run_git(repo, "branch", "--delete", "--force", "work")
    run_git(repo, "reflog", "expire", "--expire=now", "--all")
    run_git(repo, "gc", "--quiet", "--prune=now")
    told = home.fleet("restore", str(file))
    assert told.code == 0 and "fleet run start" in told.out, told
    assert run_git(repo, "rev-parse", "work") == tip
    assert run_git(repo, "for-each-ref", "refs/fleet/restored") == ""
    assert home.task(task)["branch"] == "work"
    assert (home.fleet.home / "tasks" / task / "runs" / "1" / "stdout").exists()
    home.start()
    home.create("ok")
    wait_for(lambda: home.notes("end")[1:], "another agent to work", home.describe)


def test_restore_keeps_what_exists_only_on_disk(home: Supervised, repo: Path) -> None:
    home.start()
    task = done(home, "work")
    old = run_git(repo, "rev-parse", "work")
    file, _ = backed_up(home)
    later = done(home, "later")
    commit(tree_of(home, task), "more.txt", "after the backup")
    (tree_of(home, task) / "uncommitted").write_text("precious")
    artifact = home.fleet.home / "tasks" / task / "artifacts" / "report.md"
    artifact.write_text("after the backup")
    log = home.fleet.home / "tasks" / task / "log.jsonl"
    log.write_text(log.read_text() + '{"event": "later"}\n')
    home.set("max_concurrent=2")
    tree, other, settings = tree_of(home, task), tree_of(home, later), home.fleet.home / "runtime.toml"
    home.stop()
    told = json.loads(home.fleet.ok("restore", str(file), "--json"))
    assert (tree / "uncommitted").read_text() == "precious" and (other / "later.txt").exists()
    assert artifact.read_text() == "after the backup" and '"later"' in log.read_text()
    assert run_git(repo, "show", "work:more.txt") == "after the backup"
    (one,) = told["repositories"]
    assert run_git(repo, "rev-parse", one["beside"]["refs/heads/work"]) == old
    assert one["beside"]["refs/heads/work"].startswith("refs/fleet/restored/")
    kept = {Path(place).name.partition(".before-")[0]: Path(place) for place in told["beside"]}
    assert kept.keys() == {"fleet.db", "runtime.toml"}
    assert "max_concurrent = 2" in kept["runtime.toml"].read_text()
    assert "max_concurrent = 3" in settings.read_text()
    assert [row["id"] for row in home.rows("select id from tasks where id = ?", later)] == []
    shutil.copyfile(kept["fleet.db"], home.fleet.home / "fleet.db")
    assert home.task(later)["branch"] == "later", "the present database is whole"


def test_restore_is_refused_when_a_supervisor_runs(home: Supervised) -> None:
    file, _ = backed_up(home)
    home.start()
    home.create("ok")
    told = home.fleet("restore", str(file))
    assert told.code == 1 and "supervisor" in told.err and "fleet run stop" in told.err
    assert titles(home) == {"ok"}


def a_link(tar: tarfile.TarFile) -> None:
    member = tarfile.TarInfo("home/tasks/x/link")
    member.type, member.linkname = tarfile.SYMTYPE, "/etc"
    tar.addfile(member)


def a_hard_link(tar: tarfile.TarFile) -> None:
    member = tarfile.TarInfo("home/tasks/x/link")
    member.type, member.linkname = tarfile.LNKTYPE, "home/fleet.db"
    tar.addfile(member)


def a_device(tar: tarfile.TarFile) -> None:
    member = tarfile.TarInfo("home/tasks/x/device")
    member.type, member.devmajor, member.devminor = tarfile.CHRTYPE, 1, 3
    tar.addfile(member)


def named(name: str) -> Callable[[tarfile.TarFile], None]:
    def add(tar: tarfile.TarFile) -> None:
        member = tarfile.TarInfo(name)
        member.size = 4
        tar.addfile(member, io.BytesIO(b"evil"))

    return add


@pytest.mark.parametrize(
    "add",
    [
        pytest.param(add, id=name)
        for name, add in {
            "link": a_link,
            "hard link": a_hard_link,
            "device": a_device,
            "absolute": named("/etc/evil"),
            "upwards": named("home/tasks/../../../evil"),
            "elsewhere": named("evil"),
        }.items()
    ],
)
def test_restore_changes_nothing_when_the_archive_is_hostile(
    home: Supervised, add: Callable[[tarfile.TarFile], None]
) -> None:
    file, _ = backed_up(home)
    home.create("ok")
    changed = file.with_name("changed.tar.gz")
    with tarfile.open(file) as before, tarfile.open(changed, "w:gz") as after:
        for member in before:
            after.addfile(member, before.extractfile(member))
        add(after)
    told = home.fleet("restore", str(changed))
    assert told.code == 1 and told.err.splitlines()[-2].startswith("error: the backup holds "), told
    assert titles(home) == {"ok"} and list(home.fleet.home.glob("*before*")) == []


def test_backup_fails_but_holds_the_rest_when_a_repository_cannot_be_read(home: Supervised, repo: Path) -> None:
    home.start()
    task = done(home, "work")
    tip = run_git(repo, "rev-parse", "work")
    (repo / ".git" / "objects" / tip[:2] / tip[2:]).unlink()
    file = home.fleet.user / "copy.tar.gz"
    told = home.fleet("backup", str(file))
    assert told.code == 1 and "not included: git bundle failed" in told.err, told
    assert {"home/fleet.db", f"home/tasks/{task}/task.json"} <= names_in(file)


def test_restore_changes_nothing_when_one_byte_of_the_archive_is_wrong(home: Supervised) -> None:
    file, _ = backed_up(home)
    home.create("ok")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    told = home.fleet("restore", str(file))
    assert told.code == 1 and "not a whole backup" in told.err, told
    assert titles(home) == {"ok"} and list(home.fleet.home.glob("*before*")) == []


@pytest.mark.parametrize("cut", [0.3, 0.9])
def test_restore_changes_nothing_when_the_archive_is_cut_short(home: Supervised, cut: float) -> None:
    file, _ = backed_up(home)
    home.create("ok")
    file.write_bytes(file.read_bytes()[: int(file.stat().st_size * cut)])
    told = home.fleet("restore", str(file))
    assert told.code == 1 and "not a whole backup" in told.err, told
    assert titles(home) == {"ok"} and list(home.fleet.home.glob("*before*")) == []


def test_restore_writes_nothing_elsewhere_when_a_link_is_in_its_way(home: Supervised) -> None:
    key = home.create("ok")
    folder = home.fleet.home / "tasks" / key / "artifacts"
    folder.mkdir(parents=True)
    (folder / "report").write_text("from the backup")
    (folder / "below").mkdir()
    (folder / "below" / "it").write_text("from the backup")
    file, _ = backed_up(home)
    shutil.rmtree(folder)
    outside = home.fleet.user / "outside"
    outside.mkdir()
    folder.symlink_to(outside)
    told = home.fleet("restore", str(file))
    assert told.code == 1 and "a link is in the way" in told.err and list(outside.iterdir()) == []


def test_backup_leaves_no_part_when_it_cannot_be_written(home: Supervised) -> None:
    file = home.fleet.user / "copy.tar.gz"
    inside = home.fleet("backup", str(home.fleet.home / "tasks" / "copy.tar.gz"))
    assert inside.code == 1 and "it is inside the home" in inside.err
    missing = home.fleet("backup", str(home.fleet.user / "missing" / "copy.tar.gz"))
    assert missing.code == 1 and missing.err.startswith("error: cannot write ")
    assert not file.exists() and not list(home.fleet.user.glob(".copy*"))


def test_backup_replaces_only_earlier_backups(home: Supervised) -> None:
    notes = home.fleet.user / "notes.txt"
    notes.write_text("mine")
    kept = (home.fleet.home / "fleet.db").read_bytes()
    for place in (notes, home.fleet.home / "fleet.db", home.fleet.home / "runtime.toml"):
        refused = home.fleet("backup", str(place))
        assert refused.code == 1 and f"cannot write {place}: it" in refused.err, refused
    assert notes.read_text() == "mine" and (home.fleet.home / "fleet.db").read_bytes() == kept
    file = home.fleet.user / "copy.tar.gz"
    for _ in range(2):
        home.fleet.ok("backup", str(file))


def test_restore_refuses_a_pipe(home: Supervised) -> None:
    pipe = home.fleet.user / "pipe"
    os.mkfifo(pipe)
    refused = home.fleet("restore", str(pipe))
    assert refused.code == 1 and "it is not a regular file" in refused.err


@pytest.mark.parametrize("words", [("backup",), ("bd", "export", "-o"), ("workflow", "new", "competition", "--out")])
def test_device_stays_a_device_when_fleet_writes_to_it(home: Supervised, words: tuple[str, ...]) -> None:
    device = home.fleet.user / "device"
    os.mkfifo(device)
    result = home.fleet(*words, str(device))
    assert device.is_fifo(), result
    assert "Traceback" not in result.err


@pytest.mark.parametrize("times", [6, pytest.param(60, marks=pytest.mark.soak("kills"))])
def test_restore_can_be_repeated_when_it_was_killed(home: Supervised, times: int) -> None:
    """Kill restores with SIGKILL at random moments: the next attempt succeeds, and the original data survives whole."""
    home.seed = int(os.environ.get("FLEET_SEED") or random.randrange(10**9))
    chance = random.Random(home.seed)
    home.create_many([f"ok of={number}" for number in range(20)])
    folder = home.fleet.home / "tasks" / "many" / "artifacts"
    folder.mkdir(parents=True)
    for number in range(200):
        (folder / f"{number}.txt").write_text(f"file {number}")
    file, _ = backed_up(home)
    shutil.rmtree(folder)
    later = home.create("ok later=1")
    for _ in range(times):
        with Path(os.devnull).open("wb") as nothing:
            process = home.fleet.start("restore", str(file), stdout=nothing.fileno(), stderr=nothing.fileno())
        time.sleep(chance.uniform(0, 0.8))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
    home.fleet.ok("restore", str(file))
    assert len(titles(home)) == 20 and len(list(folder.iterdir())) == 200, home.seed
    assert not (home.fleet.home / "restoring").exists()
    copies = sorted(home.fleet.home.glob("fleet.db.before-*Z"))
    found = [
        subprocess.run(
            ["python3", "-c", "import sqlite3, sys; print([*sqlite3.connect(sys.argv[1]).execute(sys.argv[2])])",
             str(copy), "select id from tasks"],
            capture_output=True, text=True, check=True,
        ).stdout
        for copy in copies
    ]  # fmt: skip
    assert any(later in text for text in found), (home.seed, copies)
