"""`fleet run start` with an unusable database: it prints the cause, and no command creates a new database."""

import os
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from postgres import server
from postgres_home import SharedHome
from program import Program, Result
from supervised import Supervised, commands, environment, home

__all__ = ["home"]

Damage = Callable[[Path], object]
DAMAGES: dict[str, Damage] = {
    "cut in the middle": lambda path: os.truncate(path, path.stat().st_size // 2),
    "cut within its first page": lambda path: os.truncate(path, 300),
    "emptied": lambda path: os.truncate(path, 0),
    "overwritten": lambda path: path.write_bytes(b"\0" * path.stat().st_size),
    "another file": lambda path: path.write_text("no database at all\n" * 100),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_start_prints_the_cause_when_the_database_is_damaged(home: Supervised, damage: Damage) -> None:
    key = home.create("ok")
    (home.fleet.home / "tasks" / key).mkdir()
    damage_database(home, damage)
    damaged = (home.fleet.home / "fleet.db").read_bytes()
    started = home.fleet("run", "start")
    assert started.code == 1 and "started" not in started.out
    assert "database" in started.err and "fleet restore" in started.err
    assert not supervisors(home)
    for words in (("tasks",), ("list",), ("doctor",), ("ready",), ("init",), ("bd", "create", "x"), ("run", "restart")):
        asked = home.fleet(*words)
        assert asked.code != 0 and "fleet restore" in said(asked), (words, asked)
        assert "fleet init" not in said(asked) and "move the file" not in said(asked), (words, asked)
    assert (home.fleet.home / "fleet.db").read_bytes() == damaged


def test_start_confirms_only_when_the_database_has_answered(home: Supervised) -> None:
    started = home.fleet("run", "start")
    assert started.code == 0 and "supervisor started: pid" in started.out
    assert home.rows("select id from hosts"), "the first thing that a supervisor writes"
    assert home.fleet("run", "stop").code == 0


def test_start_prints_the_cause_when_postgresql_is_unreachable(fleet: Program) -> None:
    shared = SharedHome(fleet, server().make_database())
    fleet.env["FLEET_QUEUE"] = "postgresql://fleet@127.0.0.1:1/nothing"
    started = fleet("run", "start")
    assert started.code == 1 and "started" not in started.out
    assert "cannot be reached" in started.err and "fleet run stop" in started.err
    assert len(supervisors(shared)) == 1  # the supervisor waits
    assert fleet("run", "stop").code == 0


def test_start_prints_the_cause_when_rights_in_postgresql_are_revoked(fleet: Program) -> None:
    url = server().make_database()
    shared = SharedHome(fleet, url)
    with psycopg.connect(url, autocommit=True) as link:
        link.execute("drop role if exists reader")
        link.execute("create role reader login")
        link.execute("grant usage on schema fleet to reader")
        link.execute("grant select on all tables in schema fleet to reader")
    fleet.env["FLEET_QUEUE"] = url.replace("fleet@", "reader@")
    started = fleet("run", "start")
    assert started.code == 1 and "started" not in started.out
    assert "permission denied" in started.err and "check the permissions" in started.err
    assert not supervisors(shared)
    with psycopg.connect(url, autocommit=True) as link:
        link.execute("drop owned by reader")
        link.execute("drop role reader")


def damage_database(home: Supervised, damage: Damage) -> None:
    """Damage the file like a truncated copy: without a write-ahead log beside it."""
    path = home.fleet.home / "fleet.db"
    home.fleet.ok("tasks")
    for name in ("fleet.db-wal", "fleet.db-shm"):
        (home.fleet.home / name).unlink(missing_ok=True)
    damage(path)


def supervisors(home: Supervised) -> list[int]:
    mark = [b"-m", b"fleet", b"run", b"foreground"]
    found = [pid for pid, words in commands() if words[2:6] == mark]
    return [pid for pid in found if b"FLEET_HOME=" + bytes(home.fleet.home) in environment(pid)]


def said(result: Result) -> str:
    return result.out + result.err
