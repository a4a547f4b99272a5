"""`bd dep` as agents and people use it: adding, removing, listing, drawing, and everything that is refused."""

import json
import re
from collections.abc import Iterator

import pytest

from builders import a_task
from fleet.core.dependency import Edge
from fleet.store.sqlite.store import SqliteStore
from program import Program, Result

DROP = "'; drop table tasks;--"
CYCLE = "adding dependency would create a cycle"


def line(name: str, *needs: str, kind: str = "task", **more: object) -> str:
    key = f"fleet-{name}"
    edges = [{"issue_id": key, "depends_on_id": f"fleet-{other}", "type": "blocks"} for other in needs]
    row = {"id": key, "title": f"Task {name}", "priority": 2, "issue_type": kind, "dependencies": edges}
    return json.dumps({**row, **more}) + "\n"


@pytest.fixture
def tasks(fleet: Program) -> Program:
    """Return a queue: a depends on b, b on c; d and e have no dependency."""
    fleet.ok("bd", "import", "-", stdin=line("a", "b") + line("b", "c") + line("c") + line("d") + line("e"))
    return fleet


@pytest.fixture
def store(tasks: Program) -> Iterator[SqliteStore]:
    opened = SqliteStore(str(tasks.home / "fleet.db"))
    yield opened
    opened.close()


def kept(fleet: Program) -> str:
    return fleet.ok("bd", "export", "--all")


def edges(fleet: Program, *names: str) -> list[tuple[str, str]]:
    keys = [f"fleet-{name}" for name in names]
    rows = json.loads(fleet.ok("bd", "dep", "list", *keys, keys[0], "--json"))
    return sorted({(row["depends_on_id"].removeprefix("fleet-"), row["type"]) for row in rows})


def refused(fleet: Program, *args: str, stdin: str = "") -> str:
    """Run a command that must be refused, check that text and JSON agree, and return the error."""
    told = fleet("bd", *args, "--json", stdin=stdin)
    assert told.code == 1 and "Traceback" not in told.err, told
    answer = json.loads(told.out)
    assert answer["schema_version"] == 1
    assert told.err.startswith(f"Error: {answer['error']}\n"), told
    return str(answer["error"])


def test_dep_add_accepts_every_spelling(tasks: Program) -> None:
    said = tasks.ok("bd", "dep", "add", "fleet-d", "fleet-a")
    assert said == "✓ Added dependency: fleet-d (Task d) depends on fleet-a (Task a) (blocks)\n"
    answer = json.loads(tasks.ok("bd", "dep", "add", "d", "--blocked-by", "fleet-b", "--json"))
    added = {"status": "added", "issue_id": "fleet-d", "depends_on_id": "fleet-b", "type": "blocks"}
    assert answer == {**added, "schema_version": 1}
    said = tasks.ok("bd", "link", "fleet-d", "--depends-on", "fleet-e", "-t", "parent-child")
    assert said == "✓ Added dependency: fleet-d (Task d) is a child of fleet-e (Task e) (parent-child)\n"
    said = tasks.ok("bd", "dep", "add", "fleet-d", "external:other:thing", "-t", "blocked-by")
    assert said == "✓ Added dependency: fleet-d (Task d) depends on external:other:thing (blocks)\n"
    assert edges(tasks, "d") == [
        ("a", "blocks"),
        ("b", "blocks"),
        ("e", "parent-child"),
        ("external:other:thing", "blocks"),
    ]
    before = kept(tasks)
    tasks.ok("bd", "dep", "add", "fleet-d", "fleet-a")
    assert kept(tasks) == before, "adding it again changes nothing"


def test_dep_blocks_adds_the_reverse_dependency(tasks: Program) -> None:
    assert tasks.ok("bd", "dep", "fleet-d", "--blocks", "fleet-c") == (
        "✓ Added dependency: fleet-d (Task d) blocks fleet-c (Task c)\n"
    )
    answer = json.loads(tasks.ok("bd", "dep", "fleet-e", "-b", "fleet-c", "--json"))
    added = {"status": "added", "blocker_id": "fleet-e", "blocked_id": "fleet-c", "type": "blocks"}
    assert answer == {**added, "schema_version": 1}
    assert edges(tasks, "c") == [("d", "blocks"), ("e", "blocks")]
    assert "usage: fleet bd dep <blocker> --blocks <blocked>" in tasks.ok("bd", "dep", "fleet-d")


def test_dependent_task_is_ready_once_its_blockers_are_closed(tasks: Program) -> None:
    def ready() -> list[str]:
        return sorted(row["id"].removeprefix("fleet-") for row in json.loads(tasks.ok("bd", "ready", "--json")))

    tasks.ok("bd", "dep", "add", "fleet-e", "fleet-d")
    assert ready() == ["c", "d"]
    tasks.ok("bd", "close", "fleet-d")
    assert ready() == ["c", "e"]
    tasks.ok("bd", "dep", "rm", "fleet-a", "fleet-b")
    assert ready() == ["a", "c", "e"]


REFUSED = [
    (["add", "fleet-c", "fleet-a"], CYCLE),
    (["add", "fleet-c", "fleet-a", "--no-cycle-check"], CYCLE),
    (["add", "fleet-c", "fleet-a", "-t", "parent-child"], CYCLE),
    (["fleet-a", "--blocks", "fleet-c"], CYCLE),
    (["add", "fleet-a", "fleet-a"], "cannot add self-dependency: fleet-a cannot depend on itself"),
    (["fleet-a", "--blocks", "fleet-a"], "cannot add self-dependency: fleet-a cannot depend on itself"),
    (
        ["add", "fleet-a", "fleet-b", "-t", "related"],
        'dependency fleet-a -> fleet-b already exists with type "blocks" (requested "related"); '
        "remove it first with 'bd dep remove' then re-add",
    ),
    (["add", "fleet-zz", "fleet-a"], 'resolving issue ID fleet-zz: no issue found matching "fleet-zz"'),
    (
        ["add", "fleet-a", DROP],
        f'resolving dependency ID {DROP}: resolving issue ID {DROP}: no issue found matching "{DROP}"',
    ),
    (
        ["add", "fleet-a", "external:thing"],
        "invalid external reference format: expected 'external:<project>:<capability>', got 'external:thing'",
    ),
    (["remove", "fleet-a", "fleet-zz"], "resolving dependency ID fleet-zz: resolving issue ID fleet-zz: no issue"),
    (["relate", "fleet-a", "fleet-a"], "cannot relate an issue to itself"),
    (["relate", "fleet-a", "fleet-b"], "failed to add relates-to fleet-a -> fleet-b: dependency fleet-a ->"),
    (["unrelate", "fleet-a", "fleet-zz"], 'failed to resolve fleet-zz: no issue found matching "fleet-zz"'),
    (["add", "fleet-a", "fleet-d", "-t", "block"], 'unknown dependency type "block"; valid types: approved-by, '),
    (["add", "fleet-a", "fleet-d", "-t", "x" * 51], 'invalid dependency type "xxx'),
    (["add", "fleet-a", "fleet-d", "-t", ""], 'invalid dependency type ""'),
]

WRONG = [
    (["add"], "requires 2 arg(s), only received 0 (or use --blocked-by/--depends-on flag)"),
    (["add", "a", "b", "c"], "requires 2 arg(s), only received 3 (or use --blocked-by/--depends-on flag)"),
    (["add", "a", "b", "--blocked-by", "c"], "cannot use both positional depends-on-id and --blocked-by/--dep"),
    (["add", "a", "b", "--file", "x"], "--file cannot be used with positional issue IDs"),
    (["add", "a", "-x"], "unknown shorthand flag: 'x' in -x"),
    (["add", "a", "--type"], "flag needs an argument: --type"),
    (["remove", "a"], "accepts 2 arg(s), received 1"),
    (["relate", "a"], "accepts 2 arg(s), received 1"),
    (["--blocks", "a"], "--blocks requires exactly one issue ID argument"),
    (["a", "b", "--blocks", "c"], "accepts at most 1 arg(s), received 2"),
    (["list"], "requires at least 1 arg(s), only received 0"),
    (["list", "a", "--direction", "both"], "--direction must be 'down' or 'up'"),
    (["tree"], "accepts 1 arg(s), received 0"),
    (["tree", "a", "--direction", "in"], "--direction must be 'down', 'up', or 'both'"),
    (["tree", "a", "-d", "0"], "--max-depth must be >= 1"),
    (["tree", "a", "-d", "many"], 'invalid argument "many" for "--max-depth" flag'),
]


def test_refused_dependencies_change_nothing(tasks: Program) -> None:
    before = kept(tasks)
    for args, error in REFUSED:
        assert refused(tasks, "dep", *args).startswith(error), args
    assert kept(tasks) == before


def test_wrong_command_line_exits_with_one(tasks: Program) -> None:
    before = kept(tasks)
    for args, error in WRONG:
        ended = tasks("bd", "dep", *args)
        assert (ended.code, ended.out) == (1, "") and ended.err.startswith(f"Error: {error}"), ended
    assert kept(tasks) == before


def test_dep_remove_succeeds_when_the_dependency_does_not_exist(tasks: Program) -> None:
    said = tasks.ok("bd", "dep", "remove", "fleet-a", "fleet-b")
    assert said == "✓ Removed dependency: fleet-a (Task a) → fleet-b (Task b)\n"
    before = kept(tasks)
    answer = json.loads(tasks.ok("bd", "dep", "rm", "fleet-a", "fleet-b", "--json"))
    removed = {"status": "removed", "issue_id": "fleet-a", "depends_on_id": "fleet-b"}
    assert answer == {**removed, "schema_version": 1}
    assert kept(tasks) == before
    assert edges(tasks, "a") == []


def test_relation_links_both_tasks_and_keeps_other_dependencies(tasks: Program) -> None:
    assert tasks.ok("bd", "dep", "relate", "fleet-a", "fleet-e") == "✓ Linked fleet-a ↔ fleet-e\n"
    related = {"id1": "fleet-a", "id2": "fleet-e", "related": True}
    assert json.loads(tasks.ok("bd", "relate", "fleet-a", "fleet-e", "--json")) == related
    wrapped = json.loads(tasks.ok("bd", "dep", "relate", "fleet-a", "fleet-e", "--json", BD_JSON_ENVELOPE="1"))
    assert wrapped == {"schema_version": 1, "data": related}
    assert edges(tasks, "a") == [("b", "blocks"), ("e", "relates-to")]
    assert edges(tasks, "e") == [("a", "relates-to")]
    assert tasks.ok("bd", "dep", "unrelate", "fleet-e", "fleet-a") == "✓ Unlinked fleet-e ↔ fleet-a\n"
    tasks.ok("bd", "dep", "unrelate", "fleet-a", "fleet-b")
    assert edges(tasks, "a") == [("b", "blocks")]
    assert edges(tasks, "e") == []


def test_dep_add_file_adds_all_lines(tasks: Program) -> None:
    rows = '{"from":"fleet-d","to":"a"}\n\n{"issue_id":"fleet-e","depends_on_id":"fleet-d","type":"tracks"}\n'
    (tasks.cwd / "deps.jsonl").write_text(rows)
    assert tasks.ok("bd", "dep", "add", "--file", "deps.jsonl") == "✓ Added 2 dependencies\n"
    answer = json.loads(tasks.ok("bd", "dep", "add", "--file", "-", "--json", "--no-cycle-check", stdin=rows))
    assert (answer["status"], answer["count"], answer["schema_version"]) == ("added", 2, 1)
    assert answer["dependencies"][1] == {"issue_id": "fleet-e", "depends_on_id": "fleet-d", "type": "tracks"}
    assert edges(tasks, "d") == [("a", "blocks")]


@pytest.mark.parametrize("more", [[], ["--no-cycle-check"]])
def test_dep_add_file_adds_nothing_when_one_line_is_bad(tasks: Program, more: list[str]) -> None:
    before = kept(tasks)
    good = '{"from":"fleet-d","to":"fleet-e"}\n'
    bad = ["nope", "[]", '{"from":1,"to":"fleet-e"}', '{"from":"fleet-d"}', '{"from":"fleet-d","to":"zz","type":"x"}']
    told = refused(tasks, "dep", "add", "--file", "-", *more, stdin=good + "\n".join([*bad, "[" * 100_000]))
    first, *rest = told.split("\n  ")
    assert first == "bulk dependency validation failed:"
    assert [re.split(r": ", each, maxsplit=1)[0] for each in rest] == [f"line {number}" for number in range(2, 8)]
    assert rest[2:4] == ["line 4: invalid JSON: from is not text", "line 5: missing to"]
    assert 'unknown dependency type "x"' in rest[4]
    back = '{"from":"fleet-e","to":"fleet-d"}\n'
    assert refused(tasks, "dep", "add", "--file", "-", *more, stdin=good + back) == CYCLE
    assert kept(tasks) == before


def test_dep_add_file_is_refused_when_it_cannot_be_read(tasks: Program) -> None:
    assert refused(tasks, "dep", "add", "--file", "/nowhere") == "cannot read /nowhere: No such file or directory"
    assert refused(tasks, "dep", "add", "--file", "-", stdin="\n \n") == "no dependency edges found"


def test_dep_list_shows_dependencies_and_dependents(tasks: Program) -> None:
    tasks.ok("bd", "dep", "add", "fleet-a", "fleet-d", "-t", "discovered-from")
    assert tasks.ok("bd", "dep", "list", "fleet-a") == (
        "  fleet-b: Task b [P2] (open) via blocks\n  fleet-d: Task d [P2] (open) via discovered-from\n\n"
    )
    assert "fleet-d" not in tasks.ok("bd", "dep", "list", "fleet-a", "-t", "blocks")
    (row,) = json.loads(tasks.ok("bd", "dep", "list", "fleet-b", "--direction", "up", "--json"))
    assert (row["id"], row["title"], row["dependency_type"]) == ("fleet-a", "Task a", "blocks")
    raw = json.loads(tasks.ok("bd", "dep", "list", "fleet-a", "fleet-b", "--json"))
    assert [(each["issue_id"], each["depends_on_id"]) for each in raw] == [
        ("fleet-a", "fleet-b"),
        ("fleet-a", "fleet-d"),
        ("fleet-b", "fleet-c"),
    ]
    assert tasks.ok("bd", "dep", "list", "fleet-c", "fleet-b") == (
        "\nfleet-c has no dependencies\n\n📋 Dependencies of fleet-b:\n\n  fleet-c via blocks\n\n"
    )
    assert tasks.ok("bd", "dep", "list", "fleet-e") == "\nfleet-e has no dependencies\n"
    assert tasks.ok("bd", "dep", "list", "fleet-e", "--json") == "[]\n"
    assert refused(tasks, "dep", "list", "zz") == 'resolving zz: no issue found matching "zz"'


def test_dep_list_reports_external_dependencies_separately(tasks: Program) -> None:
    tasks.ok("bd", "dep", "add", "fleet-c", "external:other:thing")
    ended = tasks("bd", "dep", "list", "fleet-c", "--json")
    assert (ended.code, ended.out) == (0, "[]\n")
    assert "external:other:thing via blocks" in ended.err


def test_dep_tree_draws_each_task_once(tasks: Program) -> None:
    tasks.ok(
        "bd", "dep", "add", "--file", "-", stdin='{"from":"fleet-b","to":"fleet-d"}\n{"from":"fleet-a","to":"d"}\n'
    )
    drawn = [
        "fleet-a: Task a [P2] (open) [BLOCKED]",
        "    └── fleet-b: Task b [P2] (open) [blocks]",
        "        ├── fleet-c: Task c [P2] (open) [blocks]",
        "        └── fleet-d: Task d [P2] (open) [blocks]",
    ]
    assert tasks.ok("bd", "dep", "tree", "fleet-a", "--show-all-paths").split("\n") == [
        "",
        "🌲 Dependency tree for fleet-a:",
        "",
        *drawn,
        "",
        "",
    ]
    rows = json.loads(tasks.ok("bd", "dep", "tree", "fleet-a", "--json"))
    assert [(row["id"], row["depth"], row["parent_id"], row.get("edge_from_parent")) for row in rows] == [
        ("fleet-a", 0, "", None),
        ("fleet-b", 1, "fleet-a", "blocks"),
        ("fleet-c", 2, "fleet-b", "blocks"),
        ("fleet-d", 2, "fleet-b", "blocks"),
    ]
    assert not any(row["truncated"] for row in rows)
    cut = json.loads(tasks.ok("bd", "dep", "tree", "fleet-a", "-d", "2", "--json"))
    assert [(row["id"], row["truncated"]) for row in cut] == [("fleet-a", False), ("fleet-b", True), ("fleet-d", False)]
    assert tasks.ok("bd", "dep", "tree", "fleet-e").endswith("\nfleet-e: Task e [P2] (open) [READY]\n\n")


def test_dep_tree_walks_up_and_both_ways_and_filters_by_status(tasks: Program) -> None:
    up = tasks.ok("bd", "dep", "tree", "fleet-c", "--direction", "up")
    assert "Dependent tree for fleet-c" in up and "        └── fleet-a: Task a" in up
    both = [row["id"] for row in json.loads(tasks.ok("bd", "dep", "tree", "fleet-b", "--direction", "both", "--json"))]
    assert both == ["fleet-a", "fleet-b", "fleet-c"]
    assert tasks.ok("bd", "dep", "tree", "fleet-b", "--direction", "both").count("fleet-b: Task b") == 1
    tasks.ok("bd", "close", "fleet-c")
    closed = json.loads(tasks.ok("bd", "dep", "tree", "fleet-a", "--status", "closed", "--json"))
    assert [row["id"] for row in closed] == ["fleet-a", "fleet-b", "fleet-c"], "what leads there is kept"
    assert tasks.ok("bd", "dep", "tree", "fleet-a", "--status", "deferred") == "\nfleet-a has no dependencies\n"
    assert refused(tasks, "dep", "tree", "fleet-a", "--status", "nope") == "invalid status: nope"


def test_mermaid_arrows_point_to_the_dependency(tasks: Program) -> None:
    tasks.ok("bd", "update", "fleet-c", "--title", 'say "hi" <b>')
    down = tasks.ok("bd", "dep", "tree", "fleet-b", "--format", "mermaid")
    shown = ["flowchart TD", '  fleet-b["☐ fleet-b: Task b"]', '  fleet-c["☐ fleet-c: say #quot;hi#quot; #lt;b#gt;"]']
    assert down == "\n".join([*shown, "", "  fleet-b --> fleet-c", ""])
    up = tasks.ok("bd", "dep", "tree", "fleet-c", "--format", "mermaid", "--reverse")
    assert "  fleet-b --> fleet-c\n" in up and "  fleet-a --> fleet-b\n" in up


def test_titles_cannot_control_the_terminal(tasks: Program, store: SqliteStore) -> None:
    store.tasks.add(a_task(id="fleet-f", title="red \x1b[31m\nalert"))
    store.edges.add(Edge(task="fleet-f", needs="fleet-c", created_at=store.now()))
    for args in (
        ["list", "fleet-c", "--direction", "up"],
        ["tree", "fleet-f"],
        ["tree", "fleet-f", "--format=mermaid"],
    ):
        said = tasks.ok("bd", "dep", *args)
        assert "\x1b" not in said and "red \\x1b[31m⏎alert" in said


def test_dep_cycles_finds_imported_cycles(tasks: Program, store: SqliteStore) -> None:
    assert tasks.ok("bd", "dep", "cycles") == "\n✓ No dependency cycles detected\n\n"
    assert tasks.ok("bd", "dep", "cycles", "--json") == "[]\n"
    store.edges.add(Edge(task="fleet-c", needs="fleet-a", created_at=store.now()), check_cycles=False)
    store.edges.add(Edge(task="fleet-d", needs="fleet-e", created_at=store.now(), type="parent-child"))
    store.edges.add(Edge(task="fleet-e", needs="fleet-d", created_at=store.now()), check_cycles=False)
    found = json.loads(tasks.ok("bd", "dep", "cycles", "--json"))
    assert [[row["id"] for row in circle] for circle in found] == [
        ["fleet-a", "fleet-b", "fleet-c"],
        ["fleet-d", "fleet-e"],
    ]
    said = tasks.ok("bd", "dep", "cycles")
    assert "Found 2 dependency cycles" in said and "   - fleet-e: Task e\n" in said
    assert len(json.loads(tasks.ok("bd", "dep", "tree", "fleet-a", "--json"))) == 3, "a circle ends the descent"
    extra = '{"from":"fleet-a","to":"fleet-d"}'
    tasks.ok("bd", "dep", "add", "--file", "-", "--no-cycle-check", stdin=extra)


def test_long_chains_and_wide_fans_are_bounded(tasks: Program, store: SqliteStore) -> None:
    count = 3000
    rows = "".join(line(f"n{at:04}", *([f"n{at + 1:04}"] if at + 1 < count else [])) for at in range(count))
    rows += line("fan", *(f"n{at:04}" for at in range(0, count, 2)))
    tasks.ok("bd", "import", "-", stdin=rows)
    store.edges.add(
        Edge(task=f"fleet-n{count - 1:04}", needs="fleet-n0000", created_at=store.now()), check_cycles=False
    )
    (circle,) = json.loads(tasks.ok("bd", "dep", "cycles", "--json"))
    assert len(circle) == count
    deep = json.loads(tasks.ok("bd", "dep", "tree", "fleet-n0000", "-d", "1000000", "--json"))
    assert [row["truncated"] for row in deep] == [False] * 499 + [True]
    assert len(tasks.ok("bd", "dep", "tree", "fleet-fan").splitlines()) < 5010


def test_hostile_words_are_treated_as_ids(tasks: Program) -> None:
    before = kept(tasks)
    for word in (DROP, "a\nb", "\x1b[31m", "%s", "fleet-*", "💥", "x" * 5000):
        ended: Result = tasks("bd", "dep", "add", "--", "fleet-a", word)
        assert ended.code == 1 and "no issue found" in ended.err, ended
    assert tasks("bd", "dep", "add", "--", "-fleet-a", "--force").code == 1
    assert kept(tasks) == before
