"""A `fleet.db` of another program stays unchanged byte for byte, and every command names the remedy."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from program import Program
from repositories import make_repository

#: The columns of codefleet's tables that matter here.
CODEFLEETS = """
create table workers (worker_id text primary key, task_name text, repo_path text, branch_name text, status text);
create table workflows (workflow_id text primary key, name text, status text, stages_json text);
insert into workers values ('w_0123456789ab', 'auth', '/repo', 'codex/auth/w_0123456789ab', 'running');
"""
NOTES = "create table notes (id integer primary key, body text); insert into notes (body) values ('x');"
COMMANDS = (
    *(
        "init --home",
        "bd create x",
        "bd list",
        "list",
        "tasks",
        "run foreground",
        "run start",
        "run status",
        "run stop",
    ),
    *("config set coder=demo", "doctor", "create work --prompt x", "backup copy.tar.gz", "restore copy.tar.gz"),
    *("wait --all", "queue", "kill x", "gc", "workflow list", "mcp", "demo"),
)


def fill(path: Path, script: str, *, version: int = 0, log: bool = False) -> None:
    """Create a database as its program leaves it. With `log`, most data is in the write-ahead log, as after a kill."""
    path.parent.mkdir(parents=True)
    path.parent.chmod(0o755)
    with closing(sqlite3.connect(path)) as database:
        database.execute("pragma journal_mode = wal" if log else "pragma journal_mode = delete")
        database.executescript(f"pragma user_version = {version}; {script}")
        kept = {name: Path(name).read_bytes() for name in (f"{path}", f"{path}-wal") if Path(name).exists()}
    for name, data in kept.items():
        Path(name).write_bytes(data)


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Return modes and bytes of everything in a folder."""
    paths = [folder, *folder.rglob("*")]
    return {str(path): (path.stat().st_mode, b"" if path.is_dir() else path.read_bytes()) for path in paths}


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(("script", "owner"), [(CODEFLEETS, "codefleet"), (NOTES, "another program")])
def test_folder_of_another_program_stays_unchanged(fleet: Program, script: str, owner: str, log: bool) -> None:
    folder = fleet.user / ".codex-fleet"
    fill(folder / "fleet.db", script, log=log)
    (folder / "workers" / "w_0123456789ab").mkdir(parents=True)
    (folder / "workers" / "w_0123456789ab" / "meta.json").write_text("{}")
    before = everything(folder)
    del fleet.env["FLEET_HOME"]
    fleet.env["FLEET_BASE_DIR"] = str(folder)
    repo = make_repository(fleet.cwd / "repo")
    for words in COMMANDS:
        refused = fleet(*words.split(), cwd=repo)
        said = " ".join((refused.out + refused.err).split())
        assert everything(folder) == before, (words, refused)
        if words in ("run stop", "restore copy.tar.gz", "config set coder=demo", "demo"):
            continue
        assert refused.code == 1, (words, refused)
        assert f"database of {owner}" in said and "FLEET_HOME" in said, (words, refused)
        assert "Traceback" not in said and "bug" not in said, (words, refused)
    fleet.ok("bd", "create", "x", FLEET_HOME=str(fleet.home))
    assert everything(folder) == before


@pytest.mark.parametrize("version", [0, 8, 99])
def test_database_of_another_program_in_a_home_stays_unchanged(fleet: Program, version: int) -> None:
    fleet.ok("init", "--home", "--permissions", "user")
    path = fleet.home / "fleet.db"
    path.rename(fleet.user / "aside.db")
    fill(fleet.user / "other" / "x.db", NOTES, version=version)
    data = (fleet.user / "other" / "x.db").read_bytes()
    path.write_bytes(data)
    for words in ("init --home", "bd create x", "bd list", "run foreground", "doctor"):
        refused = fleet(*words.split())
        said = " ".join((refused.out + refused.err).split())
        assert refused.code == 1 and "database of another program" in said, (words, refused)
        assert path.read_bytes() == data and not (fleet.home / "fleet.db-wal").exists()
    (fleet.user / "aside.db").replace(path)
    fleet.ok("bd", "create", "x")
