"""What every history promises about workflows, their stages, and what tasks hand on."""

from typing import Any

import pytest

from builders import HOUR, MINUTE, NOON, FakeClock
from fleet.core.errors import WorkflowNotFound
from fleet.core.flow import Result, StageOf, Workflow
from fleet.store.base import History, Queue

pytestmark = pytest.mark.bd_in_soak

UNICODE = "ünïcode 🚀 \u2028 'quoted\" \\ \n end"


def a_workflow(key: str = "wf-1", **said: Any) -> Workflow:
    return Workflow(**{"id": key, "name": "review", "made_at": NOON, **said})


def a_stage(task: str, index: int, workflow: str = "wf-1") -> StageOf:
    return StageOf(task_id=task, workflow_id=workflow, index=index, name=f"s{index}", spec=f'{{"index": {index}}}')


def a_result(task: str = "t-1", **said: Any) -> Result:
    return Result(**{"task_id": task, "run_id": f"{task}/1", "made_at": NOON, "body": '{"summary": "x"}', **said})


def test_a_workflow_and_its_stages_come_back_as_they_were(history: History) -> None:
    whole = a_workflow(name=UNICODE, repo="/r", plan='{"a": 1}', task_prompt=UNICODE, made_by="ada", caller="t-9")
    stages = [a_stage("t-2", 1), a_stage("t-1", 0)]
    history.add_workflow(whole, stages)
    assert history.workflow("wf-1") == whole
    assert history.task_prompt("wf-1") == UNICODE
    assert history.stages("wf-1") == stages[::-1]
    assert history.stage_of("t-2") == stages[0]
    assert history.stage_of("t-3") is None and history.stages("wf-2") == []


def test_the_newest_workflows_are_told_first_and_no_more_than_asked_for(history: History) -> None:
    for key, minutes in (("b", 1), ("c", 0), ("a", 1), ("d", 5)):
        history.add_workflow(a_workflow(key, made_at=NOON + minutes * MINUTE), [])
    assert [each.id for each in history.workflows(limit=3)] == ["d", "a", "b"]
    assert len(history.workflows(limit=9)) == 4


def test_a_workflow_is_stopped_and_cleaned_once(history: History) -> None:
    history.add_workflow(a_workflow(), [])
    assert history.stop_workflow("wf-1", "by hand", NOON + MINUTE)
    assert not history.stop_workflow("wf-1", "again", NOON + HOUR)
    assert history.clean_workflow("wf-1", NOON + HOUR)
    assert not history.clean_workflow("wf-1", NOON + 2 * HOUR)
    kept = history.workflow("wf-1")
    assert (kept.stopped_at, kept.reason, kept.cleaned_at) == (NOON + MINUTE, "by hand", NOON + HOUR)


def test_a_workflow_that_is_not_there_is_named(history: History) -> None:
    for ask in (
        lambda: history.workflow("nope"),
        lambda: history.task_prompt("nope"),
        lambda: history.stop_workflow("nope", "", NOON),
        lambda: history.clean_workflow("nope", NOON),
    ):
        with pytest.raises(WorkflowNotFound, match="no workflow 'nope'"):
            ask()


def test_the_last_result_of_a_task_counts(history: History, clock: FakeClock) -> None:
    history.keep_result(a_result(body='{"summary": "first"}'))
    last = a_result(run_id="t-1/2", made_at=NOON + HOUR, made_by="fleet", body='{"summary": "ü 🚀"}')
    history.keep_result(last)
    history.keep_result(a_result("t-2"))
    assert history.results(["t-1", "t-3"]) == {"t-1": last}
    assert last.told == {"summary": "ü 🚀"}
    assert history.results([]) == {}


def test_all_of_it_is_taken_back_with_its_transaction(queue: Queue, history: History) -> None:
    with pytest.raises(ZeroDivisionError), queue.atomic():
        history.add_workflow(a_workflow(), [a_stage("t-1", 0)])
        history.keep_result(a_result())
        raise ZeroDivisionError
    assert history.workflows(limit=5) == [] and history.stage_of("t-1") is None and history.results(["t-1"]) == {}
