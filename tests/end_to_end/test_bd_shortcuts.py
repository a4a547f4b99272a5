"""bd's one-word changes: assign, priority, note, defer, undefer, unclaim."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from builders import HOUR
from fleet.core.filter import Filter, Lane
from fleet.core.patch import Patch
from fleet.store.sqlite.store import SqliteStore
from program import Program

DROP = "'; drop table tasks;--"


@pytest.fixture
def tasks(fleet: Program) -> Program:
    rows = [{"id": f"fleet-{name}", "title": f"Task {name}", "priority": 2} for name in "abc"]
    fleet.ok("bd", "import", "-", stdin="".join(json.dumps(row) + "\n" for row in rows))
    fleet.env["BEADS_ACTOR"] = "alice"
    return fleet


@pytest.fixture
def store(tasks: Program) -> Iterator[SqliteStore]:
    opened = SqliteStore(str(tasks.home / "fleet.db"))
    yield opened
    opened.close()


def kept(fleet: Program) -> str:
    return fleet.ok("bd", "export", "--all")


def answer(fleet: Program, *args: str) -> Any:
    return json.loads(fleet.ok("bd", *args, "--json"))


def ready(fleet: Program) -> str:
    return " ".join(sorted(row["id"].removeprefix("fleet-") for row in answer(fleet, "ready")))


def test_assign_sets_and_clears_the_assignee(tasks: Program) -> None:
    assert tasks.ok("bd", "assign", "fleet-a", "bob") == "✓ Assigned fleet-a — Task a to bob\n"
    row = answer(tasks, "assign", "a", 'o\'neil "x"')
    assert (row["id"], row["assignee"], row["schema_version"]) == ("fleet-a", 'o\'neil "x"', 1)
    assert tasks.ok("bd", "assign", "fleet-a", "") == "✓ Unassigned fleet-a — Task a\n"
    assert "assignee" not in answer(tasks, "assign", "fleet-a", "")


def test_assign_needs_force_when_another_actor_holds_the_task(tasks: Program) -> None:
    tasks.ok("bd", "update", "fleet-a", "--claim", BEADS_ACTOR="bob")
    before = kept(tasks)
    for name in ("carol", ""):
        ended = tasks("bd", "assign", "fleet-a", name)
        assert ended.code == 1 and 'cannot reassign fleet-a: held by "bob" (in_progress)' in ended.err
    assert kept(tasks) == before
    assert answer(tasks, "assign", "fleet-a", "carol", "--force")["assignee"] == "carol"


def test_priority_accepts_numbers_and_p_names(tasks: Program) -> None:
    assert tasks.ok("bd", "priority", "fleet-a", "0") == "✓ Set priority of fleet-a — Task a to P0\n"
    assert answer(tasks, "priority", "fleet-a", "p3")["priority"] == 3


def test_note_appends_to_earlier_notes(tasks: Program) -> None:
    (tasks.cwd / "note.txt").write_text("from a file\n")
    assert tasks.ok("bd", "note", "fleet-a", "some", "words") == "✓ Note added to fleet-a — Task a\n"
    tasks.ok("bd", "note", "fleet-a", "--stdin", stdin="two\nlines\n")
    tasks.ok("bd", "note", "--", "fleet-a", DROP, "-x")
    row = answer(tasks, "note", "fleet-a", "--file", "note.txt")
    assert row["notes"] == f"some words\ntwo\nlines\n{DROP} -x\nfrom a file\n"


def test_deferred_task_is_not_ready_until_it_is_undeferred(tasks: Program) -> None:
    assert tasks.ok("bd", "defer", "fleet-a") == "* Deferred fleet-a\n"
    (row,) = answer(tasks, "defer", "fleet-b", "--until", "2099-01-01", "--reason", "waiting for {it}")
    assert (row["status"], row["defer_until"], row["notes"]) == ("deferred", "2099-01-01T00:00:00Z", "waiting for {it}")
    assert ready(tasks) == "c"
    (row,) = answer(tasks, "defer", "fleet-b")
    assert "defer_until" not in row, "without a date it waits for ever"
    assert tasks.ok("bd", "undefer", "fleet-a") == "* Undeferred fleet-a (now open)\n"
    (row,) = answer(tasks, "undefer", "fleet-b")
    assert row["status"] == "open" and "defer_until" not in row
    assert ready(tasks) == "a b c"
    assert tasks("bd", "undefer", "fleet-b") == (0, "", "fleet-b is not deferred (status: open)\n")
    assert tasks("bd", "undefer", "fleet-b", "--json").out == ""


def test_defer_to_a_past_date_leaves_the_task_open(tasks: Program) -> None:
    tasks.ok("bd", "defer", "fleet-a")
    ended = tasks("bd", "defer", "fleet-a", "--until", "2000-01-01", "--json")
    assert ended.code == 0 and 'Defer date "2000-01-01 00:00" is in the past' in ended.err
    assert json.loads(ended.out)[0]["status"] == "open"
    assert ready(tasks) == "a b c"


def test_undefer_opens_a_task_that_waits_for_its_next_try(tasks: Program, store: SqliteStore) -> None:
    now = store.now()
    with store.atomic():
        store.tasks.save(Patch(fields={"defer_until": now + HOUR}).on(store.tasks.get("fleet-a"), now))
    assert ready(tasks) == "b c"
    tasks.ok("bd", "undefer", "fleet-a")
    assert ready(tasks) == "a b c"


def test_unclaim_by_the_holder_reopens_the_task(tasks: Program, store: SqliteStore) -> None:
    tasks.ok("bd", "update", "fleet-a", "--claim")
    assert tasks.ok("bd", "unclaim", "fleet-a", "-r", "tired {of} it") == "✓ Unclaimed fleet-a: tired {of} it\n"
    task = store.tasks.get("fleet-a")
    assert (task.status, task.assignee, task.is_claimed) == ("open", "", False)
    assert [(each.author, each.text) for each in store.comments.find(["fleet-a"])] == [("alice", "tired {of} it")]
    tasks.ok("bd", "update", "fleet-a", "--claim")
    (row,) = answer(tasks, "unclaim", "fleet-a")
    assert row["status"] == "open" and "assignee" not in row


def test_unclaim_needs_force_when_another_actor_holds_the_task(tasks: Program) -> None:
    tasks.ok("bd", "update", "fleet-a", "--claim", BEADS_ACTOR="bob")
    before = kept(tasks)
    ended = tasks("bd", "unclaim", "fleet-a", "--json")
    assert (ended.code, ended.out) == (1, "")
    assert "Error unclaiming fleet-a: issue claimed by a different actor: fleet-a is held by bob" in ended.err
    ended = tasks("bd", "unclaim", "fleet-a", "--if-assignee", "carol")
    told = 'Error unclaiming fleet-a: assignee mismatch: fleet-a is held by "bob", expected "carol"\n'
    assert (ended.code, ended.err) == (1, told)
    assert tasks("bd", "unclaim", "fleet-a", "--if-assignee", "bob", "--force").code == 1
    assert tasks("bd", "unclaim", "fleet-a", "--if-assignee", "").code == 1
    assert kept(tasks) == before
    tasks.ok("bd", "unclaim", "fleet-a", "--if-assignee", "bob")
    tasks.ok("bd", "update", "fleet-a", "--claim", BEADS_ACTOR="bob")
    ended = tasks("bd", "unclaim", "fleet-a", "fleet-b", "fleet-zz", "--force")
    assert (ended.code, ended.out) == (1, "✓ Unclaimed fleet-a\n")
    assert "Error unclaiming fleet-b: issue fleet-b is not assigned\n" in ended.err
    assert 'Error resolving fleet-zz: no issue found matching "fleet-zz"\n' in ended.err


def test_unclaim_needs_force_when_a_supervisor_holds_the_task(tasks: Program, store: SqliteStore) -> None:
    lane = Lane(room=1, where=Filter(ids=("fleet-a",)))
    (claim,) = store.claims.acquire("host-1", [lane], room=1, ttl=timedelta(hours=1))
    assert tasks("bd", "unclaim", "fleet-a", BEADS_ACTOR="host-1").code == 1
    assert len(store.claims.renew([claim], ttl=HOUR)) == 1
    tasks.ok("bd", "unclaim", "fleet-a", "--force")
    assert store.claims.renew([claim], ttl=HOUR) == []


def test_refused_changes_leave_no_trace(tasks: Program) -> None:
    missing = 'no issue found matching "fleet-zz"'
    refusals = [
        (["assign", "fleet-zz", "bob"], f"resolving fleet-zz: {missing}"),
        (["assign", "fleet-a"], "accepts 2 arg(s), received 1"),
        (["assign", "fleet-a", "bob", "carol"], "accepts 2 arg(s), received 3"),
        (["assign", "fleet-a", "a\nb"], "assignee has the control character U+000A"),
        (["assign", "fleet-a", "x" * 256], "assignee must be 255 characters or less"),
        (["priority", "fleet-zz", "1"], f"resolving fleet-zz: {missing}"),
        (["priority", "fleet-a", "9"], 'invalid priority "9" (expected 0-4 or P0-P4, not words like high/medium/low)'),
        (["priority", "fleet-a", DROP], f'invalid priority "{DROP}"'),
        (["priority", "fleet-a", "-1"], "unknown shorthand flag: '1' in -1"),
        (["priority", "fleet-a"], "accepts 2 arg(s), received 1"),
        (["note", "fleet-zz", "words"], f"resolving fleet-zz: {missing}"),
        (["note", "fleet-a"], "no note text provided (use positional args, --stdin, or --file)"),
        (["note", "fleet-a", " "], "note text cannot be empty"),
        (["note", "fleet-a", "words", "--file", "x"], 'cannot combine positional text "words" with --file'),
        (["note"], "requires at least 1 arg(s), only received 0"),
        (["defer", "fleet-a", "fleet-zz"], missing),
        (["defer", "fleet-a", "--until", "someday"], 'invalid --until format "someday". Examples: +1h, tomorrow, next'),
        (["defer"], "requires at least 1 arg(s), only received 0"),
        (["undefer", "fleet-a", "fleet-zz"], missing),
        (["undefer"], "requires at least 1 arg(s), only received 0"),
        (["unclaim"], "requires at least 1 arg(s), only received 0"),
    ]
    before = kept(tasks)
    for args, error in refusals:
        ended = tasks("bd", *args, "--json")
        assert ended.code == 1 and json.loads(ended.out)["error"].startswith(error), ended
        assert ended.err.startswith("Error: ")
    assert kept(tasks) == before
