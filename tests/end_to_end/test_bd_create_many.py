"""`bd create --file`, `--graph` and `--validate`. A file with several tasks creates all of them or none."""

import json
from typing import Any

import pytest

from fleet.cli.bd.fields import check_sections
from fleet.core.errors import BadInput
from program import Program


@pytest.fixture
def one(fleet: Program) -> Program:
    """Return a queue with one task."""
    fleet.ok("bd", "import", "-", stdin='{"id": "fleet-aaa", "title": "There already", "priority": 2}')
    return fleet


def count(fleet: Program) -> int:
    return int(fleet.ok("bd", "count"))


PLAN = """# A heading nobody needs

Some words before the first task.

## First of the file

### Priority
1

### Type
bug

### Description
It is broken:

```sh
## not a title
### not a section
```

### Labels
web, urgent

### Assignee
alice

## Second of the file

A body without heading.

With two paragraphs.

### Acceptance Criteria
It works.

### Design
Somehow.

### Dependencies
fleet-aaa, related:fleet-aaa
"""


def test_create_file_creates_tasks_from_markdown(one: Program) -> None:
    (one.cwd / "plan.md").write_text(PLAN.replace(", related:fleet-aaa", ""))
    first, second = json.loads(one.ok("bd", "create", "-f", "plan.md", "--json", "--coder", "codex"))
    assert (first["title"], first["priority"], first["issue_type"], first["assignee"], first["labels"]) == (
        *("First of the file", 1, "bug", "alice", ["urgent", "web"]),
    )
    assert first["description"] == "It is broken:\n\n```sh\n## not a title\n### not a section\n```"
    assert first["metadata"]["fleet.coder"] == "codex" and first["metadata"]["fleet.cwd"] == str(one.cwd)
    assert second["description"] == "A body without heading.\n\nWith two paragraphs."
    assert (second["acceptance_criteria"], second["design"]) == ("It works.", "Somehow.")
    [edge] = second["dependencies"]
    assert (edge["issue_id"], edge["depends_on_id"], edge["type"]) == (second["id"], "fleet-aaa", "blocks")


def test_create_file_prints_the_created_tasks(one: Program) -> None:
    (one.cwd / "plan.md").write_text("## One\n## Two\n### Priority\nP0\n")
    lines = one.ok("bd", "create", "-f", "plan.md").splitlines()
    assert lines[0] == "✓ Created 2 issues from plan.md:"
    assert [line.partition(": ")[2] for line in lines[1:]] == ["One [P2, task]", "Two [P0, task]"]
    assert len(one.ok("bd", "create", "-f", "-", "--silent", stdin="## A\n## B\n").split()) == 2


MARKDOWN_FAULTS = {
    "no task at all": ("words\n", "no issues found in markdown file"),
    "a bad priority": ("## A\n\n## B\n### Priority\n\nhigh\n", 'line 6: invalid priority "high"'),
    "a bad type": ("## A\n### Type\ngadget\n", "line 3: invalid issue type: gadget"),
    "an unknown section": ("## A\n### Colour\nred\n", "line 2: unknown section 'Colour'"),
    "a section twice": ("## A\n### Type\nbug\n### Type\ntask\n", "line 4: a second section 'Type'"),
    "a missing dependency": ("## A\n## B\n### Deps\nfleet-zzz\n", 'line 4: dependency "fleet-zzz"'),
    "an unknown dependency type": ("## A\n### Deps\nodd:fleet-aaa\n", "line 3: unknown dependency type"),
    "two types for one pair": ("## A\n### Deps\nfleet-aaa related:fleet-aaa\n", "line 1: "),
    "a long title": (f"## A\n## {'x' * 501}\n", "line 2: title must be 500 characters or less"),
    "NUL": ("## A\n\n### Design\na\0b\n", "line 4: design contains a NUL character"),
}


def test_create_file_creates_nothing_when_the_markdown_has_a_fault(one: Program) -> None:
    wrong = []
    for name, (text, message) in MARKDOWN_FAULTS.items():
        result = one("bd", "create", "-f", "-", stdin=text)
        if result.code != 1 or (f"parsing markdown file: {message}" not in result.err and message not in result.err):
            wrong.append((name, result))
    assert wrong == []
    assert count(one) == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-f", "missing.md"], "parsing markdown file: cannot read missing.md"),
        (["-f", "-", "--dry-run"], "--dry-run is not supported with --file flag"),
        (["-f", "-", "A title"], "cannot specify both title and --file flag"),
        (["-f", "-", "-p", "1"], "--priority cannot be used with --file"),
        (["-f", "-", "--graph", "-"], "cannot specify both --file and --graph"),
        (["--graph", "-", "--labels", "a"], "--labels cannot be used with --graph"),
        (["--graph", "missing.json"], "reading graph plan: cannot read missing.json"),
    ],
)
def test_create_refuses_flags_that_exclude_each_other(fleet: Program, args: list[str], message: str) -> None:
    result = fleet("bd", "create", *args, stdin="## A\n")
    assert result.code == 1 and result.err.splitlines()[-2:][0].startswith(f"Error: {message}"), result


GRAPH: dict[str, Any] = {
    "nodes": [
        {"key": "epic", "id": "fleet-ppp", "title": "The epic", "type": "epic", "priority": 1},
        {"key": "one", "title": "Step one", "parent_key": "epic", "labels": ["x"], "metadata": {"n": 1}},
        {
            "key": "two",
            "title": "Step two",
            "description": "After one",
            "deps": [{"target": "fleet-aaa", "type": "related"}],
            "metadata_refs": {"after": "one"},
            "estimate": 30,
        },
    ],
    "edges": [
        {"from_key": "two", "to_key": "one"},
        {"from_key": "two", "to_key": "epic", "type": "waits-for", "gate": "any-children"},
    ],
}


def test_create_graph_creates_tasks_and_dependencies(one: Program) -> None:
    (one.cwd / "plan.json").write_text(json.dumps(GRAPH))
    ids = json.loads(one.ok("bd", "create", "--graph", "plan.json", "--json"))["ids"]
    assert list(ids) == ["epic", "one", "two"] and ids["epic"] == "fleet-ppp"
    rows = {row["id"]: row for row in json.loads(one.ok("bd", "list", "--json"))}
    first, second = rows[ids["one"]], rows[ids["two"]]
    assert (first["parent"], first["labels"], first["metadata"]["n"]) == ("fleet-ppp", ["x"], 1)
    edges = {edge["depends_on_id"]: (edge["type"], edge["metadata"]) for edge in second["dependencies"]}
    assert edges == {
        ids["one"]: ("blocks", "{}"),
        "fleet-ppp": ("waits-for", '{"gate": "any-children"}'),
        "fleet-aaa": ("related", "{}"),
    }
    assert (second["metadata"]["after"], second["estimated_minutes"]) == (ids["one"], 30)
    assert second["metadata"]["fleet.cwd"] == str(one.cwd)


def test_create_graph_dry_run_shows_the_plan_and_creates_nothing(one: Program) -> None:
    (one.cwd / "plan.json").write_text(json.dumps(GRAPH))
    lines = one.ok("bd", "create", "--graph", "plan.json", "--dry-run").splitlines()
    assert lines[0] == "Dry run: would create 3 issue(s) and 2 edge(s) (1 parent-child link(s))"
    assert lines[2:] == [
        '  epic [epic] P1 "The epic" id=fleet-ppp',
        '  one [task] P2 "Step one" parent_key=epic',
        '  two [task] P2 "Step two"',
    ]
    found = json.loads(one.ok("bd", "create", "--graph", "plan.json", "--dry-run", "--json"))
    assert (found["dry_run"], found["node_count"], found["edge_count"], found["parent_deps"]) == (True, 3, 2, 1)
    assert found["nodes"][1] == {"key": "one", "parent_key": "epic", "priority": 2, "title": "Step one", "type": "task"}
    assert count(one) == 1
    assert one.ok("bd", "create", "--graph", "plan.json").startswith("Created 3 issues\n  epic -> fleet-ppp\n  one -> ")
    again = one("bd", "create", "--graph", "plan.json")
    assert again.code == 1 and 'invalid graph plan: explicit id "fleet-ppp" (node "epic") already exists' in again.err
    assert count(one) == 4


def node(key: str, **more: Any) -> dict[str, Any]:
    return {"key": key, "title": key, **more}


GRAPH_FAULTS: dict[str, tuple[Any, str]] = {
    "not an object": ([], 'parsing graph plan: not an object with "nodes"'),
    "no nodes": ({"nodes": []}, "plan has no nodes"),
    "nodes that are none": ({"nodes": [1]}, "nodes is not a list of objects"),
    "no key": ({"nodes": [{"title": "a"}]}, "node 0 has no key"),
    "one key twice": ({"nodes": [node("a"), node("a")]}, 'duplicate node key "a"'),
    "no title": ({"nodes": [node("b"), {"key": "a"}]}, 'node "a": title is required'),
    "a bad priority": ({"nodes": [node("a", priority=9)]}, 'node "a": priority must be between 0 and 4 (got 9)'),
    "a bad type": ({"nodes": [node("a", type="gadget")]}, 'node "a": invalid issue type: gadget'),
    "a number for a title": ({"nodes": [{"key": "a", "title": 1}]}, 'node "a": title is a number, not text'),
    "another prefix": ({"nodes": [node("a", id="other-a")]}, 'node "a": prefix mismatch'),
    "a closed task": ({"nodes": [node("a", status="closed")]}, 'node "a": a new task cannot be closed'),
    "an unknown coder": ({"nodes": [node("a", metadata={"fleet.coder": "nobody"})]}, 'node "a": unknown coder'),
    "an unknown parent": ({"nodes": [node("a", parent="z")]}, 'node "a": "z" is neither a key of the plan nor a task'),
    "an unknown end": (
        {"nodes": [node("a")], "edges": [{"from_key": "a", "to_key": "zz"}]},
        'edge 0: to key "zz" not found in plan',
    ),
    "no end": ({"nodes": [node("a")], "edges": [{"from_key": "a"}]}, "edge 0: to_key or to_id is missing"),
    "a circle": (
        {
            "nodes": [node("a"), node("b")],
            "edges": [{"from_key": "a", "to_key": "b"}, {"from_key": "b", "to_key": "a"}],
        },
        "edge 1 (b -> a): adding dependency would create a cycle",
    ),
    "itself": ({"nodes": [node("a")], "edges": [{"from_key": "a", "to_key": "a"}]}, "edge 0 (a -> a): "),
}


def test_create_graph_creates_nothing_when_the_plan_has_a_fault(one: Program) -> None:
    wrong = []
    for name, (plan, message) in GRAPH_FAULTS.items():
        result = one("bd", "create", "--graph", "-", stdin=json.dumps(plan))
        if result.code != 1 or message not in result.err:
            wrong.append((name, result))
    assert wrong == []
    assert one("bd", "create", "--graph", "-", stdin="{").err.startswith("Error: parsing graph plan: ")
    assert count(one) == 1


def test_create_graph_warns_about_unknown_fields(one: Program) -> None:
    result = one("bd", "create", "--graph", "-", stdin=json.dumps({"nodes": [node("a", bogus=1)]}))
    assert result.code == 0 and 'node["a"] has unknown field(s), ignored: [bogus]' in result.err


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("bug", "## Steps to Reproduce\nx\n## Acceptance Criteria\ny"),
        ("task", "acceptance criteria: it works"),
        ("epic", "# Acceptance Criteria\nx"),
        ("chore", ""),
        ("decision", "## Decision\n## Rationale\n## Alternatives considered"),
    ],
)
def test_check_sections_accepts_a_complete_description(kind: str, text: str) -> None:
    check_sections(kind, text)


def test_validate_reports_all_missing_sections_at_once(fleet: Program) -> None:
    with pytest.raises(BadInput, match="missing required sections for spike:\n  - ## Goal"):
        check_sections("spike", "")
    result = fleet("bd", "create", "No sections", "-t", "bug", "--validate")
    assert result.code == 1
    assert "Error: missing required sections for bug:\n  - ## Steps to Reproduce (" in result.err
    assert "  - ## Acceptance Criteria (" in result.err
    assert fleet("bd", "create", "-f", "-", "--validate", stdin="## A\n").err.count("line 1: missing required") == 1
