"""The contract of all stores for finding tasks: each condition, each order, and counting."""

from collections.abc import Callable, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import pytest

from builders import HOUR, MINUTE, NOON, FakeClock, a_task, an_edge
from fleet.core.dependency import PARENT_CHILD, Edge
from fleet.core.filter import SORTS, Filter
from fleet.core.task import NOT_WORK, Task
from fleet.core.workflow import BY_HAND, CUT_SHORT, NOT_BEGUN
from fleet.store.base import Store

pytestmark = pytest.mark.bd_in_soak

EARLIER, LATER = NOON - HOUR, NOON + HOUR
Prepare = Callable[[Store], None]


def nothing_more(store: Store) -> None:
    """Add nothing: the case needs only its two tasks."""


def under(parent: str, child: str, **changes: Any) -> Prepare:
    """Return a function that adds a parent for one of the two tasks."""

    def prepare(store: Store) -> None:
        store.tasks.add(a_task(id=parent, type="molecule", **changes))
        store.edges.add(an_edge(child, parent, PARENT_CHILD))

    return prepare


def under_in_two_steps(store: Store) -> None:
    """Add a grandparent for the task that matches."""
    under("fleet-between", "fleet-fits")(store)
    under("fleet-above", "fleet-between")(store)


def blocked(task: str) -> Prepare:
    """Return a function that adds an open dependency of one of the two tasks."""

    def prepare(store: Store) -> None:
        store.tasks.add(a_task(id="fleet-needed", type="molecule"))
        store.edges.add(an_edge(task, "fleet-needed"))

    return prepare


class Case(NamedTuple):
    """A value for a condition, a task that matches it, and a task that does not."""

    wanted: Any
    fits: Mapping[str, Any] = MappingProxyType({})
    misses: Mapping[str, Any] = MappingProxyType({})
    prepare: Prepare = nothing_more

    def ids(self) -> tuple[str, str]:
        """Return the ids of the two tasks."""
        return self.fits.get("id", "fleet-fits"), self.misses.get("id", "fleet-misses")


CASES = {
    "ids": [Case(("fleet-fits", "nope"))],
    "id_has": [Case("fit")],
    "id_after": [Case("fleet-f", {}, {"id": "fleet-f"})],
    "statuses": [Case(("blocked", "mine"), {"status": "mine"}, {"status": "open"})],
    "not_statuses": [Case(("open", "closed"), {"status": "blocked"}, {"status": "open"})],
    "stopped": [
        Case(True, {"status": "blocked", "reason": f"{why}: x"}, {"status": "blocked", "reason": f"x: {why}"})
        for why in (BY_HAND, NOT_BEGUN, CUT_SHORT)
    ]
    + [Case(False, {"reason": BY_HAND}, {"status": "blocked", "reason": BY_HAND})],
    "unfinished": [Case(True, {"status": "pinned"}, {"status": "closed"})],
    "priority": [Case(0, {"priority": 0}, {"priority": 1})],
    "priority_min": [Case(3, {"priority": 3}, {"priority": 2})],
    "priority_max": [Case(1, {"priority": 1}, {"priority": 2})],
    "types": [Case(("bug", "epic"), {"type": "epic"}, {"type": "task"})],
    "not_types": [Case(("bug", "epic"), {"type": "task"}, {"type": "bug"})],
    "assignee": [Case("ada", {"assignee": "ada"}, {"assignee": "Ada"}), Case("", {}, {"assignee": "ada"})],
    "unassigned": [Case(True, {}, {"assignee": "ada"})],
    "labels": [Case(("a", "b"), {"labels": ("a", "b", "c")}, {"labels": ("a", "c")})],
    "any_label": [Case(("a", "b"), {"labels": ("b", "z")}, {"labels": ("z",)})],
    "not_labels": [Case(("a", "b"), {"labels": ("z",)}, {"labels": ("b", "z")})],
    "label_glob": [
        Case("team-*", {"labels": ("z", "team-x")}, {"labels": ("a-team-x",)}),
        Case("v[0-9]?", {"labels": ("v1a",)}, {"labels": ("V1a", "vx1")}),
    ],
    "label_regex": [Case("^v[0-9]+$", {"labels": ("z", "v12")}, {"labels": ("v12x", "V1")})],
    "unlabelled": [Case(True, {}, {"labels": ("a",)})],
    "text": [
        Case("NEEDLE", {"title": "a needle"}, {"notes": "needle"}),
        Case("needle", {"description": "Needle"}, {"design": "needle"}),
        Case("FITS"),
        Case("GRÜSSE", {"title": "grüsse"}, {"title": "grusse"}),
        Case("100%_'", {"title": "100%_' sure"}, {"title": "100 sure'"}),
    ],
    "title_has": [Case("NEEDLE", {"title": "a needle"}, {"description": "needle"})],
    "description_has": [Case("NEEDLE", {"description": "a needle"}, {"title": "needle"})],
    "notes_has": [Case("NEEDLE", {"notes": "a needle"}, {"description": "needle"})],
    "undescribed": [Case(True, {}, {"description": "x"})],
    "spec": [Case("spec-1", {"spec_id": "spec-12"}, {"spec_id": "a-spec-1"})],
    "external_ref": [Case("gh-1", {"external_ref": "gh-1"}, {"external_ref": "gh-12"})],
    "parent": [Case("fleet-parent", prepare=under("fleet-parent", "fleet-fits"))],
    "under": [Case("fleet-parent", prepare=under("fleet-parent", "fleet-fits"))],
    "orphan": [Case(True, prepare=under("none-parent", "fleet-misses"))],
    "created_after": [Case(NOON, {"created_at": NOON + HOUR}, {"created_at": NOON})],
    "created_before": [Case(NOON, {"created_at": EARLIER}, {"created_at": NOON})],
    "updated_after": [Case(NOON, {"updated_at": LATER}, {"updated_at": NOON})],
    "updated_before": [Case(NOON, {"updated_at": EARLIER}, {"updated_at": NOON})],
    "closed_after": [
        Case(NOON, {"status": "closed", "closed_at": LATER}, {"status": "closed", "closed_at": NOON}),
        Case(NOON, {"status": "closed", "closed_at": LATER}, {}),
    ],
    "closed_before": [
        Case(NOON, {"status": "closed", "closed_at": EARLIER}, {"status": "closed", "closed_at": NOON}),
        Case(NOON, {"status": "closed", "closed_at": EARLIER}, {}),
    ],
    "deferred": [Case(True, {"defer_until": EARLIER}, {})],
    "defer_after": [Case(NOON, {"defer_until": LATER}, {"defer_until": NOON}), Case(NOON, {"defer_until": LATER})],
    "defer_before": [Case(NOON, {"defer_until": EARLIER}, {"defer_until": NOON}), Case(NOON, {"defer_until": EARLIER})],
    "due_after": [Case(NOON, {"due_at": LATER}, {"due_at": NOON}), Case(NOON, {"due_at": LATER})],
    "due_before": [Case(NOON, {"due_at": EARLIER}, {"due_at": NOON}), Case(NOON, {"due_at": EARLIER})],
    "overdue": [
        Case(True, {"due_at": EARLIER}, {"due_at": NOON}),
        Case(True, {"due_at": EARLIER}, {"due_at": EARLIER, "status": "closed"}),
        Case(True, {"due_at": EARLIER}, {}),
    ],
    "pinned": [Case(True, {"pinned": True}, {}), Case(True, {"status": "pinned"}, {})],
    "template": [Case(True, {"is_template": True}, {})],
    "ephemeral": [Case(True, {"ephemeral": True}, {})],
    "metadata": [
        Case({"k": "v"}, {"metadata": {"k": "v", "x": "y"}}, {"metadata": {"k": "V"}}),
        Case({"k": "v", "x": "y"}, {"metadata": {"k": "v", "x": "y"}}, {"metadata": {"k": "v"}}),
        Case({"k": "1"}, {"metadata": {"k": 1}}, {"metadata": {"k": True}}),
        Case({"k": "0"}, {"metadata": {"k": 0}}, {"metadata": {"k": False}}),
        Case({"k": "true"}, {"metadata": {"k": True}}, {"metadata": {"k": 1}}),
        Case({"k": "false"}, {"metadata": {"k": False}}, {"metadata": {"k": "true"}}),
        Case({"k": "2.5"}, {"metadata": {"k": 2.5}}, {"metadata": {"k": [2.5]}}),
        Case({"fleet.coder": "codex"}, {"coder": "codex"}, {"metadata": {"fleet.coder": "codex"}}),
        Case({"k": ""}, {"metadata": {"k": ""}}, {}),
    ],
    "metadata_key": [
        Case("k", {"metadata": {"k": ""}}, {"metadata": {"x": "k"}}),
        Case("k", {"metadata": {"k": {}}}, {"metadata": {"k": None}}),
        Case("fleet.cwd", {"cwd": "/x"}, {"metadata": {"fleet.cwd": "/x"}}),
    ],
    "ready": [
        Case(True, {}, {"status": "in_progress"}),
        Case(True, {}, {"pinned": True}),
        Case(True, {}, {"is_template": True}),
        Case(True, {"assignee": "ada", "defer_until": LATER}, {"claim_owner": "host"}),
        Case(True, {}, {}, blocked("fleet-misses")),
    ],
    "due_to_start": [
        Case(True, {}, {"defer_until": LATER}),
        Case(True, {"defer_until": NOON}, {"defer_until": NOON + MINUTE}),
        Case(True, {"defer_until": EARLIER}, {}, under("none-parent", "fleet-misses", defer_until=LATER)),
    ],
    "work": [Case(True, {"type": "of-my-own"}, {"type": kind}) for kind in NOT_WORK],
    "claimable": [
        Case(True, {}, {"assignee": "ada"}),
        Case(True, {}, {"ephemeral": True}),
        Case(True, {}, {"claim_owner": "host"}),
        Case(True, {}, {"status": "closed"}),
        Case(True, {}, {}, blocked("fleet-misses")),
    ],
    "blocked": [Case(True, {}, {}, blocked("fleet-fits")), Case(True, {}, {"status": "closed"}, blocked("fleet-fits"))],
    "coder": [Case("claude", {"coder": "claude"}, {"coder": "codex"}), Case("", {}, {"coder": "codex"})],
    "coders": [
        Case(("", "a"), {"coder": "a"}, {"coder": "A"}),
        Case(("", "a"), {}, {"coder": "b"}),
        Case(("b",), {"coder": "b"}, {}),
    ],
    "account": [Case("work", {"account": "work"}, {}), Case("", {}, {"account": "work"})],
    "accounts": [
        Case(("", "a"), {"account": "a"}, {"account": "A"}),
        Case(("", "a"), {}, {"account": "b"}),
        Case(("b",), {"account": "b"}, {}),
    ],
    "mode": [Case("headless", {"mode": "headless"}, {"mode": "interactive"})],
    "modes": [
        Case(("", "a"), {"mode": "a"}, {"mode": "A"}),
        Case(("", "a"), {}, {"mode": "b"}),
        Case(("b",), {"mode": "b"}, {}),
    ],
    "origins": [Case(("create", "fanout"), {"origin": "fanout"}, {"origin": "bd"})],
    "not_origins": [Case(("mcp", "workflow"), {"origin": ""}, {"origin": "mcp"})],
    "offers": [Case(("gpu", "big"), {"requires": '["gpu"]'}, {"requires": '["arm", "gpu"]'})],
    "requires": [Case(True, {"requires": '["gpu"]'}, {})],
    "batch": [Case("b1", {"batch": "b1"}, {"batch": "b12"})],
    "made_by": [Case("fleet-a", {"made_by": "fleet-a"}, {"made_by": "fleet-ab"})],
    "repo": [Case("/r", {"repo": "/r"}, {"repo": "/r2"})],
    "branch": [Case("a/b", {"branch": "a/b"}, {"branch": "a-b"}), Case("x", {"branch": "x"}, {"branch": "X"})],
    "branches": [Case(("x", "y"), {"branch": "y"}, {"branch": "Y"}), Case(("", "x"), {"branch": "x"}, {})],
    "workspace": [
        Case("worktree", {"workspace": "worktree"}, {"workspace": "directory"}),
        Case("", {}, {"workspace": "x"}),
    ],
}


class Renamed:
    """A store that gives the tasks of each case separate ids."""

    def __init__(self, store: Store, number: int) -> None:
        self._store, self._number = store, number
        self.tasks, self.edges = SimpleNamespace(add=self._add_task), SimpleNamespace(add=self._add_edge)

    def _add_task(self, task: Task) -> None:
        self._store.tasks.add(task.replace(id=self.key(task.id)))

    def _add_edge(self, edge: Edge) -> None:
        self._store.edges.add(edge.replace(task=self.key(edge.task), needs=self.key(edge.needs)))

    def key(self, given: str) -> str:
        return f"{given}-{self._number}"

    def wanted(self, name: str, value: Any) -> Any:
        """Return the value of a condition with the ids of this case."""
        if name == "ids":
            return tuple(self.key(each) for each in value)
        return self.key(value) if name in ("id_after", "parent", "under") else value


#: All cases with their condition and their number, which is the suffix of their ids.
NUMBERED = list(enumerate((name, case) for name, group in CASES.items() for case in group))


def fill(store: Store) -> None:
    """Add the tasks of every case."""
    with store.atomic():
        for number, (_, case) in NUMBERED:
            renamed: Any = Renamed(store, number)
            renamed.tasks.add(a_task(**{"id": "fleet-fits", "title": "one", **case.fits}))
            renamed.tasks.add(a_task(**{"id": "fleet-misses", "title": "other", **case.misses}))
            case.prepare(renamed)


def wrongly_found(store: Store, leave_out: Callable[[str, Case], bool] = lambda name, case: False) -> list[str]:
    """Return the cases with wrong matches, or whose count differs from their matches."""
    wrong = []
    for number, (name, case) in NUMBERED:
        if leave_out(name, case):
            continue
        renamed = Renamed(store, number)
        fits, misses = (renamed.key(key) for key in case.ids())
        asked = [(renamed.wanted(name, case.wanted), {fits})]
        if case.wanted is True:
            asked.append((False, {misses}))
        for value, expected in asked:
            where = Filter(**{name: value})
            found = [task.id for task in store.tasks.find(where)]
            if {*found} & {fits, misses} != expected or store.tasks.count(where)[""] != len(found):
                wrong.append(f"{name}={value!r}, of {dict(case.fits)} and {dict(case.misses)}")
    return wrong


def test_every_condition_has_a_case() -> None:
    assert set(CASES) == set(Filter._fields)


def test_each_condition_finds_exactly_the_matching_tasks(store: Store) -> None:
    fill(store)
    wrong = wrongly_found(store)
    assert not wrong, "\n".join(wrong)


def test_empty_filter_finds_all_tasks(store: Store) -> None:
    assert store.tasks.find(Filter()) == []
    store.tasks.add(a_task(status="closed"))
    store.tasks.add(a_task(is_template=True))
    assert len(store.tasks.find(Filter())) == 2


def test_task_must_match_all_conditions_of_a_filter(store: Store) -> None:
    store.tasks.add(a_task(id="both", priority=1, labels=("x",)))
    store.tasks.add(a_task(priority=1))
    store.tasks.add(a_task(priority=2, labels=("x",)))
    assert [task.id for task in store.tasks.find(Filter(priority=1, labels=("x",)))] == ["both"]


def test_empty_lists_match_no_value_or_exclude_none(store: Store) -> None:
    store.tasks.add(a_task(labels=("x",)))
    none = (Filter(ids=()), Filter(statuses=()), Filter(types=()), Filter(any_label=()), Filter(origins=()))
    everything = (Filter(labels=()), Filter(not_labels=()), Filter(not_types=()), Filter(metadata={}))
    assert [len(store.tasks.find(where)) for where in none + everything] == [0] * 5 + [1] * 4


def test_descendants_are_found_at_any_depth_and_children_at_one(store: Store) -> None:
    store.tasks.add(a_task(id="fleet-fits"))
    under_in_two_steps(store)
    assert [task.id for task in store.tasks.find(Filter(under="fleet-above"), sort="id")] == [
        "fleet-between",
        "fleet-fits",
    ]
    assert [task.id for task in store.tasks.find(Filter(parent="fleet-above"))] == ["fleet-between"]
    assert store.tasks.find(Filter(under="nope")) == []


def test_task_with_two_parents_is_found_under_each(store: Store) -> None:
    store.tasks.add(a_task(id="fleet-fits"))
    under("fleet-one", "fleet-fits")(store)
    under("fleet-two", "fleet-fits", defer_until=LATER)(store)
    for parent in ("fleet-one", "fleet-two"):
        assert [task.id for task in store.tasks.find(Filter(parent=parent))] == ["fleet-fits"]
    assert [task.id for task in store.tasks.find(Filter(due_to_start=False), sort="id")] == ["fleet-fits", "fleet-two"]


def test_due_to_start_depends_on_the_clock(store: Store, clock: FakeClock) -> None:
    store.tasks.add(a_task(defer_until=LATER))
    assert store.tasks.find(Filter(due_to_start=True)) == []
    clock.advance(HOUR)
    assert len(store.tasks.find(Filter(due_to_start=True))) == 1


SORTED = [
    a_task(id="a", priority=2, created_at=NOON, title="b", type="task", assignee="z", updated_at=LATER),
    a_task(id="b", priority=0, created_at=LATER, title="B", type="bug", status="closed", closed_at=LATER),
    a_task(id="c", priority=2, created_at=EARLIER, title="ü", type="bug", assignee="a", updated_at=EARLIER),
    a_task(id="d", priority=2, created_at=NOON, title="b", type="task", status="closed", closed_at=NOON),
    a_task(id="e", priority=4, created_at=NOON, title="!", type="epic", status="blocked", assignee="a"),
]
ORDERS = {
    "priority": "badce",
    "oldest": "cadeb",
    "urgent": "bcade",
    "hybrid": "bcade",
    "created": "badec",
    "updated": "abdec",
    "closed": "bdace",
    "status": "ebdac",
    "id": "abcde",
    "title": "eabdc",
    "type": "bcead",
    "assignee": "bdcea",
}


def test_each_order_is_kept_and_its_reverse_mirrors_it(store: Store) -> None:
    def found(where: Filter, **how: Any) -> str:
        return "".join(task.id for task in store.tasks.find(where, **how))

    with store.atomic():
        for task in SORTED[::-1]:
            store.tasks.add(task)
    answers = {}
    for sort in SORTS:
        parts = [found(Filter(), sort=sort, limit=limit) for limit in (99, 2)]
        whole = [found(Filter(), sort=sort, reverse=reverse) for reverse in (False, True)]
        answers[sort] = [*whole, *parts, found(Filter(unfinished=True), sort=sort)]
    unfinished = str.maketrans("", "", "bd")
    assert answers == {
        sort: [order, order[::-1], order, order[:2], order.translate(unfinished)] for sort, order in ORDERS.items()
    }


def test_hybrid_order_sorts_new_tasks_by_priority_and_old_ones_by_age(store: Store, clock: FakeClock) -> None:
    for key, priority, hours in (("a", 0, 60), ("b", 4, 50), ("c", 2, 49), ("d", 4, 48), ("e", 1, 1), ("f", 1, 2)):
        store.tasks.add(a_task(id=key, priority=priority, created_at=NOON - hours * HOUR))
    assert "".join(task.id for task in store.tasks.find(Filter(), sort="hybrid")) == "fedabc"
    assert "".join(task.id for task in store.tasks.find(Filter(), sort="hybrid", reverse=True)) == "cbadef"
    clock.advance(HOUR)
    assert "".join(task.id for task in store.tasks.find(Filter(), sort="hybrid", limit=3)) == "fea"


def test_tasks_are_counted_in_groups(store: Store) -> None:
    assert store.tasks.count(Filter()) == {"": 0}
    assert store.tasks.count(Filter(), by="status") == {}
    for task in SORTED:
        store.tasks.add(task.replace(labels=("x", task.type)))
    assert store.tasks.count(Filter()) == {"": 5}
    assert store.tasks.count(Filter(priority=2)) == {"": 3}
    assert store.tasks.count(Filter(), by="status") == {"open": 2, "closed": 2, "blocked": 1}
    assert store.tasks.count(Filter(), by="priority") == {"0": 1, "2": 3, "4": 1}
    assert store.tasks.count(Filter(), by="type") == {"task": 2, "bug": 2, "epic": 1}
    assert store.tasks.count(Filter(unfinished=True), by="assignee") == {"a": 2, "z": 1}
    assert store.tasks.count(Filter(), by="assignee") == {"a": 2, "z": 1, "": 2}
    assert store.tasks.count(Filter(priority=2), by="label") == {"x": 3, "task": 2, "bug": 1}
