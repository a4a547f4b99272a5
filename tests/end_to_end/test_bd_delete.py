"""`bd delete`: a preview unless forced, and no reference to a deleted task remains."""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from fleet.core.filter import Filter, Lane
from fleet.store.sqlite.store import SqliteStore
from program import Program

DROP = "'; drop table tasks;--"
LEFT = "has dependents not in deletion set; use --cascade to delete them or --force to orphan them"


def line(name: str, *ties: tuple[str, str], **more: object) -> str:
    edges = [{"depends_on_id": f"fleet-{other}", "type": kind} for other, kind in ties]
    row = {"id": f"fleet-{name}", "title": f"Task {name}", "priority": 2, "dependencies": edges}
    return json.dumps({**row, **more}) + "\n"


@pytest.fixture
def tasks(fleet: Program) -> Program:
    """Return a queue: b depends on a, c on b; r is related to a; d has no dependency."""
    told = "See fleet-a, (fleet-a). Not fleet-a.1, fleet-ab, xfleet-a, fleet-a-b or [deleted:fleet-a]."
    rows = line("a", labels=["x", "y"]) + line("b", ("a", "blocks"), description=told, notes="fleet-a")
    rows += (
        line("c", ("b", "blocks"), description="fleet-a") + line("d") + line("r", ("a", "related"), design="fleet-a")
    )
    fleet.ok("bd", "import", "-", stdin=rows)
    return fleet


@pytest.fixture
def store(tasks: Program) -> Iterator[SqliteStore]:
    opened = SqliteStore(str(tasks.home / "fleet.db"))
    yield opened
    opened.close()


def kept(fleet: Program) -> str:
    return fleet.ok("bd", "export", "--all")


def names(store: SqliteStore) -> str:
    return " ".join(task.id.removeprefix("fleet-") for task in store.tasks.find(Filter(), sort="id"))


def test_delete_only_previews_without_force(tasks: Program) -> None:
    before = kept(tasks)
    shown = "\n⚠️  DELETE PREVIEW\n\nIssue to delete:\n  fleet-d: Task d\n"
    assert tasks.ok("bd", "delete", "fleet-d") == (
        f"{shown}\nThis operation cannot be undone!\nTo proceed, run: bd delete fleet-d --force\n\n"
    )
    assert tasks.ok("bd", "delete", "fleet-d", "--dry-run", "--force").startswith(f"{shown}\nWould delete: 1 issues\n")
    answer = json.loads(tasks.ok("bd", "delete", "fleet-d", "--json"))
    flags = {"preview": True, "dry_run": False, "cascade": False, "issue_ids": ["fleet-d"], "schema_version": 1}
    counts = {"delete": 1, "orphan": 0, "remove_dependencies": 0, "remove_events": 0, "remove_labels": 0}
    assert answer == {**flags, **{f"would_{name}": count for name, count in counts.items()}}
    assert tasks("bd", "delete", "fleet-d", "--quiet") == (0, "", "")
    assert kept(tasks) == before


def test_delete_needs_force_when_the_task_has_dependents(tasks: Program) -> None:
    before = kept(tasks)
    for args in (["fleet-a"], ["fleet-a", "--dry-run"], ["fleet-d", "fleet-a"], ["fleet-a", "fleet-b"]):
        ended = tasks("bd", "delete", *args)
        assert (ended.code, ended.err) == (1, f"Error: previewing deletion: issue fleet-a {LEFT}\n")
        assert ended.out.endswith(f"\n\nissue fleet-a {LEFT}\n")
        told = tasks("bd", "delete", *args, "--json")
        answer = json.loads(told.out)
        assert (told.code, answer["preview"], answer["error"]) == (1, True, f"issue fleet-a {LEFT}")
    assert kept(tasks) == before


def test_delete_forced_dry_run_lists_the_orphans(tasks: Program) -> None:
    answer = json.loads(tasks.ok("bd", "delete", "fleet-a", "--force", "--dry-run", "--json"))
    assert (answer["would_delete"], answer["would_orphan"], answer["would_remove_labels"]) == (1, 2, 2)
    said = tasks.ok("bd", "delete", "fleet-a", "--force", "--dry-run")
    assert "Would orphan: 2 issues\n" in said and "  fleet-b → fleet-a (blocks)\n" in said
    assert "references will be updated:\n  fleet-b: Task b\n  fleet-r: Task r\n" in said


def test_delete_removes_dependencies_and_marks_references_in_related_texts(tasks: Program, store: SqliteStore) -> None:
    answer = json.loads(tasks.ok("bd", "delete", "fleet-a", "--force", "--json"))
    counts = {"dependencies_removed": 2, "references_updated": 2}
    assert answer == {"deleted": "fleet-a", **counts, "schema_version": 1}
    assert names(store) == "b c d r"
    near, far = store.tasks.get("fleet-b"), store.tasks.get("fleet-c")
    gone = "[deleted:fleet-a]"
    assert near.description == (
        f"See {gone}, ({gone}). Not fleet-a.1, fleet-ab, xfleet-a, fleet-a-b or [deleted:fleet-a]."
    )
    assert (near.notes, store.tasks.get("fleet-r").design) == (gone, gone)
    assert far.description == "fleet-a", "only those tied to it are changed"
    assert not near.is_blocked and far.is_blocked
    assert tasks("bd", "show", "fleet-a").code == 1
    assert tasks.ok("bd", "delete", "fleet-d", "-f") == (
        "✓ Deleted fleet-d\n  Removed 0 dependency link(s)\n  Updated text references in 0 issue(s)\n"
    )


def test_delete_removes_several_tasks_together(tasks: Program, store: SqliteStore) -> None:
    answer = json.loads(tasks.ok("bd", "delete", "fleet-a", "fleet-b", "fleet-a", "--force", "--json"))
    assert answer == {
        "deleted": ["fleet-a", "fleet-b"],
        "deleted_count": 2,
        "dependencies_removed": 3,
        "events_removed": 0,
        "labels_removed": 2,
        "orphaned_issues": ["fleet-c", "fleet-r"],
        "references_updated": 2,
        "schema_version": 1,
    }
    assert tasks.ok("bd", "delete", "fleet-c", "fleet-d", "--force").startswith("✓ Deleted 2 issue(s)\n")
    assert names(store) == "r"


def test_delete_cascade_takes_dependents_but_not_related_tasks(tasks: Program, store: SqliteStore) -> None:
    said = tasks.ok("bd", "delete", "fleet-a", "--cascade")
    assert "⚠ Cascade mode enabled" in said and "Would delete: 3 issues\n" in said
    assert said.endswith("run: bd delete fleet-a --cascade --force\n\n")
    assert names(store) == "a b c d r"
    answer = json.loads(tasks.ok("bd", "delete", "fleet-a", "--cascade", "--force", "--json"))
    assert (answer["deleted"], answer["deleted_count"]) == (["fleet-a"], 3)
    assert names(store) == "d r"


def test_delete_reads_ids_from_a_file(tasks: Program, store: SqliteStore) -> None:
    (tasks.cwd / "ids.txt").write_text("# what is old\n\n  fleet-c  \nfleet-d\n")
    said = tasks.ok("bd", "delete", "--from-file", "ids.txt")
    assert "Issues to delete (2):\n" in said and "run: bd delete --from-file ids.txt --force\n" in said
    tasks.ok("bd", "delete", "--from-file", "ids.txt", "--force")
    assert names(store) == "a b r"


def test_delete_needs_force_when_a_supervisor_works_on_the_task(tasks: Program, store: SqliteStore) -> None:
    (claim,) = store.claims.acquire(
        "host-1", [Lane(room=1, where=Filter(ids=("fleet-d",)))], room=1, ttl=timedelta(hours=1)
    )
    before = kept(tasks)
    ended = tasks("bd", "delete", "fleet-d")
    assert ended.code == 1 and "issue fleet-d is being worked on: host-1 holds it\n" in ended.err
    told = tasks("bd", "delete", "fleet-d", "--json")
    assert told.code == 1 and json.loads(told.out)["error"] == "issue fleet-d is being worked on: host-1 holds it"
    assert kept(tasks) == before
    tasks.ok("bd", "delete", "fleet-d", "--force")
    assert store.claims.renew([claim], ttl=timedelta(hours=1)) == []


def test_delete_removes_nothing_when_one_id_is_wrong(tasks: Program) -> None:
    before = kept(tasks)
    refusals = [
        ([], "no issue IDs provided"),
        (["--from-file", "/nowhere"], "cannot read /nowhere: No such file or directory"),
        (["fleet-zz"], "issue fleet-zz not found"),
        (["fleet"], "issue fleet not found"),
        ([""], "issue  not found"),
        ([DROP], f"issue {DROP} not found"),
        (["fleet-d", "fleet-zz", "x\ny"], "issues not found: fleet-zz, x\ny"),
        (["--", "--force"], "issue --force not found"),
    ]
    for args, error in refusals:
        ended = tasks("bd", "delete", "--force", "--json", *args)
        assert (ended.code, json.loads(ended.out)["error"]) == (1, error)
    assert kept(tasks) == before
