"""Several writes or none, with bd too: what it was told of a transaction that came to nothing is taken back there."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import beads
from builders import HOUR, FakeClock, a_task, an_edge
from fleet.core.errors import ClaimLost, StoreFault
from fleet.core.filter import Filter, Lane
from fleet.core.task import Verdict
from fleet.store.beads import BeadsQueue

LANE = (Lane(room=1),)


class GivenUp(Exception):
    """Leaves a transaction."""


both = pytest.mark.parametrize("version", beads.VERSIONS)


@pytest.fixture
def queue(version: str, tmp_path: Path, clock: FakeClock) -> Iterator[BeadsQueue]:
    opened = beads.queue_in(tmp_path, version, clock)
    yield opened
    opened.close()


def bd(queue: BeadsQueue, *argv: str, actor: str = "ada") -> Any:
    """The real bd, asked without fleet."""
    env = queue.bd.environment(actor)
    done = subprocess.run([queue.bd.program, *argv], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def kept(queue: BeadsQueue) -> dict[str, dict[str, Any]]:
    """All that bd has, but for when it was written."""
    found = bd(queue, "export", "--all")
    dated = ("created_at", "updated_at", "started_at", "claim_fence", "revision")
    return {each["id"]: {name: value for name, value in each.items() if name not in dated} for each in found}


@both
def test_claims_are_given_back_that_nobody_came_to_have(queue: BeadsQueue) -> None:
    tasks = [a_task(status="deferred", defer_until=queue.now() - HOUR), a_task(), a_task()]
    with queue.atomic():
        for task in tasks:
            queue.add(task)
    before = kept(queue)
    with pytest.raises(GivenUp), queue.atomic():
        assert len(queue.claim("host", [Lane(room=2)], room=2, ttl=HOUR)) == 2
        raise GivenUp
    assert kept(queue) == before
    assert [(task.status, task.assignee, task.claim_owner, task.epoch) for task in queue.find(Filter(), sort="id")] == [
        (task.status, "", "", 0) for task in tasks
    ]
    assert len(queue.claim("host", [Lane(room=3)], room=3, ttl=HOUR)) == 3


@both
def test_a_task_that_is_changed_and_claimed_in_one_is_changed_in_bd_too(queue: BeadsQueue) -> None:
    task = a_task()
    queue.add(task)
    with queue.atomic():
        queue.save(task.replace(title="another", labels=("x",)))
        [claim] = queue.claim("host", LANE, room=1, ttl=HOUR)
    assert (claim.task.title, claim.task.labels) == ("another", ("x",))
    found = kept(queue)[task.id]
    assert (found["title"], found["labels"], found["assignee"]) == ("another", ["x"], "host")


@both
def test_a_task_is_given_out_once_bd_knows_it_and_not_in_the_transaction_that_makes_it(queue: BeadsQueue) -> None:
    with queue.atomic():
        queue.add(a_task())
        assert queue.claim("host", LANE, room=1, ttl=HOUR) == []
    assert len(queue.claim("host", LANE, room=1, ttl=HOUR)) == 1


@both
def test_one_refusal_takes_back_all_that_bd_was_told_before_it(queue: BeadsQueue) -> None:
    first, second = a_task(title="first", labels=("x",)), a_task(title="second")
    with queue.atomic():
        queue.add(first)
        queue.add(second)
    before = kept(queue)
    with pytest.raises(StoreFault, match="never_heard_of"), queue.atomic():
        queue.add(a_task(id="born"))
        queue.link(an_edge("born", first))
        queue.save(first.replace(title="changed", labels=("y",), metadata={"a": 1}, priority=0))
        queue.save(second.replace(status="never_heard_of"))
    after = kept(queue)
    after[first.id].pop("metadata", None)  # an empty one stays
    assert after == before
    assert [task.title for task in queue.find(Filter(), sort="id")] == ["first", "second"]


@both
def test_a_call_that_reached_only_some_of_its_tasks_counts_for_none(queue: BeadsQueue) -> None:
    first, second = a_task(), a_task()
    with queue.atomic():
        queue.add(first)
        queue.add(second)
    with pytest.raises(StoreFault, match=second.id), queue.atomic():
        queue.save(first.replace(notes="both"))
        queue.save(second.replace(notes="both"))
        bd(queue, "delete", second.id, "--force")
    assert not kept(queue)[first.id].get("notes")
    assert [task.notes for task in queue.find(Filter())] == [""]


@both
def test_who_is_no_longer_the_holder_adds_nothing_by_settling(queue: BeadsQueue) -> None:
    queue.add(a_task())
    [claim] = queue.claim("host", LANE, room=1, ttl=HOUR)
    force = ("--force",) if queue.fenced else ()
    with pytest.raises(ClaimLost) if queue.fenced else pytest.raises(GivenUp), queue.atomic():
        queue.add(a_task(id="next-stage"))
        queue.settle(claim, Verdict(status="closed", reason="done"))
        bd(queue, "update", claim.task.id, "--assignee=bob", *force)
        if not queue.fenced:  # a bd that guards nothing cannot tell
            raise GivenUp
    found = kept(queue)
    assert list(found) == [claim.task.id]
    assert (found[claim.task.id]["status"], found[claim.task.id]["assignee"]) == ("in_progress", "bob")
    assert queue.renew([claim], ttl=HOUR) == []
