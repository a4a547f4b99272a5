"""`fleet bd create`: a task records its directory, coder and model."""

import json
from pathlib import Path
from typing import Any

import pytest

from program import Program


@pytest.fixture(autouse=True)
def home(fleet: Program) -> None:
    fleet.furnish(("init", "--permissions", "user"))


def made(fleet: Program, *argv: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(fleet.ok("bd", "create", *argv, "--json"))
    return answer


def test_create_records_and_prints_the_current_directory(fleet: Program) -> None:
    out = fleet.ok("bd", "create", "--title", "Implement feature X")
    key = out.split()[1].rstrip(":")
    assert out == f"Created {key}: Implement feature X  [cwd: {fleet.cwd}]\n"
    assert json.loads(fleet.ok("bd", "show", key, "--json"))[0]["metadata"] == {"fleet.cwd": str(fleet.cwd)}


def test_new_is_an_alias_of_create_and_flt_of_fleet(fleet: Program) -> None:
    fleet.argv = [fleet.argv[0].removesuffix("fleet") + "flt"]
    assert fleet.ok("bd", "new", "the same").startswith("Created fleet-")


def test_create_pins_and_prints_coder_and_model(fleet: Program) -> None:
    out = fleet.ok("bd", "create", "--coder", "agy", "--model", "GPT-OSS 120B", "--title", "Heavy refactor")
    assert out.endswith(f"Heavy refactor  [cwd: {fleet.cwd}, coder: agy, model: GPT-OSS 120B]\n")


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["--coder", "claude"], "coder: claude, model: sonnet (default)"),
        (["--coder", "codex"], "coder: codex, model: codex's own default"),
        (["--coder", "codecs"], "coder: codex, model: codex's own default"),
        (["--coder", "my.module:Coder"], "coder: my.module:Coder, model: my.module:Coder's own default"),
        (["--workspace", "worktree"], "workspace: worktree"),
    ],
)
def test_create_prints_the_default_model_when_none_is_given(fleet: Program, argv: list[str], told: str) -> None:
    assert told in fleet.ok("bd", "create", "x", *argv)


def test_coder_described_in_settings_is_known_with_its_model(fleet: Program) -> None:
    assert fleet("bd", "create", "x", "--coder", "mine").code == 1
    fleet.ok("config", "set", "coders.mine.model=big")
    assert "coder: mine, model: big (default)" in fleet.ok("bd", "create", "x", "--coder", "mine")


def test_unknown_coder_is_refused_before_anything_is_written(fleet: Program) -> None:
    ended = fleet("bd", "create", "x", "--coder", "clude")
    assert (ended.code, ended.out) == (1, "")
    assert "unknown coder 'clude'" in ended.err and "did you mean 'claude'" in ended.err
    assert fleet.ok("bd", "list", "--all", "--json") == "[]\n"


def test_coder_of_the_environment_is_stored_unless_a_flag_overrides_it(fleet: Program) -> None:
    fleet.env |= {"FLEET_CODER": "gemini", "FLEET_MODEL": "pro"}
    assert made(fleet, "a")["metadata"]["fleet.coder"] == "gemini"
    assert made(fleet, "b", "--coder", "agy")["metadata"]["fleet.coder"] == "agy"


def test_create_accepts_another_directory(fleet: Program, tmp_path: Path) -> None:
    other = tmp_path / "it's another"
    other.mkdir()
    assert made(fleet, "x", "--cwd", str(other))["metadata"]["fleet.cwd"] == str(other)
    answer = json.loads(fleet.ok("bd", "-C", str(other), "create", "y", "--json"))
    assert answer["metadata"]["fleet.cwd"] == str(other)


def test_create_json_is_flat_or_in_an_envelope(fleet: Program) -> None:
    assert made(fleet, "x")["schema_version"] == 1
    answer = json.loads(fleet.ok("bd", "create", "y", "--json", BD_JSON_ENVELOPE="1"))
    assert answer["data"]["id"].startswith("fleet-")


def test_create_dry_run_writes_nothing(fleet: Program) -> None:
    before = fleet.ok("bd", "export")
    assert "Would create" in fleet.ok("bd", "create", "x", "--dry-run", "--coder", "codex")
    assert made(fleet, "x", "--dry-run")["id"] == ""
    assert fleet.ok("bd", "export") == before


def test_create_dry_run_creates_no_home(fleet: Program, tmp_path: Path) -> None:
    fleet.env["FLEET_HOME"] = str(tmp_path / "nowhere")
    assert fleet("bd", "create", "x", "--dry-run").code == 1
    assert not (tmp_path / "nowhere").exists()


def test_fields_of_fleet_can_be_changed_and_filtered(fleet: Program) -> None:
    key = made(fleet, "x", "--coder", "codex")["id"]
    made(fleet, "y")
    for name in ("fleet.coder=codex", f"fleet.cwd={fleet.cwd}"):
        assert key in fleet.ok("bd", "list", "--json", "--metadata-field", name)
    assert [
        row["id"] for row in json.loads(fleet.ok("bd", "list", "--json", "--metadata-field", "fleet.coder=codex"))
    ] == [key]
    fleet.ok("bd", "update", key, "--set-metadata", "fleet.coder=gemini", "--model", "pro")
    metadata = json.loads(fleet.ok("bd", "show", key, "--json"))[0]["metadata"]
    assert (metadata["fleet.coder"], metadata["fleet.model"]) == ("gemini", "pro")
    fleet.ok("bd", "update", key, "--unset-metadata", "fleet.coder")
    assert "fleet.coder" not in json.loads(fleet.ok("bd", "show", key, "--json"))[0]["metadata"]


def test_bd_program_in_the_home_works_from_any_directory(fleet: Program, tmp_path: Path) -> None:
    fleet.argv = [str(fleet.home / "bin" / "bd")]
    del fleet.env["FLEET_HOME"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    answer = json.loads(fleet.ok("create", "from an agent", "--json", cwd=elsewhere))
    assert answer["metadata"]["fleet.cwd"] == str(elsewhere)
    assert answer["id"] in fleet.ok("ready", cwd=tmp_path)


def test_ids_get_longer_when_the_queue_has_200_tasks(fleet: Program) -> None:
    rows = [{"id": f"fleet-n{number:03}", "title": f"task {number}", "priority": 2} for number in range(200)]
    fleet.ok("bd", "import", "-", stdin="\n".join(json.dumps(row) for row in rows))
    assert len(made(fleet, "x")["id"]) == len("fleet-abcd")
