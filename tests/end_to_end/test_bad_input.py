"""Wrong and hostile input to every command: the message names fault and remedy, and the queue stays unchanged."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from fleet.cli.bd.verbs import VERBS
from program import Program, Result

HOSTILE = [
    "'; drop table tasks; --",
    '"quoted" and $(id) and `id`',
    "--help",
    "-x",
    "../../etc/passwd",
    "a\nb",
    "\x1b[31mred\x07",
    "%s%n{0}",
    "☃" * 300,
    "a" * 100_000,
]

#: Verbs that take the id of a task, with the other arguments that they need before they look for the task.
WITH_ID = {
    "show": [],
    "update": ["--priority", "1"],
    "close": [],
    "done": [],
    "reopen": [],
    "delete": ["--force"],
    "dep add": ["fleet-real"],
    "dep remove": ["fleet-real"],
    "dep list": [],
    "dep tree": [],
    "dep relate": ["fleet-real"],
    "dep unrelate": ["fleet-real"],
    "comment": ["text"],
    "comments": [],
    "comments add": ["text"],
    "label add": ["label"],
    "label remove": ["label"],
    "label list": [],
    "label propagate": ["label"],
    "tag": ["label"],
    "children": [],
    "assign": ["alice"],
    "priority": ["1"],
    "note": ["text"],
    "defer": ["--until", "+1d"],
    "undefer": [],
    "unclaim": [],
}


@pytest.fixture
def queue(fleet: Program) -> Program:
    """Return a queue that holds one task."""
    fleet.furnish(("init", "--permissions", "user"))
    fleet.ok("bd", "create", "a real task", "--id", "fleet-real", "-l", "web")
    return fleet


def contents(fleet: Program) -> str:
    return fleet.ok("bd", "export")


def check_refusal(ended: Result) -> None:
    """Check that a refusal is short, prints a message and shows no traceback."""
    assert ended.code in (1, 2), ended
    told = ended.out + ended.err
    assert "Traceback" not in told and "bug in fleet" not in told, ended
    assert told.strip(), ended
    assert "\x1b" not in told and "\x07" not in told, ended


@pytest.mark.parametrize("verb", WITH_ID)
def test_unknown_id_is_refused_and_changes_nothing(queue: Program, verb: str) -> None:
    before = contents(queue)
    for wrong in ("fleet-none", "'; drop table tasks; --", "\x1b[31m", "a" * 5_000):
        ended = queue("bd", *verb.split(), "--", wrong, *[word for word in WITH_ID[verb] if not word.startswith("-")])
        if any(word.startswith("-") for word in WITH_ID[verb]):
            ended = queue("bd", *verb.split(), *WITH_ID[verb], "--", wrong)
        check_refusal(ended)
        as_json = queue("bd", *verb.split(), *[w for w in WITH_ID[verb] if w.startswith("-") or w[0] in "+1"], "--json")
        assert as_json.code in (0, 1, 2) and "bug in fleet" not in as_json.err, as_json
    assert contents(queue) == before


@pytest.mark.parametrize("verb", VERBS)
def test_unknown_flag_is_refused_by_name(queue: Program, verb: str) -> None:
    ended = queue("bd", *verb.split(), "--no-such-flag")
    check_refusal(ended)
    assert "--no-such-flag" in ended.err


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(queue: Program, verb: str) -> None:
    assert f"usage: fleet bd {verb}" in queue.ok("bd", *verb.split(), "--help")


def test_hostile_text_is_stored_unchanged_or_refused_as_a_whole(queue: Program) -> None:
    for text in HOSTILE:
        before = contents(queue)
        ended = queue("bd", "create", f"--title={text}", "--json")
        if ended.code == 0:
            assert json.loads(ended.out)["title"] == text
        else:
            check_refusal(ended)
            assert contents(queue) == before
        kept = queue("bd", "create", "fine", "--json", f"--description={text}", f"--notes={text}")
        shown = json.loads(queue.ok("bd", "show", json.loads(kept.out)["id"], "--json"))[0]
        assert (shown["description"], shown["notes"]) == (text, text)
        assert "\x1b" not in queue.ok("bd", "show", json.loads(kept.out)["id"])
    assert len(queue.ok("bd", "list", "--all", "--json")) > 0


def test_description_may_have_a_megabyte_and_a_title_may_not(queue: Program) -> None:
    text = "x" * 1_000_000
    made = json.loads(queue.ok("bd", "create", "big", "--stdin", "--json", stdin=text))
    assert json.loads(queue.ok("bd", "show", made["id"], "--json"))[0]["description"] == text
    queue.cwd.joinpath("title.jsonl").write_text(json.dumps({"id": "fleet-big", "title": text, "priority": 2}))
    before = contents(queue)
    check_refusal(queue("bd", "import", "title.jsonl"))
    assert contents(queue) == before


@pytest.mark.parametrize(
    "argv",
    [
        ["create"],
        ["create", ""],
        ["create", "a", "b"],
        ["create", "x", "-p", "high"],
        ["create", "x", "-t", "nonsense"],
        ["create", "x", "--deps", "fleet-none"],
        ["create", "x", "--deps", "wrong:fleet-real"],
        ["create", "x", "--parent", "fleet-none"],
        ["create", "x", "--id", "fleet-real"],
        ["create", "x", "--id", "../evil-1", "--force"],
        ["create", "x", "--id", "other-1"],
        ["create", "x", "--metadata", "{bad"],
        ["create", "x", "--metadata", "[1]"],
        ["create", "x", "--metadata", '{"a b": 1}'],
        ["create", "x", "--due", "someday"],
        ["create", "x", "--estimate", "-5"],
        ["create", "x", "--estimate", "long"],
        ["create", "x", "--body-file", "missing.md"],
        ["create", "x", "--coder", "clude"],
        ["create", "x", "--workspace", "cloud"],
        ["create", "x", "--cwd", "/no/such/place"],
        ["create", "x", "-l", "two\nlines"],
        ["create", "x", "-d", "nul\x01", "--status", "closed"],
        ["create", "-f", "missing.md"],
        ["create", "--graph", "missing.json"],
        ["update", "fleet-real", "--status", "nonsense"],
        ["update", "fleet-real", "--title", ""],
        ["update", "fleet-real", "--parent", "fleet-real"],
        ["update", "fleet-real", "--set-metadata", "novalue"],
        ["update", "fleet-real", "--notes", "a", "--append-notes", "b"],
        ["update", "fleet-real", "--coder", "clude"],
        ["dep", "add", "fleet-real", "fleet-real"],
        ["dep", "add", "fleet-real"],
        ["list", "--limit", "-1"],
        ["list", "--limit", "many"],
        ["list", "--sort", "nonsense"],
        ["list", "--created-after", "someday"],
        ["list", "--label-regex", "("],
        ["ready", "--sort", "nonsense"],
        ["ready", "--claim", "--assignee", "x"],
        ["import", "missing.jsonl"],
        ["config", "set", "status.custom", "open"],
        ["config", "get"],
        ["nonsense"],
        ["dolt", "push"],
        ["--db", "x.db", "list"],
        ["-C", "/no/such/place", "list"],
    ],
)
def test_wrong_value_is_refused_and_changes_nothing(queue: Program, argv: list[str]) -> None:
    before = contents(queue)
    check_refusal(queue("bd", *argv))
    as_json = queue("bd", *argv, "--json")
    check_refusal(as_json)
    assert "error" in json.loads(as_json.out or as_json.err.splitlines()[-1])
    assert contents(queue) == before


def test_unsupported_verb_names_its_replacement(queue: Program) -> None:
    assert "fleet bd export" in queue("bd", "dolt", "push").err
    assert "did you mean" in queue("bd", "shwo").err


def test_text_is_refused_when_it_is_not_utf8(queue: Program) -> None:
    before = contents(queue)
    check_refusal(queue("bd", "create", "bad \udcff"))
    queue.cwd.joinpath("latin1.txt").write_bytes(b"caf\xe9")
    check_refusal(queue("bd", "create", "x", "--body-file", "latin1.txt"))
    assert contents(queue) == before


def test_dependency_cycle_is_refused_however_long(queue: Program) -> None:
    ids = [f"fleet-c{number}" for number in range(12)]
    for key in ids:
        queue.ok("bd", "create", key, "--id", key)
    for task, needs in pairwise(ids):
        queue.ok("bd", "dep", "add", task, needs)
    before = contents(queue)
    check_refusal(queue("bd", "dep", "add", ids[-1], ids[0]))
    assert contents(queue) == before


def test_reading_command_names_fleet_init_when_no_home_exists(fleet: Program) -> None:
    for argv in (["bd", "list"], ["bd", "ready"], ["bd", "show", "x"], ["ready"], ["show", "x"], ["config"]):
        ended = fleet(*argv)
        check_refusal(ended)
        assert "fleet init" in ended.err
    assert not fleet.home.exists()


def test_first_writing_command_creates_the_home_and_reports_it(fleet: Program) -> None:
    ended = fleet("bd", "create", "first of all")
    assert (ended.code, fleet.home.exists()) == (0, True)
    assert str(fleet.home) in ended.err


def test_home_works_when_its_path_has_200_bytes(fleet: Program, tmp_path: Path) -> None:
    fleet.home = tmp_path / ("h" * max(1, 200 - len(str(tmp_path)) - 1))
    fleet.env["FLEET_HOME"] = str(fleet.home)
    fleet.furnish(("init", "--permissions", "user"))
    key = json.loads(fleet.ok("bd", "create", "deep down", "--json"))["id"]
    assert key in fleet.ok("bd", "ready")
    assert len(str(fleet.home)) >= 200
