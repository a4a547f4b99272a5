"""A newer fleet takes over a home with live agents: the database is copied and upgraded, and nothing is lost."""

import io
import os
import random
import signal
import sqlite3
import subprocess
import tarfile
import time
from contextlib import closing
from pathlib import Path

import pytest

import fleet.store
from fleet.store.sqlite.connection import SCHEMA_VERSION
from needs import require
from projects import at_work_on, orders, use_shell_coder
from repositories import run_git
from supervised import wait_for
from terminals import Terminals
from terminals import home as at_home

__all__ = ["at_home"]

ROOT = Path(__file__).parents[2]
#: A commit whose databases have schema 7.
OLDER, OLDER_SCHEMA = "3d8cdc5c", 7
NEWER = SCHEMA_VERSION + 2
QUICK = "alter table runs add column mood text not null default 'calm';"
#: A migration slow enough to be killed in.
SLOW = """
create table counted as with recursive numbers (n) as (select 1 union all select n + 1 from numbers where n < 3000000)
select max(n) as most from numbers;
"""
#: Python runs this at its start: it turns this fleet into one with two more migrations.
PATCH = """
import os
from fleet.store import named_sql
from fleet.store.sqlite import connection
named_sql.FOLDER, connection.SCHEMA_VERSION = os.path.join(os.path.dirname(__file__), "sql"), {newer}
"""


@pytest.fixture
def home(at_home: Terminals) -> Terminals:
    """Return fleet in a small repository, whose agents run the shell lines of their prompts."""
    use_shell_coder(at_home)
    return at_home


def newer_fleet(home: Terminals) -> dict[str, str]:
    """Return the environment that turns the program into a fleet with two more migrations."""
    folder = home.fleet.user / "newer"
    (folder / "sql").parent.mkdir()
    subprocess.run(["cp", "-r", Path(fleet.store.__file__).parent / "sql", folder / "sql"], check=True)
    (folder / "sql" / "sqlite" / f"{NEWER - 1:04}_mood.sql").write_text(QUICK)
    (folder / "sql" / "sqlite" / f"{NEWER:04}_slow.sql").write_text(SLOW)
    (folder / "sitecustomize.py").write_text(PATCH.format(newer=NEWER))
    return home.fleet.env | {"PYTHONPATH": str(folder)}


def older_fleet(home: Terminals) -> dict[str, str]:
    """Return the environment that turns the program into the fleet of an older commit."""
    packed = subprocess.run(["git", "-C", str(ROOT), "archive", OLDER, "src"], capture_output=True, check=False)
    if packed.returncode and run_git(ROOT, "rev-parse", "--is-shallow-repository", check=False) != "false":
        pytest.skip("not exercised: a shallow clone has no history")
    require(packed.returncode == 0, "the history of the repository")
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(home.fleet.user / "older", filter="data")
    return home.fleet.env | {"PYTHONPATH": str(home.fleet.user / "older" / "src")}


def version(path: Path, options: str = "mode=ro") -> int:
    """Return the schema version of a database."""
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


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.soak("kills"))])
def test_agents_of_an_older_fleet_finish_when_this_one_is_killed(at_home: Terminals, kills: int) -> None:
    home, go = at_home, at_home.fleet.user / "go"
    home.seed = int(os.environ.get("FLEET_SEED", time.time_ns() % 10**9))
    chance = random.Random(home.seed)
    use_shell_coder(home)
    (home.fleet.home / "fleet.db").unlink()  # this fleet made it
    newer, home.fleet.env = home.fleet.env, older_fleet(home)
    home.fleet.ok("init", "--home")
    home.start()  # the older fleet gives up early on a slow start
    steps = ("touch begun", "echo draft > draft.txt", f"while [ ! -e {go} ]; do sleep 0.1; done", "echo done > new.txt")
    made = [home.told("create", name, "--headless", "--prompt", orders(*steps)) for name in ("one", "two")]
    keys, trees = [each["task"] for each in made], [Path(each["worktree"]) for each in made]
    wait_for(lambda: all((tree / "draft.txt").exists() for tree in trees), "their work", home.describe)
    assert version(home.fleet.home / "fleet.db") == OLDER_SCHEMA
    living = at_work_on(home.fleet.user / "shell-agent")
    os.kill(home.status()["pid"], signal.SIGKILL)
    wait_for(lambda: not home.status()["running"], "its end")

    home.fleet.env = newer
    for _ in range(kills):
        home.spawn()
        time.sleep(chance.uniform(0, 1.5))
        home.kill()
        assert at_work_on(home.fleet.user / "shell-agent") == living, home.describe()
    home.start()
    wait_for(lambda: version(home.fleet.home / "fleet.db") == SCHEMA_VERSION, "the upgrade", home.describe)
    go.touch()
    home.wait_all(keys, "closed")
    assert [[run["ending"] for run in home.runs(key)] for key in keys] == [["finished"], ["finished"]]
    for name in ("one", "two"):
        assert [run_git(home.repo, "show", f"{name}:{file}") for file in ("draft.txt", "new.txt")] == ["draft", "done"]
    assert version(Path(f"{home.fleet.home}/fleet.db.schema-{OLDER_SCHEMA}"), "immutable=1") == OLDER_SCHEMA
