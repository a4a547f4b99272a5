"""`bd label`, `bd tag`, `bd comment` and `bd comments`: text, JSON and refusals."""

import json
import re

import pytest

from builders import NOON
from fleet.core.task import Comment
from fleet.store.sqlite.store import SqliteStore
from program import Program

DROP = "'; drop table tasks;--"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


@pytest.fixture
def tasks(fleet: Program) -> Program:
    """Return a queue with two tasks, and an epic with two children."""
    names = ("a", "b", "epc", "epc.1", "epc.2")
    rows = [{"id": f"fleet-{name}", "title": f"Task {name}", "priority": 2} for name in names]
    tie = {"depends_on_id": "fleet-epc", "type": "parent-child"}
    children = [{**row, "dependencies": [tie]} if "." in row["id"] else row for row in rows]  # type: ignore[operator]
    fleet.ok("bd", "import", "-", stdin="".join(json.dumps(row) + "\n" for row in children))
    fleet.env["BEADS_ACTOR"] = "alice"
    return fleet


def kept(fleet: Program) -> str:
    return fleet.ok("bd", "export", "--all")


def labels(fleet: Program, name: str) -> list[str]:
    found: list[str] = json.loads(fleet.ok("bd", "label", "list", f"fleet-{name}", "--json"))
    return found


def check_refusals(fleet: Program, table: list[tuple[list[str], str]]) -> None:
    """Check that each command fails with exit code 1 in text and JSON, and that none changes anything."""
    before = kept(fleet)
    for args, error in table:
        ended = fleet("bd", *args, "--json")
        assert ended.code == 1 and ended.err.startswith("Error: "), ended
        assert json.loads(ended.out)["error"].startswith(error), ended
    assert kept(fleet) == before


def test_labels_are_added_to_several_tasks_at_once(tasks: Program) -> None:
    assert tasks.ok("bd", "label", "add", "fleet-a", "web") == "✓ Added label 'web' to fleet-a\n"
    answer = json.loads(tasks.ok("bd", "label", "add", "fleet-a", "fleet-b", "one, two", "--json"))
    assert answer == [
        {"issue_id": key, "label": label, "status": "added"}
        for key in ("fleet-a", "fleet-b")
        for label in ("one", "two")
    ]
    assert labels(tasks, "a") == ["one", "two", "web"]
    before = kept(tasks)
    assert tasks.ok("bd", "label", "add", "fleet-a", "web,web") == "✓ Added label 'web' to fleet-a\n"
    assert kept(tasks) == before, "a label it has already changes nothing"


def test_labels_are_removed(tasks: Program) -> None:
    tasks.ok("bd", "label", "add", "fleet-a", "fleet-b", "one,two")
    assert tasks.ok("bd", "label", "rm", "fleet-a", "one,two") == "✓ Removed labels 'one', 'two' from fleet-a\n"
    answer = json.loads(tasks.ok("bd", "label", "remove", "fleet-a", "fleet-b", "two", "--json"))
    assert answer == [
        {"issue_id": "fleet-a", "label": "two", "status": "removed"},
        {"issue_id": "fleet-b", "label": "two", "status": "removed"},
    ]
    assert (labels(tasks, "a"), labels(tasks, "b")) == ([], ["one"])


def test_labels_are_listed(tasks: Program) -> None:
    assert tasks.ok("bd", "label", "list-all") == "\nNo labels found in database\n"
    tasks.ok("bd", "label", "add", "fleet-a", "fleet-b", "urgent")
    tasks.ok("bd", "label", "add", "fleet-a", "b c")
    assert tasks.ok("bd", "label", "list", "fleet-a") == "\n🏷 Labels for fleet-a:\n  - b c\n  - urgent\n\n"
    assert tasks.ok("bd", "label", "list", "fleet-epc") == "\nfleet-epc has no labels\n"
    assert (
        tasks.ok("bd", "label", "list-all")
        == "\n🏷 All labels (2 unique):\n  b c     (1 issues)\n  urgent  (2 issues)\n\n"
    )
    assert json.loads(tasks.ok("bd", "label", "list-all", "--json")) == [
        {"label": "b c", "count": 1},
        {"label": "urgent", "count": 2},
    ]


def test_label_propagate_adds_the_label_to_the_children(tasks: Program) -> None:
    assert tasks.ok("bd", "label", "propagate", "fleet-epc", "wave") == (
        "✓ Propagated label 'wave' to fleet-epc.1\n✓ Propagated label 'wave' to fleet-epc.2\n"
    )
    answer = json.loads(tasks.ok("bd", "label", "propagate", "fleet-epc", "wave", "--json"))
    assert answer[0] == {"issue_id": "fleet-epc.1", "label": "wave", "status": "propagated"}
    assert (labels(tasks, "epc"), labels(tasks, "epc.2")) == ([], ["wave"])
    assert tasks.ok("bd", "label", "propagate", "fleet-a", "wave") == "No children found for fleet-a\n"
    assert tasks.ok("bd", "label", "propagate", "fleet-a", "wave", "--json") == "[]\n"


def test_tag_adds_a_label(tasks: Program) -> None:
    assert tasks.ok("bd", "tag", "fleet-a", "web") == '✓ Added label "web" to fleet-a — Task a\n'
    answer = json.loads(tasks.ok("bd", "tag", "a", "api", "--json"))
    assert (answer["id"], answer["labels"], answer["schema_version"]) == ("fleet-a", ["api", "web"], 1)


def test_hostile_labels_are_stored_unchanged_or_refused(tasks: Program) -> None:
    for label in (DROP, '"quoted"', "-x", "--json", "$(id)", "ünï💥"):
        tasks.ok("bd", "label", "add", "--", "fleet-a", label)
    assert labels(tasks, "a") == sorted([DROP, '"quoted"', "-x", "--json", "$(id)", "ünï💥"])
    reserved = "'provides:' labels are reserved for cross-project capabilities"
    check_refusals(
        tasks,
        [
            (["label", "add", "fleet-a", "a\nb"], "label has the control character U+000A"),
            (["label", "add", "fleet-a", "a\x1b[31m"], "label has the control character U+001B"),
            (["label", "add", "fleet-a", "x" * 256], "label must be 255 characters or less (got 256)"),
            (["label", "add", "fleet-a", " , "], "label cannot be empty"),
            (["label", "add", "fleet-a", "ok,provides:x"], reserved),
            (["label", "propagate", "fleet-epc", "provides:x"], reserved),
            (["tag", "fleet-a", "provides:x"], reserved),
            (["tag", "fleet-a", ""], "label cannot be empty"),
            (["label", "add", "fleet-zz", "x"], 'resolving issue ID "fleet-zz": no issue found matching "fleet-zz"'),
            (["label", "add", "fleet-a", "fleet-zz", "x"], 'resolving issue ID "fleet-zz": no issue found matching "f'),
            (["label", "remove", DROP, "x"], f'resolving issue ID "{DROP}": no issue found'),
            (["label", "list", "fleet-zz"], 'resolving fleet-zz: no issue found matching "fleet-zz"'),
            (["label", "propagate", "fleet-zz", "x"], "resolving parent fleet-zz: no issue found"),
            (["tag", "fleet-zz", "x"], "resolving fleet-zz: no issue found"),
            (["label", "add", "fleet-a"], "requires at least 2 arg(s), only received 1"),
            (["label", "list"], "accepts 1 arg(s), received 0"),
            (["label", "propagate", "fleet-a"], "accepts 2 arg(s), received 1"),
            (["tag", "fleet-a"], "accepts 2 arg(s), received 1"),
            (["label", "add", "fleet-a", "-x"], "unknown shorthand flag: 'x' in -x"),
        ],
    )


def test_comments_are_added_in_every_way_and_listed_in_order(tasks: Program) -> None:
    (tasks.cwd / "note.txt").write_text("From a file\n")
    assert tasks.ok("bd", "comments", "add", "fleet-a", "First words") == "Comment added to fleet-a\n"
    assert tasks.ok("bd", "comment", "a", "several", "bare", "words") == "✓ Comment added to fleet-a — Task a\n"
    piped = json.loads(tasks.ok("bd", "comment", "fleet-a", "--stdin", "--json", stdin="From a pipe\nTwo lines\n"))
    assert (piped["author"], piped["text"], piped["schema_version"]) == ("alice", "From a pipe\nTwo lines", 1)
    assert UUID.fullmatch(piped["id"]) and piped["created_at"].endswith("Z")
    tasks.ok("bd", "comments", "add", "fleet-a", "-f", "note.txt", "-a", "bob")
    tasks.ok("bd", "comment", "fleet-a", "--file", "note.txt")
    rows = json.loads(tasks.ok("bd", "comments", "fleet-a", "--json"))
    assert [(row["author"], row["text"]) for row in rows] == [
        ("alice", "First words"),
        ("alice", "several bare words"),
        ("alice", "From a pipe\nTwo lines"),
        ("bob", "From a file\n"),
        ("alice", "From a file\n"),
    ]
    assert {row["issue_id"] for row in rows} == {"fleet-a"} and len({row["id"] for row in rows}) == 5


def test_comments_are_shown_in_utc_or_local_time(tasks: Program) -> None:
    assert tasks.ok("bd", "comments", "fleet-a") == "No comments on fleet-a\n"
    assert tasks.ok("bd", "comments", "fleet-a", "--json") == "[]\n"
    store = SqliteStore(str(tasks.home / "fleet.db"))
    store.comments.add(
        Comment(id="1", task_id="fleet-a", author="eve\x1b[2J", text="one\n\x1b]0;x\x07two", created_at=NOON)
    )
    store.close()
    shown = "\nComments on fleet-a:\n\n[eve\\x1b[2J] at 2026-03-01 {}\n\n    one\n    \\x1b]0;x\\x07two\n\n"
    assert tasks.ok("bd", "comments", "fleet-a", TZ="Asia/Tokyo") == shown.format("12:00")
    assert tasks.ok("bd", "comments", "fleet-a", "--local-time", TZ="UTC-9") == shown.format("21:00")


def test_comment_may_hold_any_text_but_not_be_empty(tasks: Program) -> None:
    texts = [DROP, 'a "quote"', "line\nline\ttab", "-x --json", "\x1b[31mred", "💥" * 1000]
    for text in texts:
        tasks.ok("bd", "comment", "--", "fleet-a", text)
    assert [row["text"] for row in json.loads(tasks.ok("bd", "comments", "fleet-a", "--json"))] == texts
    no_text = "no comment text provided (use positional args"
    check_refusals(
        tasks,
        [
            (["comment", "fleet-a"], no_text + ", --stdin, or --file)"),
            (["comments", "add", "fleet-a"], no_text + " or -f to read from file)"),
            (["comment", "fleet-a", ""], "comment text cannot be empty"),
            (["comment", "fleet-a", "--stdin"], "comment text cannot be empty"),
            (["comments", "add", "fleet-a", " \n "], "comment text cannot be empty"),
            (["comment", "fleet-a", "--stdin", "words"], 'cannot combine positional text "words" with --stdin'),
            (["comments", "add", "fleet-a", "words", "-f", "x"], 'cannot combine positional text "words" with --file'),
            (["comment", "fleet-a", "--stdin", "--file", "x"], "if any flags in the group [stdin file] are set"),
            (["comment", "fleet-a", "--file", "/nowhere"], "cannot read /nowhere: No such file or directory"),
            (["comment", "fleet-a", "x", "-a", "a\nb"], "author has the control character U+000A"),
            (["comment", "fleet-zz", "x"], 'resolving fleet-zz: no issue found matching "fleet-zz"'),
            (["comments", "add", DROP, "x"], f"resolving {DROP}: no issue found"),
            (["comments", "fleet-zz"], 'resolving fleet-zz: no issue found matching "fleet-zz"'),
            (["comment"], "requires at least 1 arg(s), only received 0"),
            (["comments", "add"], "requires at least 1 arg(s), only received 0"),
            (["comments"], "requires at least 1 arg(s), only received 0"),
            (
                ["comments", "list", "fleet-a"],
                '"bd comments list" is not valid.\n\nTo list comments on an issue, run:\n',
            ),
            (["comments", "fleet-a", "fleet-b"], '"bd comments" takes a single issue id and lists its comments.'),
        ],
    )
