"""`bd batch`: several operations in one transaction."""

import json
from typing import Any

import pytest

from fleet.cli.bd.batch import words_of
from fleet.core.errors import BadInput
from program import Program


@pytest.fixture
def four(fleet: Program) -> Program:
    """Return a queue with four tasks."""
    rows = [{"id": f"fleet-{key * 3}", "title": key, "priority": 2} for key in "abcd"]
    fleet.ok("bd", "import", "-", stdin="\n".join(map(json.dumps, rows)))
    return fleet


def shown(fleet: Program, key: str) -> Any:
    return json.loads(fleet.ok("bd", "show", key, "--json"))[0]


def test_batch_executes_a_script_line_by_line(four: Program) -> None:
    script = """# a comment

close fleet-aaa all done
update fleet-bbb status=in_progress priority=0 title="New title" assignee=alice
dep add fleet-ddd fleet-ccc
create bug 1 Made by the batch
"""
    out = four.ok("bd", "batch", stdin=script).splitlines()
    assert out[:4] == [
        "batch: 4 operations committed",
        "  line 3: close fleet-aaa",
        "  line 4: update fleet-bbb",
        "  line 5: dep.add fleet-ddd->fleet-ccc",
    ]
    assert out[4].startswith("  line 6: create fleet-")
    assert shown(four, "fleet-aaa")["close_reason"] == "all done"
    changed = shown(four, "fleet-bbb")
    assert (changed["status"], changed["priority"], changed["title"], changed["assignee"]) == (
        *("in_progress", 0, "New title", "alice"),
    )
    made = shown(four, out[4].split()[-1])
    assert (made["issue_type"], made["priority"], made["title"]) == ("bug", 1, "Made by the batch")
    assert made["metadata"]["fleet.cwd"] == str(four.cwd)


def test_batch_reports_its_operations_in_json(four: Program) -> None:
    script = "dep add fleet-ddd fleet-ccc related\ndep rm fleet-ddd fleet-ccc\nupdate fleet-ccc priority=3\n"
    found = json.loads(four.ok("bd", "batch", "--json", stdin=script))
    assert found == {
        "operations": 3,
        "results": [
            {"line": 1, "op": "dep.add", "target": "fleet-ddd->fleet-ccc"},
            {"line": 2, "op": "dep.remove", "target": "fleet-ddd->fleet-ccc"},
            {"line": 3, "op": "update", "target": "fleet-ccc"},
        ],
        "schema_version": 1,
        "status": "ok",
    }


def test_batch_reports_zero_operations_when_the_script_is_empty(four: Program) -> None:
    assert four.ok("bd", "batch", stdin="# nothing\n") == "batch: 0 operations (no-op)\n"
    assert json.loads(four.ok("bd", "batch", "--json")) == {"operations": 0, "schema_version": 1, "status": "ok"}


WRONG = {
    "close fleet-zzz": "line 2 (close fleet-zzz): not found: issue fleet-zzz",
    "close": "line 2 (close): close requires <id>",
    "show fleet-aaa": 'parsing batch input: line 2: unsupported batch command "show"',
    "dep": "parsing batch input: line 2: 'dep' requires a subcommand (add|remove)",
    "dep tree fleet-aaa": 'parsing batch input: line 2: unknown dep subcommand "tree"',
    'close "unfinished': "parsing batch input: line 2: unterminated quoted string",
    "update fleet-ccc": "line 2 (update fleet-ccc): update requires <id> and at least one key=value",
    "update fleet-ccc colour=red": 'line 2 (update fleet-ccc colour=red): update: unsupported key "colour"',
    "update fleet-ccc priority": 'line 2 (update fleet-ccc priority): update: expected key=value, got "priority"',
    "update fleet-ccc priority=high": 'line 2 (update fleet-ccc priority=high): invalid priority "high"',
    "update fleet-ccc status=odd": "line 2 (update fleet-ccc status=odd): invalid status: odd",
    'update fleet-ccc title=""': "title is required",
    "create nonsense 2 Title": "line 2 (create nonsense 2 Title): invalid issue type: nonsense",
    "create bug 2": "line 2 (create bug 2): create requires <type> <priority> <title>",
    "dep add fleet-ddd fleet-ddd": "cannot add self-dependency: fleet-ddd cannot depend on itself",
    "dep add fleet-ddd": "dep add requires <from-id> <to-id>",
    "dep remove fleet-ddd fleet-ccc": "fleet-ddd does not depend on fleet-ccc",
}


def test_batch_names_the_fault_and_changes_nothing(four: Program) -> None:
    before = four.ok("bd", "export")
    wrong = []
    for line, message in WRONG.items():
        result = four("bd", "batch", stdin=f"update fleet-ccc priority=1\n{line}\n")
        if result.code != 1 or message not in result.err or not result.err.startswith("Error: "):
            wrong.append((line, result))
    assert wrong == []
    assert four.ok("bd", "export") == before


def test_batch_reports_an_error_in_json(four: Program) -> None:
    result = four("bd", "batch", "--json", stdin="close fleet-zzz")
    assert result.code == 1
    assert json.loads(result.out)["error"] == "line 1 (close fleet-zzz): not found: issue fleet-zzz"


def test_batch_dry_run_parses_and_changes_nothing(four: Program) -> None:
    (four.cwd / "ops.txt").write_text('close fleet-ccc "with a reason"\n')
    out = four.ok("bd", "batch", "-f", "ops.txt", "--dry-run")
    assert out == 'line 1: close fleet-ccc "with a reason"\n1 operations parsed (dry-run, nothing executed)\n'
    found = json.loads(four.ok("bd", "batch", "-f", "ops.txt", "--dry-run", "--json"))
    assert found == {"dry_run": True, "operations": 1, "schema_version": 1}
    assert shown(four, "fleet-ccc")["status"] == "open"
    four.ok("bd", "batch", "-f", "ops.txt", "-m", "A message")
    assert shown(four, "fleet-ccc")["close_reason"] == "with a reason"


def test_batch_fails_when_its_file_is_missing(four: Program) -> None:
    result = four("bd", "batch", "-f", "missing.txt")
    assert result.code == 1 and result.err.startswith("Error: open batch file: cannot read missing.txt")


def test_batch_needs_force_when_another_actor_holds_the_task(four: Program) -> None:
    four.ok("bd", "update", "fleet-aaa", "--claim", "--actor", "alice")
    for line in ("update fleet-aaa assignee=bob", "update fleet-aaa status=closed", "close fleet-aaa"):
        assert four("bd", "batch", "--actor", "bob", stdin=line).code == 1
    four.ok("bd", "batch", "--actor", "bob", stdin="update fleet-aaa assignee=bob force=true")
    four.ok("bd", "batch", "--actor", "bob", stdin="update fleet-aaa status=closed")
    assert shown(four, "fleet-aaa")["status"] == "closed"


def test_batch_step_sees_the_result_of_the_step_before(four: Program) -> None:
    script = "dep add fleet-bbb fleet-aaa\nclose fleet-aaa\nclose fleet-bbb\n"
    four.ok("bd", "batch", stdin=script)
    assert shown(four, "fleet-bbb")["status"] == "closed"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("a  b\tc", ["a", "b", "c"]),
        ('a "b c" d', ["a", "b c", "d"]),
        ('k="x y"z', ["k=x yz"]),
        (r'"say \"hi\" \\ \n"', [r'say "hi" \ \n']),
        ('""', [""]),
        ("", []),
    ],
)
def test_words_of_splits_a_line_as_documented(line: str, words: list[str]) -> None:
    assert words_of(line) == words


@pytest.mark.parametrize("line", ['"', 'a "b', '"a\\"'])
def test_words_of_refuses_an_unterminated_quote(line: str) -> None:
    with pytest.raises(BadInput, match="unterminated"):
        words_of(line)
