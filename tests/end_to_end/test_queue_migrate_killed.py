"""Moves killed by SIGKILL at every step. Tasks change before the next attempt, which succeeds."""

import json
from pathlib import Path

import pytest

import beads
import moves
from fleet.assembly import open_fleet
from fleet.core.host import Host
from program import Program

#: Points where a move is killed: while copying, while comparing, after the copy, and before and after the seal.
COPYING = ("fleet.store.transfer:_insert_row", "after", 3)
COMPARING = ("fleet.store.transfer:_contents", "after", 6)
COPIED = ("fleet.store.transfer:finish", "before", 1)
FINISHED = ("fleet.store.transfer:seal", "before", 1)
SEALED = ("fleet.store.transfer:release_copy", "before", 1)
LET_GO = ("fleet.actions.control.queue_move:_switch", "before", 1)
#: Points around bd's import: before, after, and once the result was checked.
NAMED = ("fleet.beads.fill:_import", "before", 1)
IMPORTED = ("fleet.beads.fill:_import", "after", 1)
FILLED = ("fleet.beads.fill:fill", "after", 1)

UNSEALED = [
    ("sqlite", "postgresql", COPYING),
    ("sqlite", "postgresql", FINISHED),
    ("sqlite", "beads", IMPORTED),
    ("postgresql", "sqlite", COMPARING),
]
#: More combinations for soak runs.
LONG = [
    *(("sqlite", "postgresql", point) for point in (COMPARING, COPIED)),
    *(("postgresql", "sqlite", point) for point in (COPYING, COPIED, FINISHED)),
    *(("beads", "postgresql", point) for point in (COPYING, COMPARING, COPIED, FINISHED)),
    *(("postgresql", "beads", point) for point in (COPYING, NAMED, IMPORTED, FILLED, FINISHED)),
    *(("sqlite", "beads", point) for point in (NAMED, FILLED)),
]


@pytest.fixture
def home(tmp_path: Path) -> Program:
    return moves.a_home(tmp_path)


def begun(home: Program, first: str) -> str:
    """Move the home's tasks to a queue of this kind. Return its place."""
    source = moves.place(first)
    if first != "sqlite":
        moves.move(home, source)
    return source


@pytest.mark.parametrize(
    ("first", "second", "point"), [*UNSEALED, *(pytest.param(*each, marks=pytest.mark.soak("queues")) for each in LONG)]
)
def test_changes_between_two_attempts_arrive_too(
    home: Program, first: str, second: str, point: tuple[str, str, int]
) -> None:
    source, target = begun(home, first), moves.place(second)
    moves.killed_move(home, target, *point)
    assert json.loads(home.ok("queue", "--json"))["kind"] == first, "nothing was switched"
    moves.change(home, source)
    before = moves.contents(home, source)
    moves.move(home, target)
    moves.check(home, target, before)


@pytest.mark.parametrize(
    ("first", "second", "point"),
    [
        ("sqlite", "postgresql", SEALED),
        ("postgresql", "sqlite", LET_GO),
        *(
            pytest.param(*each, marks=pytest.mark.soak("queues"))
            for each in (
                ("postgresql", "beads", SEALED),
                ("postgresql", "beads", LET_GO),
                ("beads", "postgresql", SEALED),
            )
        ),
    ],
)
def test_attempt_after_a_completed_copy_only_switches_over(
    home: Program, first: str, second: str, point: tuple[str, str, int]
) -> None:
    source, target = begun(home, first), moves.place(second)
    before = moves.contents(home, source)
    moves.killed_move(home, target, *point)
    elsewhere = home("queue", "migrate", moves.place("postgresql"))
    assert elsewhere.code != 0 and "were already moved elsewhere" in elsewhere.err, elsewhere
    moves.move(home, target)
    moves.check(home, target, before)
    home.ok("bd", "create", "and it can be written to")


def test_file_queue_stays_unchanged_when_bd_and_the_move_are_killed(home: Program) -> None:
    moves.killed_move(home, "beads", *IMPORTED)
    moves.change(home, "sqlite")
    before = moves.contents(home, "sqlite")
    broken = home.user / "bd"
    broken.write_text(
        f'#!/bin/sh\n[ "$1" = import ] && {{ echo Error: no >&2; exit 1; }}\nexec {beads.program()} "$@"\n'
    )
    broken.chmod(0o700)
    told = home("queue", "migrate", "beads", FLEET_BD=str(broken))
    assert told.code != 0 and "bd refused: Error: no" in told.err, told
    moves.check(home, "sqlite", before)


def test_move_survives_a_target_slower_than_the_transaction_timeout(home: Program) -> None:
    url = begun(home, "postgresql")
    slow = home.user / "bd"
    slow.write_text(f'#!/bin/sh\n[ "$1" = import ] && sleep 3\nexec {beads.program()} "$@"\n')
    slow.chmod(0o700)
    before = moves.contents(home, url)
    home.ok("config", "set", "supervisor.claim_seconds=6")  # idle transactions are ended after 1.6 s
    home.ok("queue", "migrate", "beads", FLEET_BD=str(slow))
    moves.check(home, "beads", before)


def test_move_names_another_host_that_has_the_queue_open(home: Program) -> None:
    url = begun(home, "postgresql")
    with open_fleet(moves.home_of(home), queue=url) as opened:
        host = opened.store.hosts.keep(Host(id="far-1", name="far", slots=2, seen_at=opened.store.now()))
    told = home("queue", "migrate", "sqlite")
    assert told.code != 0 and "other hosts have this queue open: far" in told.err, told
    with open_fleet(moves.home_of(home), queue=url) as opened:
        opened.store.hosts.keep(host.replace(slots=0))
    moves.move(home, "sqlite")
