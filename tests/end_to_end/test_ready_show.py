"""`fleet ready` and `fleet show`, as documented by sermakarevich/fleet."""

import json

import pytest

from program import Program


@pytest.fixture(autouse=True)
def home(fleet: Program) -> None:
    fleet.furnish(("init", "--permissions", "user"))


def make(fleet: Program, *argv: str) -> str:
    return str(json.loads(fleet.ok("bd", "create", *argv, "--json"))["id"])


def test_ready_lists_id_title_and_cwd_most_urgent_first(fleet: Program) -> None:
    later, first = make(fleet, "later"), make(fleet, "first", "-p", "0")
    make(fleet, "waits", "--deps", later)
    lines = fleet.ok("ready").splitlines()
    assert [line.split()[0] for line in lines] == [first, later]
    assert all(f"[cwd: {fleet.cwd}]" in line for line in lines)
    assert fleet.ok("ready", "--limit", "1").splitlines() == lines[:1]


def test_ready_reports_when_nothing_is_ready(fleet: Program) -> None:
    ended = fleet("ready")
    assert (ended.code, ended.out, ended.err) == (0, "", "nothing is ready\n")
    assert json.loads(fleet.ok("ready", "--json")) == []


def test_ready_and_show_print_the_json_of_bd(fleet: Program) -> None:
    key = make(fleet, "x")
    assert fleet.ok("ready", "--json") == fleet.ok("bd", "ready", "--json")
    fleet.ok("config", "set", "host.name=box")
    (shown,) = json.loads(fleet.ok("bd", "show", key, "--json"))
    assert fleet.ok("show", key, "--json") == json.dumps([{**shown, "host": "box"}], indent=2) + "\n"
    assert fleet("show", "nobody", "--json").code == 1


def test_show_separates_the_bound_host_from_other_requirements(fleet: Program) -> None:
    fleet.ok("config", "set", "host.name=box")
    bound = make(fleet, "x", "--requires", "gpu", "--host", "build7")
    waits = make(fleet, "y", "--deps", bound, "--host", "build7")
    (first,), (second,) = (json.loads(fleet.ok("show", key, "--json")) for key in (bound, waits))
    assert (first["host"], first["metadata"]["fleet.requires"]) == ("build7", '["gpu"]')
    assert (second["host"], "fleet.requires" in second["metadata"]) == ("build7", False)
    assert second["dependencies"][0]["metadata"]["fleet.requires"] == '["gpu"]'
    nowhere = json.loads(fleet.ok("bd", "import", "-", "--json", stdin='{"id": "t-1", "title": "z"}\n'))
    assert nowhere and "host" not in json.loads(fleet.ok("show", "t-1", "--json"))[0]


def test_show_marks_default_values(fleet: Program) -> None:
    out = fleet.ok("show", make(fleet, "x", "-d", "line one\nline two"))
    assert "coder:       claude (default)\n" in out
    assert "model:       sonnet (default)\n" in out
    assert f"cwd:         {fleet.cwd}\n" in out
    assert out.endswith("description:\n  line one\n  line two\n")


def test_show_leaves_pinned_values_unmarked(fleet: Program) -> None:
    out = fleet.ok("show", make(fleet, "x", "--coder", "agy", "--model", "opus"))
    assert "coder:       agy\n" in out and "model:       opus\n" in out


def test_show_never_passes_the_model_of_one_coder_to_another(fleet: Program) -> None:
    assert "model:       its own (default)\n" in fleet.ok("show", make(fleet, "x", "--coder", "codex"))


def test_show_reads_the_settings_of_the_tasks_project(fleet: Program) -> None:
    project = fleet.cwd / ".fleet"
    project.mkdir()
    (project / "config.toml").write_text('coder = "codex"\nmodel = "o9"\n')
    out = fleet.ok("show", make(fleet, "x"))
    assert "coder:       codex (default)\n" in out and "model:       o9 (default)\n" in out


def test_show_accepts_a_part_of_an_id_and_refuses_an_ambiguous_one(fleet: Program) -> None:
    make(fleet, "x", "--id", "fleet-abc1")
    make(fleet, "y", "--id", "fleet-abc2")
    assert "fleet-abc1" in fleet.ok("show", "c1")
    ended = fleet("show", "abc")
    assert ended.code == 2 and "fleet-abc1, fleet-abc2" in ended.err
