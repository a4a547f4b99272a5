"""`wait` without ids: waits for all unfinished work created here, and reports each end since the last call once."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from builders import a_task
from fleet.core.task import Caller, Status
from live_runs import Records
from mcp_client import Tools, serving, stop, workshop

STAGES = [{"name": "one", "prompt_template": "x"}]


class Shop(NamedTuple):
    """A home whose agents do not start, its records, a repository, and a server with its client."""

    records: Records
    repo: Path
    tools: Tools

    def make(self, tools: Tools | None = None) -> str:
        order = {"repo_path": str(self.repo), "task_name": "part", "prompt": "x"}
        return str((tools or self.tools).ok("create_worker", **order)["worker_id"])

    def flow(self, tools: Tools | None = None) -> dict[str, Any]:
        order = {"repo_path": str(self.repo), "name": "f", "task_prompt": "x", "stages": STAGES}
        return (tools or self.tools).ok("create_workflow", **order)

    def cancel(self, key: str) -> None:
        self.tools.ok("cancel_worker", worker_id=key)

    def look(self, cursor: str = "", tools: Tools | None = None, **given: Any) -> tuple[dict[str, str], dict[str, Any]]:
        """Call `wait` with a timeout of 0. Return the status of each id, and the answer."""
        answer = (tools or self.tools).ok("wait", cursor=cursor, timeout_seconds=0, **given)
        return {each["id"]: each["status"] for each in answer["tasks"] + answer["workflows"]}, answer

    def admit(self, task_id: str) -> str:
        """Return the token of a live run of a task."""
        claim, run = self.records.begin(task_id)
        return self.records.store.tokens.issue(claim, Caller(task_id=task_id, run_id=run.id, epoch=claim.epoch))


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    fleet, repo = workshop(tmp_path)
    fleet.ok("pause")
    records = Records(fleet)
    with serving(fleet) as tools:
        yield Shop(records, repo, tools)
    records.store.close()
    stop(fleet)


def test_end_between_two_waits_is_reported_once(shop: Shop) -> None:
    before, first, second, flow = shop.make(), shop.make(), shop.make(), shop.flow()["workflow_id"]
    shop.cancel(before)
    found, looked = shop.look()
    assert found == {first: "pending", second: "pending", flow: "pending"}
    assert (looked["timed_out"], looked["changed"]) == (True, False)
    _, again = shop.look(looked["cursor"])
    assert (again["timed_out"], again["changed"]) == (True, False)

    shop.cancel(first)
    shop.cancel(quick := shop.make())
    shop.tools.ok("cancel_workflow", workflow_id=flow)
    found, told = shop.look(again["cursor"])
    assert found == {first: "cancelled", second: "pending", quick: "cancelled", flow: "cancelled"}
    assert (told["changed"], told["over"], told["count"], told["timed_out"]) == (True, 3, 4, False)
    assert shop.look(again["cursor"])[0] == found, "an answer that was lost can be asked for again"

    found, rest = shop.look(told["cursor"])
    assert (found, rest["changed"], rest["timed_out"]) == ({second: "pending"}, False, True)
    new = shop.make()
    found, more = shop.look(rest["cursor"])
    assert (found, more["changed"]) == ({second: "pending", new: "pending"}, True)


def test_cursor_is_short_and_survives_the_server(shop: Shop) -> None:
    keys = {shop.make() for _ in range(4)}
    _, looked = shop.look()
    for key in keys:
        shop.cancel(key)
    with serving(shop.records.fleet) as tools:
        found, told = shop.look(looked["cursor"], tools, until="all")
        assert (found, told["timed_out"]) == (dict.fromkeys(keys, "cancelled"), False)
        assert len(told["cursor"]) < 80
        assert shop.look(told["cursor"], tools)[1]["count"] == 0


def test_end_that_was_written_late_is_not_missed(shop: Shop) -> None:
    """A process takes the time before it writes the end, and may be slow to write."""
    key = shop.make()
    shop.make()
    _, looked = shop.look()
    with shop.records.store.atomic():
        task = shop.records.store.tasks.get(key)
        late = shop.records.store.now() - timedelta(seconds=30)
        shop.records.store.tasks.save(task.replace(status=Status.BLOCKED, reason="x", updated_at=late))
    found, told = shop.look(looked["cursor"])
    assert found[key] == "failed"
    assert key not in shop.look(told["cursor"])[0]


def test_task_created_and_ended_during_a_wait_is_reported(shop: Shop) -> None:
    key = shop.make()
    heard: list[str] = []
    waiting = shop.tools.start(shop.tools.call("wait", {"until": "all", "timeout_seconds": 50}, heard))
    while not heard:
        shop.tools.ok("list_workers")
    shop.cancel(quick := shop.make())
    assert not waiting.done()
    shop.cancel(key)
    answer = waiting.result(50)
    assert {each["id"]: each["status"] for each in answer["tasks"]} == {key: "cancelled", quick: "cancelled"}
    assert shop.look(answer["cursor"])[1]["count"] == 0


def test_unknown_cursor_counts_as_none(shop: Shop) -> None:
    over, key = shop.make(), shop.make()
    shop.cancel(over)
    of_ids = shop.tools.ok("wait", ids=[key], timeout_seconds=0)["cursor"]
    for cursor in ("nonsense", of_ids, "-", f"0-{'0' * 15}-", "é" * 5000, "\0"):
        found, told = shop.look(cursor)
        assert (found, told["changed"], told["timed_out"]) == ({key: "pending"}, False, True), cursor
    for at in ("0", "f" * 14):  # cursors of another time
        assert shop.look(f"{at}-{'0' * 16}-")[0] == {over: "cancelled", key: "pending"}


def test_agent_waits_for_tasks_of_its_own_task_and_never_for_itself(shop: Shop) -> None:
    own, stage = "w_of_agent", shop.flow()["stage_summary"][0]["worker_id"]
    shop.records.store.tasks.add(a_task(id=own, origin="mcp"))
    others = shop.make()
    for task in (own, stage):
        with serving(shop.records.fleet, FLEET_RUN_TOKEN=shop.admit(task)) as tools:
            assert shop.look(tools=tools, until="all")[1]["count"] == 0
            made, flow = shop.make(tools), shop.flow(tools)["workflow_id"]
            found, looked = shop.look(tools=tools, until="all")
            assert (found, looked["timed_out"]) == ({made: "pending", flow: "pending"}, True)
            for tool, given in (("cancel_worker", {"worker_id": made}), ("cancel_workflow", {"workflow_id": flow})):
                tools.ok(tool, **given)
            shop.cancel(shop.make())
            found, told = shop.look(looked["cursor"], tools, until="all")
            assert (found, told["timed_out"]) == ({made: "cancelled", flow: "cancelled"}, False)
            assert shop.look(told["cursor"], tools)[1]["count"] == 0
    assert {own, stage} - set(shop.look()[0]) == {stage}, "a person waits for all, and for a stage as its workflow"
    assert others in shop.look()[0]
