"""Calls of a bd: the right program and environment, retries if it is busy, and timeouts."""

import os
import stat
from pathlib import Path

import pytest

from fleet.beads import folder as beads_folder
from fleet.beads import program
from fleet.beads.program import Answer, Bd, BdRefusal, bd_environment, find_program, is_fenced, objects, version_of
from fleet.core.errors import StoreAway
from supervised import wait_for


def a_program(folder: Path, text: str, name: str = "bd") -> str:
    """Write a program in place of bd, for tests where only its end matters. Return its path."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def asked(tmp_path: Path, text: str, patience: float = 5.0) -> Bd:
    (tmp_path / ".beads").mkdir()
    return Bd(a_program(tmp_path / "bin", text), str(tmp_path / ".beads"), patience=patience)


def test_busy_bd_is_asked_again(tmp_path: Path) -> None:
    counted = "n=$(cat count 2>/dev/null || echo 0); echo $((n+1)) > count"
    bd = asked(tmp_path, f'{counted}\n[ $n -lt 2 ] && {{ echo "Error 1213" >&2; exit 1; }}\necho fine')
    assert bd.run("list") == "fine\n" and (tmp_path / "count").read_text() == "3\n"


def test_bd_is_away_when_it_stays_busy_and_is_asked_once_when_it_refuses(tmp_path: Path) -> None:
    with pytest.raises(StoreAway, match="database is locked"):
        asked(tmp_path, "echo 'Error: database is locked' >&2; exit 1", patience=0.3).run("list")
    said = a_program(tmp_path / "bin", 'echo x >> asked; echo \'{"error":"no such issue"}\'; exit 1', "no")
    with pytest.raises(BdRefusal, match="no such issue") as error:
        Bd(said, str(tmp_path / ".beads")).run("show", "x")
    assert not error.value.guarded and (tmp_path / "asked").read_text() == "x\n"


def test_failed_guard_raises_its_own_error(tmp_path: Path) -> None:
    with pytest.raises(BdRefusal) as error:
        asked(tmp_path, "exit 13").run("update")
    assert error.value.guarded


def is_dead(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_hanging_bd_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "LONGEST", 0.3)
    bd = asked(tmp_path, "sleep 300 & echo $! > child; wait")
    with pytest.raises(StoreAway, match="took longer"):
        bd.run("list")
    child = int((tmp_path / "child").read_text())
    wait_for(lambda: is_dead(child), "what it started to be gone: the kernel takes a moment")


def test_arguments_and_input_arrive_unchanged_and_no_fleet_variable_leaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BD_JSON_ENVELOPE", "1")
    monkeypatch.setenv("FLEET_RUN_TOKEN", "secret")
    monkeypatch.setenv("CLAUDE_CODE", "1")
    bd = asked(tmp_path, 'printf "%s|" "$@"; cat; env | sort')
    said = bd.run("update", "--title=$(touch pwned) `x` \n;", actor="ada", text="in\n")
    assert said.startswith("update|--title=$(touch pwned) `x` \n;|in\n")
    assert "BEADS_ACTOR=ada" in said and f"BEADS_DIR={tmp_path}/.beads" in said
    assert "secret" not in said and "ENVELOPE" not in said and "CLAUDE" not in said
    assert not (tmp_path / "pwned").exists()


def test_real_bd_is_found_and_not_the_one_of_fleet(tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    a_program(ours, "# Written by fleet; agents call it.\nexit 0")
    real = a_program(tmp_path / "real", "exit 0")
    env = {"PATH": f"{ours}:{tmp_path}/none:relative:{tmp_path}/real"}
    assert find_program(env) == real
    other = a_program(tmp_path / "other", "exit 0")
    assert find_program(env | {"FLEET_BD": other}) == other
    assert find_program(env | {"FLEET_BD": other, "FLEET_RUN_TOKEN": "t"}) == real
    assert find_program(env | {"FLEET_RUN_TOKEN": "t"}, known=other) == other
    with pytest.raises(StoreAway, match="bd is not on PATH") as error:
        find_program({"PATH": str(ours)})
    assert "FLEET_BD" in error.value.hint


def test_bd_family_follows_from_the_commands_it_offers() -> None:
    assert is_fenced("  --if-assignee string  Apply only if") and not is_fenced("--assignee string")
    assert version_of('{"version": "1.3.0"}') == version_of('{"data": {"version": "1.3.0"}}') == "1.3.0"
    assert version_of("bd version 1") == ""


def test_output_of_bd_is_parsed_in_each_form() -> None:
    assert objects('[{"id": "a"}, 1]') == objects('{"data": [{"id": "a"}]}') == [{"id": "a"}]
    assert objects("no json") == []
    assert Answer(1, "", 'Error: x\n{"error": "last", "failed": []}').fault == "last"
    assert Answer(1, "", "warning: w\nError: boom\n").fault == "Error: boom"
    assert Answer(3, "", "").fault == "exit code 3"


def test_only_variables_that_bd_needs_are_passed_on() -> None:
    found = bd_environment(
        {"PATH": "/bin", "BEADS_DOLT_PASSWORD": "p", "BD_ACTOR": "x", "OTHER": "y"}, "/h/.beads", "a"
    )
    assert found["PATH"] == "/bin" and found["BEADS_DOLT_PASSWORD"] == "p" and found["BEADS_ACTOR"] == "a"
    assert not {"BD_ACTOR", "OTHER"} & set(found)


def a_folder(tmp_path: Path) -> Path:
    noms = tmp_path / ".beads" / "embeddeddolt" / "fleet" / ".dolt" / "noms"
    noms.mkdir(parents=True)
    (noms / "manifest").write_text("5:__DOLT__:root")
    (noms / ("v" * 32)).write_bytes(b"1")
    return noms


def test_fingerprint_changes_with_writes_and_not_with_reads(tmp_path: Path) -> None:
    noms, folder = a_folder(tmp_path), str(tmp_path / ".beads")
    before = beads_folder.fingerprint(folder)
    os.utime(noms / "manifest")
    assert beads_folder.fingerprint(folder) == before
    (noms / ("v" * 32)).write_bytes(b"12")  # killed before it wrote the root
    grown = beads_folder.fingerprint(folder)
    (noms / "manifest").write_text("5:__DOLT__:other")
    assert len({before, grown, beads_folder.fingerprint(folder)}) == 3
    assert beads_folder.fingerprint(str(tmp_path)) == ""


def test_listening_calls_after_a_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    monkeypatch.setattr(beads_folder, "LOOK_EVERY", 0.01)
    noms, called = a_folder(tmp_path), threading.Event()
    with beads_folder.listen_for_writes(str(tmp_path / ".beads"), called.set):
        assert not called.wait(0.05)
        (noms / "manifest").write_text("5:__DOLT__:other")
        assert called.wait(5)


def test_turns_are_exclusive_and_waited_for_with_a_limit(tmp_path: Path) -> None:
    folder = str(tmp_path / ".beads")
    with beads_folder.hold_turn(folder):
        os.close(beads_folder.take_turn(folder, seconds=0.05))
    assert stat.S_IMODE(Path(f"{folder}.lock").stat().st_mode) == 0o600
