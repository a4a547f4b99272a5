"""fleet's copy of bd's tasks: bd can rebuild all of it, and changes by others in bd arrive."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import beads
from builders import HOUR, NOON, FakeClock, a_comment, a_task, an_edge
from fleet.beads import folder as beads_folder
from fleet.beads.store import BeadsStore
from fleet.core import clock
from fleet.core.errors import ClaimLost
from fleet.core.filter import Filter, Lane
from fleet.core.task import Verdict

TTL = 2 * HOUR


@pytest.fixture(params=[beads.NEW, pytest.param(beads.OLD, marks=pytest.mark.soak("queues"))])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BeadsStore]:
    opened = beads.store_in(tmp_path, request.param, clock.now)
    yield opened
    opened.close()


def bd(store: BeadsStore, *argv: str, actor: str = "ada") -> Any:
    """Run the real bd without fleet. Return its parsed output."""
    env = store.mirror.bd.environment(actor)
    done = subprocess.run([store.mirror.bd.program, *argv, "--json"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def afresh(store: BeadsStore, folder: Path) -> BeadsStore:
    """Return a store of another home that reads the same tasks from bd alone."""
    return BeadsStore(str(folder / "other.db"), store.mirror.folder, make=True, now=FakeClock())


def test_home_without_a_copy_reads_everything_from_bd(store: BeadsStore, tmp_path: Path) -> None:
    first = a_task(title="--json, \"q\" 'a' 🚀", description="- x\n$HOME `ls`\n", labels=("a,b", "ü"), cwd="/x y")
    second = a_task(metadata={"deep": {"list": [1, 2.5, None, True]}, "text": "007"}, due_at=NOON, priority=0)
    third = a_task(description="long " * 40_000)
    with store.atomic():
        for task in (first, second, third):
            store.tasks.add(task)
        store.edges.add(an_edge(second, first))
        store.edges.add(an_edge(third, first, "waits-for", metadata='{"gate": "any-children"}'))
        store.comments.add(a_comment(first, text="two\nlines"))
    with store.atomic():
        store.tasks.save(
            store.tasks.get(first.id).replace(title="-f", labels=("c",), metadata={"n": 1}, notes="n", reason="why")
        )
        store.tasks.save(
            store.tasks.get(third.id).replace(description="longer " * 40_000, spec_id="s", estimated_minutes=7)
        )
        store.edges.remove(second.id, first.id)
        store.edges.add(an_edge(second, third, "related"))
        store.comments.add(a_comment(second, author="bob", text="--stdin"))
    other = afresh(store, tmp_path)
    rough = {"created_at": NOON, "updated_at": NOON, "due_at": None}
    assert [each.replace(**rough) for each in other.tasks.find(Filter(), sort="id")] == [
        each.replace(**rough) for each in store.tasks.find(Filter(), sort="id")
    ]
    # A bd of the older family forgets the gate. The copy that knew it does not.
    known, told = ([(e.task, e.needs, e.type, e.gate) for e in each.edges.find()] for each in (store, other))
    assert "any-children" in known[-1] and (known == told if store.mirror.fenced else len(known) == len(told))
    store.mirror._seen = {}
    bd(store, "comment", third.id, "so that it is read again")
    assert [(e.task, e.needs, e.type, e.gate) for e in store.edges.find()] == known
    ids = [first.id, second.id]
    said = [[(c.author, c.text) for c in each.comments.find(ids)] for each in (store, other)]
    assert said[0] == said[1] and len(said[0]) == 2
    assert abs(other.tasks.get(second.id).due_at - NOON).total_seconds() <= 1  # type: ignore[operator]
    other.close()


def test_changes_by_others_in_bd_arrive(store: BeadsStore) -> None:
    made = bd(store, "create", "from elsewhere", "-l", "x", "--metadata", '{"fleet.coder": "codex", "mine": 1}')["id"]
    task = store.tasks.get(made)
    assert (task.title, task.labels, task.coder, task.metadata) == ("from elsewhere", ("x",), "codex", {"mine": 1})
    other = bd(store, "create", "waits", "--deps", made)["id"]
    assert store.tasks.get(other).is_blocked
    bd(store, "comment", made, "hello")
    assert [(each.author, each.text) for each in store.comments.find([made])] == [("ada", "hello")]
    bd(store, "close", made, "--reason", "done")
    assert (store.tasks.get(made).close_reason, store.tasks.get(other).is_blocked) == ("done", False)
    bd(store, "delete", made, "--force")
    assert [each.id for each in store.tasks.find(Filter())] == [other] and store.edges.find() == []


def test_claim_is_lost_when_another_user_takes_the_task_in_bd(store: BeadsStore) -> None:
    store.tasks.add(a_task())
    [claim] = store.claims.acquire("host", [Lane(room=1)], room=1, ttl=TTL)
    force = ("--force",) if store.mirror.fenced else ()
    bd(store, "update", claim.task.id, "--assignee", "bob", *force)
    assert store.claims.renew([claim], ttl=TTL) == []
    with pytest.raises(ClaimLost):
        store.claims.settle(claim, Verdict(status="closed", reason="done"))
    assert bd(store, "show", claim.task.id)[0]["assignee"] == "bob"


def test_two_homes_on_one_bd_never_hold_the_same_task(store: BeadsStore, tmp_path: Path) -> None:
    tasks = [a_task() for _ in range(6)]
    with store.atomic():
        for task in tasks:
            store.tasks.add(task)
    other = afresh(store, tmp_path)
    assert other.tasks.count(Filter()) == {"": 6}
    lane = [Lane(room=4)]
    ours = store.claims.acquire("host", lane, room=4, ttl=TTL)
    # As if at the same moment: the last look of the other home does not show our claims yet.
    other.mirror._seen = {"mark": beads_folder.fingerprint(store.mirror.folder), "at": 0}
    assert other.claims.acquire("guest", lane, room=4, ttl=TTL) == []
    theirs = other.claims.acquire("guest", lane, room=4, ttl=TTL)
    taken = [claim.task.id for claim in (*ours, *theirs)]
    assert len(ours) == 4 and len(theirs) == 2 and len(set(taken)) == 6
    assert {each["assignee"] for each in bd(store, "list", "--all", "--limit", "0")} == {"host", "guest"}
    other.close()


def test_refused_write_is_rolled_back(store: BeadsStore) -> None:
    task = a_task()
    store.tasks.add(task)
    with pytest.raises(Exception, match="bd refused"), store.atomic():
        store.tasks.save(task.replace(notes="changed"))
        store.tasks.save(task.replace(notes="changed", status="never_heard_of"))
    assert store.tasks.get(task.id) == task
    assert os.path.isfile(f"{store.mirror.folder}.lock")  # noqa: PTH113
