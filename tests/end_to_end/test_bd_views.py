"""`bd count`, `stats`, `blocked`, `search`, `stale` and `children`, as bd 1.3.0 answers them."""

import json
import shutil
from typing import Any

import pytest

from program import Program

OLD = "2021-03-0{}T10:00:00Z"


def row(number: int, key: str, title: str, **more: Any) -> str:
    when = OLD.format(number)
    given = {"status": "open", "priority": 2, "issue_type": "task", "created_at": when, "updated_at": when}
    return json.dumps({"id": f"fleet-{key}", "title": title, **given, **more})


def needs(*targets: tuple[str, str]) -> list[dict[str, str]]:
    return [{"depends_on_id": f"fleet-{key}", "type": kind} for key, kind in targets]


ROWS = [
    row(1, "epc", "Build the shop", priority=1, issue_type="epic", labels=["shop"]),
    row(
        *(2, "epc.1", "Draw the page"),
        assignee="alice",
        labels=["shop", "web"],
        dependencies=needs(("epc", "parent-child")),
    ),
    row(
        *(3, "epc.2", "Wire the page"),
        notes="drawing first",
        labels=["shop"],
        dependencies=needs(("epc", "parent-child"), ("epc.1", "blocks")),
    ),
    row(
        *(4, "bug", "Login fails"),
        status="in_progress",
        assignee="bob",
        priority=0,
        issue_type="bug",
        labels=["tech-debt", "web"],
        description="The SIGN-IN answers 500.",
        external_ref="gh-7",
    ),
    row(5, "cho", "Sweep the floor", priority=3, issue_type="chore", metadata={"team": "platform", "n": 3}),
    row(6, "dfr", "Later", status="deferred", priority=4),
    row(7, "blk", "Needs a person", status="blocked", assignee="alice"),
    row(8, "cls", "Done page", status="closed", priority=1),
]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Return a queue with tasks of many kinds, for tests that only read."""
    fleet = Program(tmp_path_factory.mktemp("shop"))
    fleet.ok("bd", "import", "-", stdin="\n".join(ROWS))
    return fleet


@pytest.fixture
def own_shop(shop: Program, fleet: Program) -> Program:
    """Return a copy of the same queue for a test that changes it."""
    shutil.copytree(shop.home, fleet.home)
    return fleet


def answer(fleet: Program, *args: str) -> Any:
    return json.loads(fleet.ok("bd", *args, "--json"))


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [each["id"].removeprefix("fleet-") for each in rows]


def test_count_counts_every_status(shop: Program) -> None:
    assert shop.ok("bd", "count") == "8\n"
    assert answer(shop, "count") == {"count": 8, "schema_version": 1}
    assert answer(shop, "count", "-s", "open", "-t", "task")["count"] == 2
    assert answer(shop, "count", "-s", "all", "-p", "P1")["count"] == 2
    assert answer(shop, "count", "--metadata-field", "team=platform")["count"] == 1


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        ("status", {"blocked": 1, "closed": 1, "deferred": 1, "in_progress": 1, "open": 4}),
        ("priority", {"P0": 1, "P1": 2, "P2": 3, "P3": 1, "P4": 1}),
        ("type", {"bug": 1, "chore": 1, "epic": 1, "task": 5}),
        ("assignee", {"(unassigned)": 5, "alice": 2, "bob": 1}),
        ("label", {"(no labels)": 4, "shop": 3, "tech-debt": 1, "web": 2}),
    ],
)
def test_count_groups_by_each_field(shop: Program, by: str, groups: dict[str, int]) -> None:
    found = answer(shop, "count", f"--by-{by}")
    assert found["total"] == 8
    assert [(each["group"], each["count"]) for each in found["groups"]] == list(groups.items())
    lines = shop.ok("bd", "count", f"--by-{by}").splitlines()
    assert lines == ["Total: 8", "", *(f"{name}: {number}" for name, number in groups.items())]


def test_count_refuses_two_groupings(shop: Program) -> None:
    result = shop("bd", "count", "--by-status", "--by-type")
    assert result.code == 1
    assert result.err.startswith("Error: only one --by-* flag can be specified\n")


def test_stats_prints_a_summary(shop: Program) -> None:
    assert answer(shop, "stats")["summary"] == {
        "total_issues": 8,
        "open_issues": 4,
        "in_progress_issues": 1,
        "closed_issues": 1,
        "blocked_issues": 1,
        "deferred_issues": 1,
        "ready_issues": 3,
        "pinned_issues": 0,
        "epics_eligible_for_closure": 0,
        "average_lead_time_hours": 0,
    }
    out = shop.ok("bd", "status", "--no-activity", "--all")
    assert "  Total Issues:           8\n" in out and "  Ready to Work:          3\n" in out


def test_stats_counts_the_actors_own_tasks(shop: Program) -> None:
    summary = answer(shop, "stats", "--assigned", "--actor", "alice")["summary"]
    assert (summary["total_issues"], summary["open_issues"], summary["ready_issues"]) == (2, 1, 1)


def test_blocked_names_the_blockers(shop: Program) -> None:
    [found] = answer(shop, "blocked")
    assert (found["id"], found["blocked_by_count"], found["blocked_by"]) == ("fleet-epc.2", 1, ["fleet-epc.1"])
    assert list(found)[-2:] == ["blocked_by_count", "blocked_by"]
    out = shop.ok("bd", "blocked")
    assert "[P2] fleet-epc.2: Wire the page\n  Blocked by 1 open dependencies: [fleet-epc.1]\n" in out
    assert ids(answer(shop, "blocked", "--parent", "fleet-epc")) == ["epc.2"]
    assert answer(shop, "blocked", "--parent", "fleet-bug") == []
    assert answer(shop, "blocked", "-l", "web") == []


def test_child_of_a_blocked_task_is_blocked_by_its_parent(own_shop: Program) -> None:
    own_shop.ok("bd", "import", "-", stdin=row(9, "sub", "Below", dependencies=needs(("epc.2", "parent-child"))))
    found = {each["id"]: each["blocked_by"] for each in answer(own_shop, "blocked")}
    assert found == {"fleet-epc.2": ["fleet-epc.1"], "fleet-sub": ["fleet-epc.2"]}


def test_blocked_reports_when_nothing_is_blocked(fleet: Program) -> None:
    fleet.ok("bd", "init")
    assert fleet.ok("bd", "blocked") == "\n✨ No blocked issues\n\n"
    assert answer(fleet, "blocked") == []


def test_search_matches_titles_descriptions_and_ids_in_every_status(shop: Program) -> None:
    assert ids(answer(shop, "search", "PAGE")) == ["cls", "epc.2", "epc.1"]
    assert ids(answer(shop, "search", "sign-in")) == ["bug"]
    assert ids(answer(shop, "search", "epc.2")) == ["epc.2"]
    assert ids(answer(shop, "search", "--query", "page", "-s", "open,in_progress")) == ["epc.2", "epc.1"]
    first = answer(shop, "search", "wire")[0]
    assert (first["dependency_count"], first["dependent_count"], first["comment_count"]) == (1, 0, 0)
    assert "dependencies" not in first


def test_search_prints_text(shop: Program) -> None:
    assert shop.ok("bd", "search", "login") == (
        "Found 1 issues matching 'login':\nfleet-bug [P0] [bug] in_progress @bob [tech-debt web] - Login fails\n"
    )
    long = shop.ok("bd", "search", "login", "--long")
    assert "fleet-bug [P0] [bug] in_progress\n  Login fails\n  Assignee: bob\n  Labels: [tech-debt web]\n" in long
    assert shop.ok("bd", "search", "nothing\x1blike") == "No issues found matching 'nothing\\x1blike'\n"
    assert answer(shop, "search", "nothinglike") == []


def test_search_filters_and_sorts(shop: Program) -> None:
    assert ids(answer(shop, "search", "page", "-n", "1")) == ["cls"]
    assert ids(answer(shop, "search", "page", "--sort", "created", "-r")) == ["epc.1", "epc.2", "cls"]
    assert ids(answer(shop, "search", "i", "--external-contains", "GH-7")) == ["bug"]
    assert ids(answer(shop, "search", "page", "-a", "alice")) == ["epc.1"]
    assert ids(answer(shop, "search", "page", "--notes-contains", "drawing")) == ["epc.2"]
    assert ids(answer(shop, "search", "e", "--created-after", "2021-03-06T00:00:00Z", "-s", "open")) == []


@pytest.mark.parametrize("args", [[], ["--query", " "], ["x", "--sort", "colour"], ["x", "-n", "-1"]])
def test_search_refuses_invalid_arguments(shop: Program, args: list[str]) -> None:
    result = shop("bd", "search", *args)
    assert result.code == 1 and result.err.startswith("Error: ")


def test_stale_lists_tasks_that_were_not_updated_for_long(shop: Program) -> None:
    assert ids(answer(shop, "stale")) == ["epc", "epc.1", "epc.2", "bug", "cho"]
    assert ids(answer(shop, "stale", "-s", "blocked")) == ["blk"]
    assert ids(answer(shop, "stale", "-n", "2")) == ["epc", "epc.1"]
    out = shop.ok("bd", "stale", "-n", "2")
    assert "⏰ Stale issues (2 not updated in 30+ days):" in out
    assert "2. [P2] fleet-epc.1: Draw the page\n   Status: open, Last updated: " in out
    assert "   Assignee: alice\n" in out
    assert shop.ok("bd", "stale", "-d", "36500") == "\n✨ No stale issues found (all active)\n\n"


def test_stale_omits_a_task_that_was_just_updated(own_shop: Program) -> None:
    own_shop.ok("bd", "update", "fleet-epc", "--priority", "0")
    assert ids(answer(own_shop, "stale")) == ["epc.1", "epc.2", "bug", "cho"]


@pytest.mark.parametrize("args", [["-d", "0"], ["-d", "9999999"], ["-s", "closed"], ["-d", "x"]])
def test_stale_refuses_invalid_arguments(shop: Program, args: list[str]) -> None:
    assert shop("bd", "stale", *args).code == 1


def test_children_are_drawn_below_their_parent(shop: Program) -> None:
    lines = shop.ok("bd", "children", "fleet-epc").splitlines()
    assert lines[:3] == [
        "○ fleet-epc P1 [epic] Build the shop",
        "├── ○ fleet-epc.1 P2 Draw the page",
        "└── ○ fleet-epc.2 P2 Wire the page",
    ]
    assert "Total: 3 issues (3 open, 0 in progress)" in lines
    found = answer(shop, "children", "epc")
    assert ids(found) == ["epc.2", "epc.1"] and {each["parent"] for each in found} == {"fleet-epc"}


def test_children_reports_a_task_without_children_and_an_unknown_task(shop: Program) -> None:
    assert shop.ok("bd", "children", "fleet-cho") == "Issue 'fleet-cho' has no children\n"
    assert answer(shop, "children", "fleet-cho") == []
    result = shop("bd", "children", "fleet-zzz")
    assert result.code == 1
    assert result.err.startswith("Error: error checking parent issue: not found: issue fleet-zzz\n")
