"""`fleet run restart` beside large logs: the size of the logs affects neither its end nor its start."""

import json
import os
import shutil
from pathlib import Path

from repositories import run_git
from supervised import Supervised, commands, home, wait_for

__all__ = ["home"]

GIB = 1 << 30
#: A git that never finishes reading a worktree, as real git takes long to read large files.
ENDLESS = """#!/bin/sh
for word; do
    if [ "$word" = update-index ] && [ -e {armed} ]; then
        touch {reading}
        exec sleep 98765
    fi
done
exec {git} "$@"
"""


def test_stop_does_not_wait_for_a_git_that_reads_large_files(home: Supervised, tmp_path: Path) -> None:
    armed, reading, bin = tmp_path / "armed", tmp_path / "reading", tmp_path / "bin"
    repo = tmp_path / "repo"
    run_git(tmp_path, "init", "-q", "repo")
    run_git(repo, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--allow-empty", "-qm", "first")
    bin.mkdir()
    (bin / "git").write_text(ENDLESS.format(armed=armed, reading=reading, git=shutil.which("git")))
    (bin / "git").chmod(0o755)
    home.fleet.env["PATH"] = f"{bin}:{home.fleet.env['PATH']}"
    home.fleet.ok("run", "start")
    words = ("create", "work", "--headless", "--prompt", f"do: ok until={home.go}", "--json")
    made = json.loads(home.fleet.ok(*words, cwd=repo))
    home.wait_started(1)
    (tree,) = (Path(row["path"]) for row in home.rows("select path from workspaces"))
    armed.touch()
    (tree / "large.log").write_text("as if it were very large")
    home.go.touch()
    wait_for(reading.exists, "git to read", home.describe)
    stopped = home.fleet("run", "stop")
    assert (stopped.code, stopped.out) == (0, "supervisor stopped\n"), stopped
    assert not [pid for pid, words in commands() if words[:2] == [b"sleep", b"98765"]]
    armed.unlink()
    home.fleet.ok("run", "start")
    wait_for(lambda: home.task(made["task"])["status"] in ("closed", "blocked"), "its end", home.describe)
    assert run_git(repo, "show", "work:large.log") == "as if it were very large"
    home.fleet.ok("run", "stop", "--stop-agents")


def test_restart_does_not_read_large_logs(home: Supervised) -> None:
    key = home.create(f"ok until={home.go}")
    home.fleet.ok("run", "start")
    home.wait_started(1)
    folder = home.fleet.home / "tasks" / key
    wait_for((folder / "events.jsonl").exists, "its first event", home.describe)
    logs = [*(folder / name for name in ("log.jsonl", "events.jsonl", "log.stderr"))]
    for path in [*logs, *(home.fleet.home / "logging").iterdir()]:
        path.touch()
        os.truncate(path, GIB)  # sparse files that use no space
    home.fleet.ok("run", "restart")
    pid = json.loads(home.fleet.ok("run", "status", "--json"))["pid"]
    home.go.touch()
    home.wait_status(key, "closed")
    assert bytes_read(pid) < GIB / 8
    home.fleet.ok("run", "stop")


def bytes_read(pid: int) -> int:
    lines = Path(f"/proc/{pid}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("rchar:"))
