"""`fleet bd export` into the real bd, and the real bd's export into fleet: neither direction loses anything."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

import beads
import moves
from program import Program


@pytest.mark.parametrize("version", beads.VERSIONS)
def test_export_of_fleet_survives_a_trip_through_the_real_bd(tmp_path: Path, version: str) -> None:
    home = moves.a_home(tmp_path)
    home.env["FLEET_BD"] = beads.program(version)
    beads.beads_in(home.home, version)
    piped(home, [*home.argv, "bd", "export"], [beads.program(version), "import", "-"])
    assert once(moves.real(home)) == once(moves.told(home))
    moves.ask_bd(home, "close", "fleet-late", "--reason", "done in bd", "--force")
    moves.ask_bd(home, "comment", "fleet-ran", "said in bd")
    moves.ask_bd(home, "create", "made in bd", "--id", "fleet-new", "--deps", "fleet-ran", "-l", "bd")
    piped(home, [beads.program(version), "export"], [*home.argv, "bd", "import", "-"])
    assert once(moves.told(home)) == once(moves.real(home))
    assert moves.told(home)["fleet-late"][1] == "closed" and "fleet-new" in moves.told(home)


def piped(home: Program, one: list[str], other: list[str]) -> None:
    """Pipe one program's output into another, as `|` does."""
    env = home.env | {"BEADS_DIR": f"{home.home}/.beads", "BD_DISABLE_METRICS": "1", "BD_NON_INTERACTIVE": "1"}
    with subprocess.Popen(one, env=env, cwd=home.cwd, stdout=subprocess.PIPE) as first:
        done = subprocess.run(other, env=env, cwd=home.cwd, stdin=first.stdout, capture_output=True, text=True)
        assert first.wait(60) == 0 and done.returncode == 0, done


def once(told: dict[str, Any]) -> dict[str, Any]:
    """Return the tasks with duplicate comments removed, because bd merges equal comments within a second."""
    return {key: (*each[:5], sorted(set(each[5])), each[6]) for key, each in told.items()}
