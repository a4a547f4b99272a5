"""Whole homes moved between every two kinds of queue: each table and the real bd's answers are compared."""

from itertools import permutations
from pathlib import Path

import psycopg
import pytest

import beads
import moves
from program import Program

#: Tables that the home of this test fills; others have no rows here.
TABLES = ("tasks", "edges", "labels", "comments", "runs", "receipts", "questions", "workspaces", "messages", "tails")
#: With SQLite at one end, each kind of queue is read and written whole.
PAIRS = [
    pytest.param(*pair, marks=() if "sqlite" in pair else pytest.mark.soak("queues"))
    for pair in permutations(moves.KINDS, 2)
]


@pytest.fixture
def home(tmp_path: Path) -> Program:
    return moves.a_home(tmp_path)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_complete_home_arrives_whole(home: Program, first: str, second: str) -> None:
    source, target = moves.place(first), moves.place(second)
    before = moves.contents(home, "sqlite")
    assert all(before[name].rows for name in TABLES), before
    if first != "sqlite":
        moves.move(home, source)
        moves.check(home, source, before)
    moved = moves.move(home, target)
    assert moved["moved"] and moved["tables"]["tasks"] == 8
    moves.check(home, target, before)


@pytest.mark.parametrize("version", beads.VERSIONS)
@pytest.mark.parametrize("first", ["sqlite", pytest.param("postgresql", marks=pytest.mark.soak("queues"))])
def test_tasks_changed_outside_replace_the_old_ones_when_moved_back_to_beads(
    home: Program, first: str, version: str
) -> None:
    home.env["FLEET_BD"] = beads.program(version)
    source = moves.place(first)
    moves.begin_ids_with(home, "mine")
    if first != "sqlite":
        moves.move(home, source)
    moves.move(home, "beads")
    assert "mine" in moves.ask_bd(home, "config", "get", "issue_prefix")
    home.ok("bd", "comment", "fleet-epic", "said in bd, which numbers it itself")
    moves.move(home, source)
    moves.change(home, source)
    before = moves.contents(home, source)
    told = moves.move(home, "beads")
    assert ".beads.before-" in told["set_aside"], "what bd alone had is kept"
    moves.check(home, "beads", before)
    moves.move(home, "sqlite")
    moves.check(home, "sqlite", before)


def test_move_switches_nothing_when_the_copy_differs(home: Program) -> None:
    url, before = moves.place("postgresql"), moves.contents(home, "sqlite")
    Program(home.user).ok("init", "--home", "--permissions", "skip", FLEET_QUEUE=url)
    with psycopg.connect(url, autocommit=True) as link:
        link.execute("create function fleet.lost() returns trigger language plpgsql as 'begin return null; end'")
        link.execute("create trigger lost before insert on fleet.comments for each row execute function fleet.lost()")
    told = home("queue", "migrate", url)
    assert told.code != 0 and "comments was not copied completely: 9 rows sent, 0 received" in told.err, told
    moves.check(home, "sqlite", before)
    home.ok("bd", "create", "and it can be written to")


def a_liar(home: Program, verb: str) -> str:
    """Return a bd that changes one comment when it imports or exports."""
    said, plain = 's/"text": *"again 0"/"text":"otherwise"/', home.env["FLEET_BD"]
    words = f'sed \'{said}\' | "{plain}" "$@"' if verb == "import" else f'"{plain}" "$@" | sed \'{said}\''
    liar = home.user / "bd"
    liar.write_text(f'#!/bin/sh\nif [ "$1" = {verb} ]; then {words}; else exec "{plain}" "$@"; fi\n')
    liar.chmod(0o700)
    return str(liar)


def test_move_switches_nothing_when_bd_imports_a_difference(home: Program) -> None:
    before = moves.contents(home, "sqlite")
    told = home("queue", "migrate", "beads", FLEET_BD=a_liar(home, "import"))
    assert (
        told.code != 0 and "the tasks were not copied completely: 1 differ there (fleet-epic: comments)" in told.err
    ), told
    moves.check(home, "sqlite", before)
    moves.move(home, "beads")
    moves.check(home, "beads", before)


def test_move_away_is_refused_when_bd_exports_a_difference(home: Program) -> None:
    before = moves.contents(home, "sqlite")
    moves.move(home, "beads")
    moves.check(home, "beads", before)
    told = home("queue", "migrate", "sqlite", FLEET_BD=a_liar(home, "export"))
    assert (
        told.code != 0 and "the tasks were not copied completely: 1 differ there (fleet-epic: comments)" in told.err
    ), told
    moves.check(home, "beads", before)


def test_beads_database_with_other_tasks_is_left_alone(home: Program) -> None:
    before = moves.contents(home, "sqlite")
    beads.beads_in(home.home)
    moves.ask_bd(home, "create", "somebody's own", "--id", "fleet-own")
    told = home("queue", "migrate", "beads")
    assert told.code != 0 and "beads already contains other tasks: fleet-own" in told.err, told
    moves.check(home, "sqlite", before)
    assert list(moves.real(home)) == ["fleet-own"]


def test_move_names_the_prefix_when_ids_in_bd_begin_differently(home: Program) -> None:
    beads.beads_in(home.home)
    moves.begin_ids_with(home, "mine")
    told = home("queue", "migrate", "beads")
    assert told.code != 0 and "ids begin with mine in this queue and with fleet in bd" in told.err, told
