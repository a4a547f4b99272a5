"""Tasks that bd cannot hold: named before a move creates anything, and by every command that would write them."""

import json
from pathlib import Path

import pytest

import beads
import moves
from builders import a_task
from fleet.assembly import open_fleet
from program import Program

NS = 1794994930026341016
FACT = f"(metadata ns is {NS} and would become 1794994930026341120)"


@pytest.fixture
def home(tmp_path: Path) -> Program:
    return moves.a_home(tmp_path)


def left_in(home: Program) -> set[str]:
    return {path.name for path in home.home.iterdir() if path.name.startswith((".beads", "fleet.db"))}


@pytest.mark.parametrize("first", ["sqlite", "postgresql"])
def test_move_names_all_unfit_tasks_and_creates_nothing(home: Program, first: str) -> None:
    source = moves.place(first)
    if first != "sqlite":
        moves.move(home, source)
        for path in home.home.glob("fleet.db*"):
            path.unlink()
    lines = [{"id": "odd-1", "title": "odd", "metadata": {"ns": NS}}, {"id": "long-1", "title": "ü" * 300}]
    home.ok("bd", "import", "-", stdin="".join(f"{json.dumps(line)}\n" for line in lines))
    before, files = moves.contents(home, source), left_in(home)
    for words in ((), ("--dry-run",)):
        told = home("queue", "migrate", "beads", *words)
        assert told.code == 1 and f"odd-1 {FACT}" in told.err, told
        assert "long-1 (its title has 600 bytes; the maximum is 500)" in told.err
        assert "as text" in told.err and "shorten the title" in told.err and "Traceback" not in told.err
        assert left_in(home) == files
    moves.check(home, source, before)
    home.ok("bd", "update", "odd-1", "--metadata", json.dumps({"ns": str(NS)}))
    home.ok("bd", "update", "long-1", "--title", "ü" * 250)
    moves.move(home, "beads")
    moves.move(home, "sqlite")
    [odd] = json.loads(home.ok("bd", "show", "odd-1", "--json"))
    assert odd["metadata"]["ns"] == str(NS)


def test_move_shows_the_difference_when_bd_stores_something_else(home: Program) -> None:
    plain, liar = home.env["FLEET_BD"], home.user / "bd"
    with open_fleet(moves.home_of(home)) as fleet:
        fleet.store.tasks.add(a_task(id="odd-1", title="as it was", metadata={"n": 7}))
    lies = r's/"as it was"/"otherwise"/; s/"n": 7/"n": 8/'
    liar.write_text(
        f'#!/bin/sh\nif [ "$1" = import ]; then sed \'{lies}\' | "{plain}" "$@"; else exec "{plain}" "$@"; fi\n'
    )
    liar.chmod(0o700)
    told = home("queue", "migrate", "beads", FLEET_BD=str(liar))
    words = "(odd-1: title is 'as it was' here and 'otherwise' in bd, metadata n is 7 here and 8 in bd)"
    assert told.code == 1 and f"the tasks were not copied completely: 1 differ there {words}" in told.err, told


@pytest.mark.parametrize("version", beads.VERSIONS)
def test_command_refuses_a_number_that_bd_would_change(fleet: Program, version: str) -> None:
    fleet.env |= {"FLEET_BD": beads.program(version), "BD_DISABLE_METRICS": "1"}
    fleet.ok("init", "--home", "--permissions", "skip", "--queue", "beads")
    refused = fleet("bd", "create", "odd", "--id", "fleet-odd", "--metadata", json.dumps({"ns": NS}))
    assert refused.code == 1 and f"bd cannot hold fleet-odd {FACT}" in refused.err, refused
    assert json.loads(fleet.ok("bd", "list", "--json")) == []
    fleet.ok("bd", "create", "odd", "--id", "fleet-odd", "--metadata", json.dumps({"ns": str(NS)}))
    said = fleet.cwd / "said.json"
    said.write_text(json.dumps({"ns": NS}))
    for words in (
        ("--metadata", json.dumps({"ns": NS})),
        (f"--metadata={json.dumps({'ns': NS})}",),
        ("--metadata", f"@{said}"),
        ("--set-metadata", f"ns={NS}"),
        (f"--set-metadata=ns={NS}",),
    ):
        refused = fleet("bd", "update", "fleet-odd", *words)
        assert refused.code == 1 and f"bd cannot hold this {FACT}" in refused.err, refused
    fleet.ok("bd", "update", "fleet-odd", "--metadata", '{"n": 7}')
    fleet.ok("bd", "update", "fleet-odd", "--set-metadata", "team=9 ' nine")
    [shown] = json.loads(fleet.ok("bd", "show", "fleet-odd", "--json"))
    assert (shown["metadata"]["ns"], shown["metadata"]["team"]) == (str(NS), "9 ' nine")
