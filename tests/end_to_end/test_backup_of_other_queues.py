"""`fleet backup` of homes whose tasks are in PostgreSQL or beads."""

import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterator

import pytest

import beads
from beads_home import BeadsHome
from postgres_home import PASSWORD, SharedHome, shared
from program import Program

__all__ = ["shared"]


@pytest.fixture
def beads_home(fleet: Program) -> Iterator[BeadsHome]:
    made = BeadsHome(fleet, beads.NEW)
    yield made
    made.stop()


def test_backup_names_the_command_for_the_database_when_the_queue_is_postgresql(shared: SharedHome) -> None:
    shared.create("ok")
    file = shared.fleet.user / "copy.tar.gz"
    told = shared.fleet("backup", str(file))
    assert told.code == 0 and "run this too: pg_dump --format=custom --file=fleet.dump 'postgresql://" in told.out
    assert PASSWORD not in told.out + told.err
    with tarfile.open(file) as tar:
        names = set(tar.getnames())
    assert "home/runtime.toml" in names and "home/fleet.db" not in names
    (line,) = [line for line in told.out.splitlines() if "pg_dump" in line]
    words = line.partition(": ")[2]
    dump = shutil.which("pg_dump")
    if dump:
        subprocess.run(["sh", "-c", words], cwd=shared.fleet.user, check=True, capture_output=True)
        assert (shared.fleet.user / "fleet.dump").stat().st_size > 1000
    assert "pg_restore" in shared.fleet.ok("restore", str(file))


def test_backup_holds_the_folder_of_bd_when_the_queue_is_beads(beads_home: BeadsHome) -> None:
    key = beads_home.create("ok")
    file = beads_home.fleet.user / "copy.tar.gz"
    told = json.loads(beads_home.fleet.ok("backup", str(file), "--json"))
    assert (told["queue"], told["to_do"]) == ("beads", [])
    later = beads_home.create("ok later=1")
    beads_home.fleet.ok("restore", str(file))
    assert beads_home.shown(key)["title"] == "ok"
    listed = {row["id"] for row in json.loads(beads_home.fleet.ok("bd", "list", "--all", "--json"))}
    assert key in listed and later not in listed
    assert len(list(beads_home.fleet.home.glob(".beads.before-*"))) == 1
