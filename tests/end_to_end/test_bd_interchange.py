"""`bd export` and `bd import`: a round trip keeps every byte, and faulty input changes nothing."""

import json
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders import NOON, FakeClock, a_task, an_edge
from fleet.actions.tasks.interchange import import_lines
from fleet.actions.tasks.jsonl import LONGEST_LINE
from fleet.cli.bd.export import lines
from fleet.core.dependency import WELL_KNOWN
from fleet.core.errors import BadInput
from fleet.core.task import CATEGORIES, SPEC_FIELDS, TYPES, Comment, Task
from fleet.store.base import Store
from fleet.store.sqlite.store import SqliteStore
from program import Program
from stores import open_queue

WHEN = "2021-03-01T10:00:00Z"


def row(key: str, title: str = "A task", **more: Any) -> str:
    given = {"status": "open", "priority": 2, "issue_type": "task", "created_at": WHEN, "updated_at": WHEN}
    return json.dumps({"id": f"fleet-{key}", "title": title, **given, **more})


def imported(fleet: Program, text: str, *args: str) -> Any:
    return json.loads(fleet.ok("bd", "import", "-", "--json", *args, stdin=text))


def exported(fleet: Program, *args: str) -> dict[str, dict[str, Any]]:
    found = [json.loads(line) for line in fleet.ok("bd", "export", *args).splitlines()]
    return {each["id"].removeprefix("fleet-"): each for each in found}


# Round trips

FULL: list[dict[str, Any]] = [
    {
        "id": "fleet-bbb",
        "title": "Zweite – 二番目 🚀",
        "description": "a\nb\u2028c\ttab",
        "design": "d",
        "acceptance_criteria": "a",
        "notes": "n",
        "spec_id": "docs/a.md",
        "status": "closed",
        "priority": 0,
        "issue_type": "bug",
        "assignee": "alice",
        "owner": "a@example.test",
        "estimated_minutes": 30,
        "created_at": "2021-03-01T10:00:00.5Z",
        "created_by": "me",
        "updated_at": "2021-03-02T10:00:00.123456Z",
        "started_at": "2021-03-01T11:00:00Z",
        "closed_at": "2021-03-02T10:00:00Z",
        "close_reason": "done",
        "closed_by_session": "s1",
        "claim_fence": 7,
        "due_at": "2022-03-02T10:00:00Z",
        "defer_until": "2021-03-02T10:00:00Z",
        "external_ref": "gh-9",
        "source_system": "github",
        "metadata": {"team": "x", "n": [1, 2.5, None, {"deep": True}], "fleet.cwd": "/w", "fleet.coder": "codex"},
        "labels": ["b", "ä"],
        "dependencies": [
            {
                "issue_id": "fleet-bbb",
                "depends_on_id": "external:shop:api",
                "type": "blocks",
                "created_at": WHEN,
                "metadata": "{}",
            },
            {
                "issue_id": "fleet-bbb",
                "depends_on_id": "fleet-aaa",
                "type": "waits-for",
                "created_at": "2021-03-01T10:00:00.000001Z",
                "created_by": "me",
                "metadata": '{"gate":"any-children"}',
                "thread_id": "t",
            },
        ],
        "comments": [{"id": "c1", "issue_id": "fleet-bbb", "author": "bob", "text": "Wörter", "created_at": WHEN}],
        "no_history": True,
        "pinned": True,
        "compaction_level": 2,
        "mol_type": "work",
        "unheard_of": {"a": [1]},
    },
    {"id": "fleet-aaa", "title": "First", "priority": 1, "created_at": WHEN, "updated_at": WHEN},
]


def test_every_imported_field_is_exported_again(fleet: Program) -> None:
    imported(fleet, "\n".join(map(json.dumps, FULL)))
    out = fleet.ok("bd", "export")
    assert out.count("\n") == len(out.splitlines()) == 2, "no other end of a line is left in it"
    first, second = map(json.loads, out.splitlines())
    assert first == {
        "_type": "issue",
        **FULL[1],
        **{"status": "open", "issue_type": "task"},
        **{"dependency_count": 0, "dependent_count": 1, "comment_count": 0},
    }
    wanted = {"_type": "issue", **FULL[0], "dependency_count": 2, "dependent_count": 0, "comment_count": 1}
    assert second == wanted
    assert list(second) == list(wanted), "the fields stand in bd's order"


def test_export_import_export_gives_the_same_bytes(fleet: Program, tmp_path: Path) -> None:
    imported(fleet, "\n".join(map(json.dumps, FULL)))
    parent = fleet.ok("bd", "create", "An epic", "-t", "epic", "-l", "x,y", "--silent").strip()
    child = fleet.ok("bd", "create", "A child", "--parent", parent, "--due", "+2d", "--silent").strip()
    fleet.ok("bd", "update", child, "--claim", "--actor", "carol")
    fleet.ok("bd", "comment", child, "Some words")
    out = fleet.ok("bd", "export", "--all")
    for attempt in range(2):
        other = Program(tmp_path)
        other.home = tmp_path / "other"
        other.env["FLEET_HOME"] = str(other.home)
        imported(other, out)
        assert other.ok("bd", "export", "--all") == out, attempt
    found = exported(other)[child.removeprefix("fleet-")]
    assert (found["status"], found["assignee"]) == ("in_progress", "carol")
    store = SqliteStore(str(other.home / "fleet.db"))
    assert store.tasks.get(child).claim_owner == "", "no claim is imported"
    store.close()


def test_export_writes_its_file_whole_and_private(fleet: Program) -> None:
    imported(fleet, row("aaa"))
    result = fleet("bd", "export", "-o", "out.jsonl")
    assert (result.code, result.out, result.err) == (0, "", "Exported 1 issues to out.jsonl\n")
    path = fleet.cwd / "out.jsonl"
    assert path.read_text() == fleet.ok("bd", "export") and path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in fleet.cwd.iterdir()] == ["out.jsonl"]
    assert fleet("bd", "export", "-o", "no/such/folder/x").code == 1
    assert "cannot write" in fleet("bd", "export", "-o", "no/such/folder/x").err


def test_export_omits_references_to_tasks_that_it_leaves_out(fleet: Program) -> None:
    fleet.ok("bd", "config", "set", "types.custom", "agent")
    texts = [
        row("aaa"),
        row("bbb", ephemeral=True, dependencies=[{"depends_on_id": "fleet-aaa"}]),
        row("ccc", is_template=True),
        row("ddd", issue_type="agent"),
        row("eee", dependencies=[{"depends_on_id": "fleet-bbb"}, {"depends_on_id": "fleet-aaa"}]),
        row("fff", "tmp file", created_by="robot", status="closed"),
    ]
    imported(fleet, "\n".join(texts))
    found = exported(fleet)
    assert list(found) == ["aaa", "eee", "fff"]
    assert (found["aaa"]["dependent_count"], found["eee"]["dependency_count"]) == (1, 1)
    assert [edge["depends_on_id"] for edge in found["eee"]["dependencies"]] == ["fleet-aaa"]
    assert list(exported(fleet, "--include-infra")) == ["aaa", "ddd", "eee", "fff"]
    assert list(exported(fleet, "--all")) == ["aaa", "bbb", "ccc", "ddd", "eee", "fff"]
    assert list(exported(fleet, "--scrub", "--include-memories")) == ["aaa", "eee"]
    assert list(exported(fleet, "--exclude-owner", "robot")) == ["aaa", "eee"]


LINE = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), max_size=20)
BODY = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
MOMENT = st.datetimes(datetime(1970, 1, 1), datetime(2199, 12, 31), timezones=st.just(UTC))
MAYBE = st.none() | MOMENT
KEY = st.from_regex(r"[a-z_][a-z0-9_.]{0,8}", fullmatch=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | BODY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(BODY, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def tasks(draw: st.DrawFn, number: int) -> Task:
    """Draw any task that a queue can hold."""
    status = draw(st.sampled_from([*CATEGORIES, "mine"]))
    names = ("assignee", "owner", "created_by", "spec_id", "external_ref", "source_system", "closed_by_session")
    more: dict[str, Any] = {name: draw(LINE) for name in names}
    more |= {name: draw(BODY) for name in ("description", "design", "acceptance", "notes", "close_reason")}
    more |= {name: draw(st.booleans()) for name in ("ephemeral", "no_history", "pinned", "is_template")}
    more |= {name: draw(BODY) for name in draw(st.lists(st.sampled_from(SPEC_FIELDS), max_size=4, unique=True))}
    return Task(
        id=f"fleet-{number}",
        title=draw(LINE.filter(str.strip)),
        status=status,
        priority=draw(st.integers(0, 4)),
        type=draw(st.sampled_from(TYPES)),
        estimated_minutes=draw(st.none() | st.integers(1, 10**6)),
        labels=tuple(sorted(set(draw(st.lists(LINE.map(str.strip).filter(bool), max_size=3))))),
        metadata=draw(st.dictionaries(KEY, JSON, max_size=3)),
        extra={f"x_{name}": value for name, value in draw(st.dictionaries(KEY, JSON, max_size=2)).items()},
        epoch=draw(st.integers(0, 2**40)),
        created_at=draw(MOMENT),
        updated_at=draw(MOMENT),
        started_at=draw(MAYBE),
        due_at=draw(MAYBE),
        defer_until=draw(MAYBE),
        closed_at=draw(MOMENT) if status == "closed" else None,
        claim_owner=draw(st.sampled_from(["", "host"])),
        **more,
    )


@st.composite
def queues(draw: st.DrawFn) -> SqliteStore:
    """Draw a queue with some tasks and edges without a cycle."""
    store = open_queue(FakeClock())
    store.config.set("status.custom", "mine:wip")
    size = draw(st.integers(1, 4))
    for number in range(size):
        store.tasks.add(draw(tasks(number)))
        for said in range(draw(st.integers(0, 2))):
            text, when = draw(BODY), draw(MOMENT)
            comment = Comment(id=f"{number}.{said}", task_id=f"fleet-{number}", author="", text=text, created_at=when)
            store.comments.add(comment)
        for target in draw(st.lists(st.integers(0, number), max_size=2, unique=True)):
            needs = f"fleet-{target}" if target < number else "external:elsewhere"
            kind = draw(st.sampled_from([*WELL_KNOWN, "of-my-own"]))
            metadata = draw(st.sampled_from(["{}", '{"gate":"any-children"}', '{ "ä" : 1 }']))
            more = {"metadata": metadata, "thread_id": draw(LINE), "created_by": draw(LINE)}
            store.edges.add(
                an_edge(f"fleet-{number}", needs, kind, created_at=draw(MOMENT), **more), check_cycles=False
            )
    return store


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(queues())
def test_any_queue_survives_export_and_import(store: SqliteStore) -> None:
    out = list(lines(store))
    with tempfile.TemporaryDirectory() as folder:
        other = SqliteStore(f"{folder}/fleet.db", make=True)
        try:
            other.config.set("status.custom", "mine:wip")
            done = import_lines(other, out, actor="me")
            assert done.unlinked == [] and list(lines(other)) == out
            import_lines(other, out, actor="me")
            assert list(lines(other)) == out, "a second time changes nothing"
        finally:
            other.close()


def test_export_reads_a_large_queue_in_parts() -> None:
    store = open_queue(FakeClock())
    for number in range(1201):
        store.tasks.add(a_task(id=f"fleet-{number:05}"))
    assert [json.loads(line)["id"] for line in lines(store)] == [f"fleet-{number:05}" for number in range(1201)]


# Effects of an import on existing tasks


def test_newer_row_changes_a_task_and_reports_the_changes(fleet: Program) -> None:
    imported(fleet, row("aaa", "First", priority=1, labels=["a"], description="Text"))
    newer = row("aaa", "First, newer", priority=0, labels=["b"], updated_at="2021-03-09T10:00:00Z")
    found = imported(fleet, newer)
    assert found == {
        "created": 1,
        "ids": ["fleet-aaa"],
        "schema_version": 1,
        "skipped": 0,
        "source": "stdin",
        "updated": 1,
        "updated_issues": [{"id": "fleet-aaa", "changes": "priority 1 → 0, title, description"}],
    }
    after = exported(fleet)["aaa"]
    assert (after["title"], after["labels"], "description" in after) == ("First, newer", ["a", "b"], False)


def test_older_row_is_skipped_unless_stale_rows_are_allowed(fleet: Program) -> None:
    imported(fleet, row("aaa", "Now", updated_at="2021-03-09T10:00:00Z"))
    found = imported(fleet, row("aaa", "Before", dependencies=[{"depends_on_id": "fleet-zzz"}]))
    assert (found["created"], found["skipped"], found["stale_skipped_ids"]) == (0, 1, ["fleet-aaa"])
    result = fleet("bd", "import", "-", stdin=row("aaa", "Before"))
    assert result.err == "Imported 0 issues from stdin (1 stale skipped; use --allow-stale to restore older rows)\n"
    assert exported(fleet)["aaa"]["title"] == "Now"
    imported(fleet, row("aaa", "Before"), "--allow-stale")
    assert exported(fleet)["aaa"]["title"] == "Before"


def test_row_of_the_same_age_keeps_local_fields_and_adds_labels_and_comments(fleet: Program) -> None:
    said = {"id": 1, "author": "a", "text": "t", "created_at": WHEN}
    imported(fleet, "\n".join([row("aaa", "Here", labels=["a"], updated_at="2021-03-01T10:00:00.7Z"), row("bbb")]))
    there = row("aaa", "There", labels=["b"], comments=[said], dependencies=[{"depends_on_id": "fleet-bbb"}])
    assert imported(fleet, there)["tie_kept_local_ids"] == ["fleet-aaa"]
    after = exported(fleet)["aaa"]
    assert (after["title"], after["labels"], after["comment_count"], after["dependency_count"]) == (
        *("Here", ["a", "b"], 1, 1),
    )
    assert "tie_kept_local_ids" not in imported(fleet, fleet.ok("bd", "export"))


def test_live_claim_survives_an_import(fleet: Program) -> None:
    imported(fleet, row("aaa"))
    fleet.ok("bd", "update", "fleet-aaa", "--claim", "--actor", "alice")
    before = exported(fleet)["aaa"]
    later = {**before, "title": "Renamed", "updated_at": "2199-01-01T00:00:00Z", "claim_fence": 99}
    imported(fleet, json.dumps(later))
    store = SqliteStore(str(fleet.home / "fleet.db"))
    task = store.tasks.get("fleet-aaa")
    store.close()
    assert (task.title, task.claim_owner, task.epoch) == ("Renamed", "alice", 99)


def test_import_dry_run_changes_nothing_and_dedup_skips_known_titles(fleet: Program) -> None:
    imported(fleet, row("aaa", "Same"))
    texts = "\n".join([row("bbb", "Other"), row("aaa", "New", updated_at="2022-01-01T00:00:00Z")])
    result = fleet("bd", "import", "-", "--dry-run", stdin=texts)
    assert result.err.startswith("Would import 2 issues (1 new, 1 updated, 0 unchanged) and 0 memories from stdin\n")
    found = imported(fleet, texts, "--dry-run")
    assert (found["dry_run"], found["created"], found["updated"], found["ids"]) == (True, 1, 1, ["fleet-bbb"])
    assert list(exported(fleet)) == ["aaa"]
    found = imported(fleet, "\n".join([row("ccc", "SAME"), row("ddd", "Different")]), "--dedup")
    assert (found["created"], found["dedup_skipped"], found["ids"]) == (1, 1, ["fleet-ddd"])


def test_import_reports_impossible_dependencies(fleet: Program) -> None:
    needs = [{"depends_on_id": f"fleet-{key}"} for key in ("aaa", "zzz", "bbb")]
    texts = [row("aaa", dependencies=needs), row("bbb", dependencies=[{"depends_on_id": "fleet-aaa"}])]
    texts.append(row("ccc", dependencies=[{"issue_id": "fleet-yyy", "depends_on_id": "fleet-aaa"}]))
    assert imported(fleet, "\n".join(texts))["skipped_dependencies"] == [
        "fleet-aaa -> fleet-aaa: cannot add self-dependency: fleet-aaa cannot depend on itself",
        "fleet-aaa -> fleet-zzz: target not found",
        "fleet-bbb -> fleet-aaa: adding dependency would create a cycle",
        "fleet-yyy -> fleet-aaa: issue not found",
    ]
    assert exported(fleet)["aaa"]["dependency_count"] == 1


def test_import_finds_one_cycle_among_many_edges() -> None:
    store = open_queue(FakeClock())
    chain = [row(f"{n:03}", dependencies=[{"depends_on_id": f"fleet-{n + 1:03}"}]) for n in range(150)]
    closing = row("150", dependencies=[{"depends_on_id": "fleet-100"}])
    done = import_lines(store, [text.encode() for text in (*chain, closing)], actor="me")
    assert done.unlinked == ["fleet-150 -> fleet-100: adding dependency would create a cycle"]
    assert len(store.edges.find()) == 150


# Older formats of bd


def test_older_files_of_bd_are_understood(fleet: Program) -> None:
    said = [{"id": 7, "issue_id": "fleet-ggg", "author": "alice", "text": "Old words", "created_at": WHEN}]
    texts = [
        '\ufeff{"_schema": "beads-jsonl/1"}\r',
        row("ggg", comments=said) + "\r",
        row("ggh", comments=[{**said[0], "issue_id": "fleet-ggh", "text": "Other words"}]),
        row("hhh", status="tombstone", issue_type="strange"),
        "",
        row("iii", wisp=True),
        row("ooo", status="closed"),
        '{"_type": "memory", "key": "k", "value": "v"}',
        '{"id": "fleet-ppp", "title": "Only a title", "assignee": null, "labels": null, "started_at": ""}',
        '{"title": "Not even an id"}',
        row("qqq", created_at="0001-01-01T00:00:00Z", updated_at="2021-03-01T12:00:00.123456789+02:00"),
        row("rrr", lease_expires_at=WHEN, heartbeat_at=WHEN, parent="fleet-x", revision="5"),
    ]
    result = fleet("bd", "import", "-", "--json", stdin="\n".join(texts))
    assert "Passed over 1 memory record(s)" in result.err
    assert (json.loads(result.out)["created"], json.loads(result.out)["memories"]) == (8, 1)
    found = exported(fleet, "--all")
    assert "hhh" not in found and found["iii"]["ephemeral"] is True
    assert (found["ggg"]["comments"][0]["id"], found["ggh"]["comments"][0]["id"]) == ("7", "fleet-ggh:7")
    assert found["ooo"]["closed_at"] == WHEN
    plain = found["ppp"]
    assert (plain["priority"], plain["status"], plain["issue_type"]) == (0, "open", "task")
    assert found["qqq"]["updated_at"] == "2021-03-01T10:00:00.123456Z" and found["qqq"]["created_at"] > "2022"
    assert not {"lease_expires_at", "heartbeat_at", "parent", "revision"} & set(found["rrr"])
    assert [each["title"] for each in found.values()].count("Not even an id") == 1


def test_import_file_can_be_given_as_argument_or_option(fleet: Program) -> None:
    (fleet.cwd / "in.jsonl").write_text(row("aaa"))
    assert fleet("bd", "import", "in.jsonl").err.endswith("Imported 1 issues from in.jsonl\n")
    fleet.ok("bd", "import", "-i", "in.jsonl")
    for args, message in (
        (["missing.jsonl"], "cannot read missing.jsonl"),
        ([], "no file to import was named"),
        (["a", "b"], "name one file"),
        (["."], "cannot read ."),
    ):
        result = fleet("bd", "import", *args)
        assert result.code == 1 and message in result.err and "bug in fleet" not in result.err


# Faulty input changes nothing

DEEP = 5000
MALFORMED: dict[str, tuple[bytes, str]] = {
    "no JSON": (b"{not json", "it is not JSON: Expecting property name"),
    "half a line": (b'{"id": "fleet-x", "title": "A', "it is not JSON: Unterminated string"),
    "two objects": (b'{"title": "A"} {"title": "B"}', "it is not JSON: Extra data"),
    "a list": (b"[]", "it is not a JSON object but a list"),
    "a number": (b"5", "it is not a JSON object but a number"),
    "null": (b"null", "it is not a JSON object but null"),
    "no UTF-8": (b'{"title": "\xff"}', "it is not UTF-8 text"),
    "no title": (b'{"id": "fleet-x"}', "validation failed for issue fleet-x: title is required"),
    "a number for a title": (b'{"id": "fleet-x", "title": 5}', "title is a number, not text"),
    "a title of two lines": (b'{"title": "a\\nb"}', "title has the control character U+000A"),
    "a long title": (json.dumps({"title": "x" * 501}).encode(), "title must be 500 characters or less"),
    "NUL": (b'{"title": "A", "notes": "a\\u0000b"}', "it contains a NUL character"),
    "NUL where nobody looks": (b'{"title": "A", "x": ["a\\u0000b"]}', "it contains a NUL character"),
    "half a surrogate": (b'{"title": "A", "notes": "\\ud800"}', "it contains half of a surrogate pair"),
    "an infinite number": (b'{"title": "A", "metadata": {"a": 1e999}}', "it contains an invalid number"),
    "not a number": (b'{"title": "A", "metadata": {"a": NaN}}', "it contains an invalid number"),
    "a nesting bomb": (b'{"title": "A", "x": ' + b"[" * DEEP + b"]" * DEEP + b"}", "it is nested too deeply"),
    "a small bomb": (b'{"title": "A", "x": ' + b"[" * 99 + b"]" * 99 + b"}", "it is nested too deeply"),
    "a number too long": (b'{"title": "A", "x": ' + b"9" * 5000 + b"}", "it is not JSON"),
    "a bad instant": (b'{"title": "A", "created_at": "yesterday"}', "created_at 'yesterday' is not an RFC 3339"),
    "no time zone": (b'{"title": "A", "due_at": "2021-03-01T10:00:00"}', "is not an RFC 3339 time"),
    "a day alone": (b'{"title": "A", "due_at": "2021-03-01"}', "is not an RFC 3339 time"),
    "an instant out of range": (b'{"title": "A", "due_at": "9999-12-31T23:59:59-14:00"}', "is not an RFC 3339"),
    "an instant long ago": (b'{"title": "A", "due_at": "0500-01-01T00:00:00Z"}', "is too long ago"),
    "a number for an instant": (b'{"title": "A", "updated_at": 1614592800}', "updated_at is a number, not text"),
    "closed_at on an open task": (
        json.dumps({"title": "A", "closed_at": WHEN}).encode(),
        "non-closed issues cannot have closed_at timestamp",
    ),
    "priority 9": (b'{"title": "A", "priority": 9}', "priority must be between 0 and 4 (got 9)"),
    "priority in words": (b'{"title": "A", "priority": "high"}', "priority is text, not a number"),
    "priority true": (b'{"title": "A", "priority": true}', "priority is true or false, not a number"),
    "an unknown status": (b'{"title": "A", "status": "strange"}', "invalid status: strange"),
    "an unknown type": (b'{"title": "A", "issue_type": "gadget"}', "invalid issue type: gadget"),
    "labels as text": (b'{"title": "A", "labels": "a,b"}', "labels is text, not a list"),
    "a label that is a number": (b'{"title": "A", "labels": [1]}', "label is a number, not text"),
    "a label with a control character": (b'{"title": "A", "labels": ["a\\u001fb"]}', "label has the control"),
    "metadata as text": (b'{"title": "A", "metadata": "x"}', "metadata is text, not an object"),
    "a number for a coder": (b'{"title": "A", "metadata": {"fleet.coder": 1}}', "metadata fleet.coder takes text"),
    "a comment that is text": (b'{"title": "A", "comments": ["x"]}', "a comment is text, not an object"),
    "a dependency that is text": (b'{"title": "A", "dependencies": ["x"]}', "a dependency is text, not an object"),
    "a dependency with bad metadata": (
        b'{"title": "A", "dependencies": [{"depends_on_id": "x", "metadata": "x"}]}',
        "the metadata of a dependency is not a JSON object",
    ),
    "a path for an id": (b'{"id": "../etc", "title": "A"}', "invalid id '../etc'"),
    "a slash in an id": (b'{"id": "a/b", "title": "A"}', "invalid id 'a/b'"),
    "a flag for an id": (b'{"id": "-rf", "title": "A"}', "invalid id '-rf'"),
    "a huge id": (json.dumps({"id": "x" * 129, "title": "A"}).encode(), "id must be 128 characters or less"),
    "ephemeral as text": (b'{"title": "A", "ephemeral": "yes"}', "ephemeral is text, not true or false"),
    "a huge fence": (b'{"title": "A", "claim_fence": 9223372036854775808}', "claim_fence is out of range"),
    "minutes before now": (b'{"title": "A", "estimated_minutes": -1}', "estimated_minutes is out of range"),
}


@pytest.fixture
def here() -> Iterator[Store]:
    """Yield a queue in a file that holds one task."""
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(f"{folder}/fleet.db", make=True, now=FakeClock())
        store.tasks.add(a_task(id="fleet-aaa", title="Here already", created_at=NOON))
        yield store
        store.close()


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_line_is_named_and_changes_nothing(here: Store, name: str) -> None:
    line, message = MALFORMED[name]
    before = list(lines(here))
    newer = row("aaa", "Changed", updated_at="2199-01-01T00:00:00Z")
    with pytest.raises(BadInput) as refused:
        import_lines(here, [newer.encode(), row("bbb").encode(), b"\n", line, row("ccc").encode()], actor="me")
    assert str(refused.value).startswith("line 4: ") and message in str(refused.value)
    assert list(lines(here)) == before


def test_line_of_more_than_64_mib_is_refused(here: Store) -> None:
    with pytest.raises(BadInput, match="line 1: the line is longer than 64 MiB"):
        import_lines(here, [b"x" * (LONGEST_LINE + 1)], actor="me")


def test_import_command_names_a_malformed_line_and_changes_nothing(fleet: Program) -> None:
    imported(fleet, row("aaa"))
    before = fleet.ok("bd", "export")
    result = fleet("bd", "import", "-", "--json", stdin=row("bbb") + '\n{"id": "fleet-ccc", "title": 5}\n')
    assert result.code == 1
    told = "import failed: line 2: validation failed for issue fleet-ccc: title is a number, not text"
    assert json.loads(result.out)["error"] == told
    assert fleet.ok("bd", "export") == before
