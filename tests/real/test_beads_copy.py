"""The copy that fleet has of bd's tasks: all of it can be had from bd again, and what others write in bd arrives."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import beads
from builders import HOUR, NOON, FakeClock, a_comment, a_task, an_edge
from fleet.core import clock
from fleet.core.errors import ClaimLost
from fleet.core.filter import Filter, Lane
from fleet.core.task import Verdict
from fleet.store import beads_folder
from fleet.store.beads import BeadsQueue

TTL = 2 * HOUR


@pytest.fixture(params=[beads.NEW, pytest.param(beads.OLD, marks=pytest.mark.soak("queues"))])
def queue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BeadsQueue]:
    opened = beads.queue_in(tmp_path, request.param, clock.now)
    yield opened
    opened.close()


def bd(queue: BeadsQueue, *argv: str, actor: str = "ada") -> Any:
    """The real bd, asked without fleet."""
    env = queue.bd.environment(actor)
    done = subprocess.run([queue.bd.program, *argv, "--json"], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def afresh(queue: BeadsQueue, folder: Path) -> BeadsQueue:
    """The same tasks, seen by a home that knows nothing of them."""
    return BeadsQueue(str(folder / "other.db"), queue.folder, make=True, now=FakeClock())


def test_a_home_without_the_copy_gets_all_that_bd_holds(queue: BeadsQueue, tmp_path: Path) -> None:
    first = a_task(title="--json, \"q\" 'a' 🚀", description="- x\n$HOME `ls`\n", labels=("a,b", "ü"), cwd="/x y")
    second = a_task(metadata={"deep": {"list": [1, 2.5, None, True]}, "text": "007"}, due_at=NOON, priority=0)
    third = a_task(description="long " * 40_000)
    with queue.atomic():
        for task in (first, second, third):
            queue.add(task)
        queue.link(an_edge(second, first))
        queue.link(an_edge(third, first, "waits-for", metadata='{"gate": "any-children"}'))
        queue.comment(a_comment(first, text="two\nlines"))
    with queue.atomic():
        queue.save(queue.get(first.id).replace(title="-f", labels=("c",), metadata={"n": 1}, notes="n", reason="why"))
        queue.save(queue.get(third.id).replace(description="longer " * 40_000, spec_id="s", estimated_minutes=7))
        queue.unlink(second.id, first.id)
        queue.link(an_edge(second, third, "related"))
        queue.comment(a_comment(second, author="bob", text="--stdin"))
    other = afresh(queue, tmp_path)
    rough = {"created_at": NOON, "updated_at": NOON, "due_at": None}
    assert [each.replace(**rough) for each in other.find(Filter(), sort="id")] == [
        each.replace(**rough) for each in queue.find(Filter(), sort="id")
    ]
    # A bd of the older family forgets the gate; the copy that knew it does not.
    known, told = ([(e.task, e.needs, e.type, e.gate) for e in each.edges()] for each in (queue, other))
    assert "any-children" in known[-1] and (known == told if queue.fenced else len(known) == len(told))
    queue._seen = {}
    bd(queue, "comment", third.id, "so that it is read again")
    assert [(e.task, e.needs, e.type, e.gate) for e in queue.edges()] == known
    ids = [first.id, second.id]
    said = [[(c.author, c.text) for c in each.comments(ids)] for each in (queue, other)]
    assert said[0] == said[1] and len(said[0]) == 2
    assert abs(other.get(second.id).due_at - NOON).total_seconds() <= 1  # type: ignore[operator]
    other.close()


def test_what_others_write_in_bd_arrives(queue: BeadsQueue) -> None:
    made = bd(queue, "create", "from elsewhere", "-l", "x", "--metadata", '{"fleet.coder": "codex", "mine": 1}')["id"]
    task = queue.get(made)
    assert (task.title, task.labels, task.coder, task.metadata) == ("from elsewhere", ("x",), "codex", {"mine": 1})
    other = bd(queue, "create", "waits", "--deps", made)["id"]
    assert queue.get(other).is_blocked
    bd(queue, "comment", made, "hello")
    assert [(each.author, each.text) for each in queue.comments([made])] == [("ada", "hello")]
    bd(queue, "close", made, "--reason", "done")
    assert (queue.get(made).close_reason, queue.get(other).is_blocked) == ("done", False)
    bd(queue, "delete", made, "--force")
    assert [each.id for each in queue.find(Filter())] == [other] and queue.edges() == []


def test_a_task_that_somebody_takes_from_us_in_bd_is_lost_to_us(queue: BeadsQueue) -> None:
    queue.add(a_task())
    [claim] = queue.claim("host", [Lane(room=1)], room=1, ttl=TTL)
    force = ("--force",) if queue.fenced else ()
    bd(queue, "update", claim.task.id, "--assignee", "bob", *force)
    assert queue.renew([claim], ttl=TTL) == []
    with pytest.raises(ClaimLost):
        queue.settle(claim, Verdict(status="closed", reason="done"))
    assert bd(queue, "show", claim.task.id)[0]["assignee"] == "bob"


def test_two_homes_on_one_bd_never_both_have_a_task(queue: BeadsQueue, tmp_path: Path) -> None:
    tasks = [a_task() for _ in range(6)]
    with queue.atomic():
        for task in tasks:
            queue.add(task)
    other = afresh(queue, tmp_path)
    assert other.count(Filter()) == {"": 6}
    lane = [Lane(room=4)]
    ours = queue.claim("host", lane, room=4, ttl=TTL)
    # As at one and the same moment: what the other home looked at does not show our claims yet.
    other._seen = {"mark": beads_folder.fingerprint(queue.folder), "at": 0}
    assert other.claim("guest", lane, room=4, ttl=TTL) == []
    theirs = other.claim("guest", lane, room=4, ttl=TTL)
    taken = [claim.task.id for claim in (*ours, *theirs)]
    assert len(ours) == 4 and len(theirs) == 2 and len(set(taken)) == 6
    assert {each["assignee"] for each in bd(queue, "list", "--all", "--limit", "0")} == {"host", "guest"}
    other.close()


def test_what_bd_refuses_is_taken_back(queue: BeadsQueue) -> None:
    task = a_task()
    queue.add(task)
    with pytest.raises(Exception, match="bd refused"), queue.atomic():
        queue.save(task.replace(notes="changed"))
        queue.save(task.replace(notes="changed", status="never_heard_of"))
    assert queue.get(task.id) == task
    assert os.path.isfile(f"{queue.folder}.lock")  # noqa: PTH113
