"""A newer fleet takes over a home with live agents: the database is copied, brought up to date, and nothing is lost."""

import os
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

import fleet.store
from fleet.store.sqlite_connection import SCHEMA_VERSION
from projects import orders, use_shell_coder
from repositories import run_git
from supervised import wait_for
from terminals import Terminals
from terminals import home as at_home

__all__ = ["at_home"]

NEWER = SCHEMA_VERSION + 2
QUICK = "alter table runs add column mood text not null default 'calm';"
#: Long enough to be killed in.
SLOW = """
create table counted as with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 3000000)
select max(n) as most from numbers;
"""
#: Python runs it when it starts: this fleet, with two migrations more.
PATCH = """
import os
from fleet.store import named_sql, sqlite_connection
named_sql.FOLDER, sqlite_connection.SCHEMA_VERSION = os.path.join(os.path.dirname(__file__), "sql"), {newer}
"""


@pytest.fixture
def home(at_home: Terminals) -> Terminals:
    """Fleet in a small repository, whose agents do what they are told."""
    use_shell_coder(at_home)
    at_home.set("supervisor.warm_commands=false")
    return at_home


def newer_fleet(home: Terminals) -> dict[str, str]:
    """The environment in which the program is a fleet that knows two migrations more."""
    folder = home.fleet.user / "newer"
    (folder / "sql").parent.mkdir()
    subprocess.run(["cp", "-r", Path(fleet.store.__file__).parent / "sql", folder / "sql"], check=True)
    (folder / "sql" / "sqlite" / f"{NEWER - 1:04}_mood.sql").write_text(QUICK)
    (folder / "sql" / "sqlite" / f"{NEWER:04}_slow.sql").write_text(SLOW)
    (folder / "sitecustomize.py").write_text(PATCH.format(newer=NEWER))
    return home.fleet.env | {"PYTHONPATH": str(folder)}


def version(path: Path, options: str = "mode=ro") -> int:
    """The schema that a database has."""
    with closing(sqlite3.connect(f"file:{path}?{options}", uri=True, timeout=30)) as database:
        return int(database.execute("pragma user_version").fetchone()[0])


def test_live_agents_are_adopted_when_the_upgrade_was_killed_midway(home: Terminals) -> None:
    database, go = home.fleet.home / "fleet.db", home.fleet.user / "go"
    copy = Path(f"{database}.schema-{SCHEMA_VERSION}")
    older, newer = home.fleet.env, newer_fleet(home)
    steps = ("touch begun", f"while [ ! -e {go} ]; do sleep 0.1; done", "echo done > new.txt")
    made = home.told("create", "work", "--headless", "--prompt", orders(*steps))
    wait_for((Path(made["worktree"]) / "begun").exists, "its work", home.describe)
    os.kill(home.status()["pid"], signal.SIGKILL)
    wait_for(lambda: not home.status()["running"], "its end")

    home.fleet.env = newer
    home.spawn()
    wait_for(lambda: copy.exists() and version(database) == NEWER - 1, "the upgrade to be under way")
    time.sleep(0.05)
    home.kill()
    assert version(database) == NEWER - 1 and version(copy, "immutable=1") == SCHEMA_VERSION
    home.spawn()
    wait_for(lambda: version(database) == NEWER, "the upgrade", home.describe)
    wait_for(lambda: any("adopted" in line["event"] for line in home.log_lines()), "its adoption", home.describe)
    go.touch()
    home.wait_status(made["task"], "closed")
    assert [(run["ending"], run["mood"]) for run in home.runs(made["task"])] == [("finished", "calm")]
    assert run_git(home.repo, "show", "work:new.txt") == "done"
    assert [each.name for each in home.fleet.home.glob("fleet.db.*")] == [copy.name]
    home.fleet.ok("run", "stop")
    assert home.process is not None and home.process.wait(30) == 0

    home.fleet.env = older
    for words in (("tasks",), ("run", "foreground"), ("create", "more", "--headless", "--prompt", "x")):
        refused = home.fleet(*words)
        assert refused.code == 1 and f"has schema {NEWER}" in refused.err and str(copy) in refused.err, (words, refused)
    (command,) = [part for part in refused.err.split("`") if part.startswith("rm -f ")]
    subprocess.run(["sh", "-c", command], check=True)
    assert made["task"] in home.fleet.ok("bd", "list", "--all")
    assert run_git(home.repo, "show", "work:new.txt") == "done"
