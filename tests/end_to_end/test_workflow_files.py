"""Workflow files: written from a template, checked with places, shown as a graph."""

import json

from flows import COMPETITION, PARALLEL, WRITE_REVIEW_REFINE
from program import Program

BROKEN = """name: broken
stages:
  - name: write
    executor: clade
    prompt_template: do
  - name: review
    prompt_template: "{stages.refine.summary}\\e[31m"
    depends_on: [wirte]
  - name: refine
    prompt_template: do
    depend_on: [review]
"""


def test_template_is_written_checked_and_shown(fleet: Program) -> None:
    listed = fleet.ok("workflow", "new")
    assert [line.split()[0] for line in listed.splitlines()] == [
        "competition-judge",
        "parallel-review",
        "split-and-conquer",
        "test-driven",
        "write-review-refine",
    ]
    assert fleet.ok("workflow", "new", "split-and-conquer") == "wrote split-and-conquer.toml\n"
    assert fleet.ok("workflow", "validate", "split-and-conquer.toml") == "split-and-conquer.toml: ok, 10 stages\n"
    shown = fleet.ok("workflow", "show", "split-and-conquer.toml")
    assert "part@2: codex; after plan; for item 2 of stages.plan.next_steps\n" in shown
    assert not fleet.home.exists(), "looking at files needs no home"


def test_existing_file_is_never_overwritten(fleet: Program) -> None:
    (fleet.cwd / "mine.toml").write_text("precious")
    result = fleet("workflow", "new", "test-driven", "--out", "mine.toml")
    assert (result.code, result.err) == (
        1,
        "error: mine.toml already exists\nhint:  pass another file with --out\n",
    )
    assert (fleet.cwd / "mine.toml").read_text() == "precious"
    assert fleet("workflow", "new", "nope").err.startswith("error: no template 'nope'\nhint:  ")
    assert fleet.ok("workflow", "new", "test-driven", "--out", "-").startswith("# A test that fails comes first")
    assert fleet("workflow", "new", "test-driven", "--out", "none/x.toml").code == 1


def test_every_fault_is_reported_with_its_place(fleet: Program) -> None:
    (fleet.cwd / "broken.yaml").write_text(BROKEN)
    result = fleet("workflow", "validate", "broken.yaml")
    assert result.code == 1
    assert result.out == ""
    assert [line for line in result.err.splitlines() if line.startswith("error: ")] == [
        "error: broken.yaml:4:15: unknown coder 'clade'",
        "error: broken.yaml:7:22: the variable {stages.refine.summary} is about stage 'refine', "
        "on which 'review' does not depend",
        "error: broken.yaml:8:18: no such stage: 'wirte'",
        "error: broken.yaml:11:5: unknown key 'depend_on' of a stage",
    ]
    assert "hint:  did you mean 'write'?\n" in result.err
    told = json.loads(fleet("workflow", "validate", "broken.yaml", "--json").out)
    assert told["ok"] is False
    assert told["faults"][2] == {
        "file": "broken.yaml",
        "line": 8,
        "column": 18,
        "path": "stages[1].depends_on[0]",
        "message": "no such stage: 'wirte'",
        "hint": "did you mean 'write'?",
    }
    for command in ("show", "run"):
        assert fleet("workflow", command, "broken.yaml") == result, "the same by whoever reads it"
    assert not fleet.home.exists(), "nothing starts"


def test_files_of_codefleet_are_accepted_unchanged(fleet: Program) -> None:
    files = {"write-review-refine.json": WRITE_REVIEW_REFINE, "parallel.json": PARALLEL, "compete.json": COMPETITION}
    for name, text in files.items():
        (fleet.cwd / name).write_text(text)
        assert fleet.ok("workflow", "validate", name) == f"{name}: ok, 3 stages\n"
    told = json.loads(fleet.ok("workflow", "show", "parallel.json", "--json"))
    assert told["name"] == "parallel"
    assert [(stage["name"], stage["needs"]) for stage in told["stages"]] == [
        ("module-a", []),
        ("module-b", []),
        ("review", ["module-a", "module-b"]),
    ]


def test_coders_of_the_user_are_known(fleet: Program) -> None:
    fleet.furnish(("init", "--permissions", "user"))
    with (fleet.home / "runtime.toml").open("a") as settings:
        settings.write('\n[coders.mycli]\nargv = ["mycli", "{prompt}"]\n')
    flow = {"stages": [{"name": name, "executor": name, "prompt_template": "x"} for name in ("mycli", "pkg.mod:Own")]}
    (fleet.cwd / "own.json").write_text(json.dumps(flow))
    assert fleet.ok("workflow", "validate", "own.json") == "own.json: ok, 2 stages\n"


def test_hostile_file_cannot_control_the_terminal_or_hang_fleet(fleet: Program) -> None:
    (fleet.cwd / "x.json").write_text(
        json.dumps({"\x1b[2Jname": 1, "stages": [{"name": "a\x1b]0;x\x07", "prompt": "p"}]})
    )
    result = fleet("workflow", "validate", "x.json")
    assert result.code == 1
    assert "\x1b" not in result.err
    assert "\x07" not in result.err
    (fleet.cwd / "deep.toml").write_text(".".join(["a"] * 400_000) + " = 1\n")
    assert "deep.toml:1:1: nested more than 32 deep" in fleet("workflow", "validate", "deep.toml").err
