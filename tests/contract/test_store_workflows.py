"""The contract of all stores for workflows and their stages."""

from typing import Any

import pytest

from builders import HOUR, MINUTE, NOON
from contract.store_builders import a_result
from fleet.core.errors import WorkflowNotFound
from fleet.core.workflow import StageOf, Workflow
from fleet.store.base import Store

pytestmark = pytest.mark.bd_in_soak

UNICODE = "ünïcode 🚀 \u2028 'quoted\" \\ \n end"


def a_workflow(key: str = "wf-1", **said: Any) -> Workflow:
    return Workflow(**{"id": key, "name": "review", "made_at": NOON, **said})


def a_stage(task: str, index: int, workflow: str = "wf-1") -> StageOf:
    return StageOf(task_id=task, workflow_id=workflow, index=index, name=f"s{index}", spec=f'{{"index": {index}}}')


def test_workflow_and_stages_are_returned_unchanged(store: Store) -> None:
    whole = a_workflow(name=UNICODE, repo="/r", plan='{"a": 1}', task_prompt=UNICODE, made_by="ada", caller="t-9")
    stages = [a_stage("t-2", 1), a_stage("t-1", 0)]
    store.workflows.add(whole, stages)
    assert store.workflows.get("wf-1") == whole
    assert store.workflows.task_prompt("wf-1") == UNICODE
    assert store.workflows.stages("wf-1") == stages[::-1]
    assert store.workflows.stage_of("t-2") == stages[0]
    assert store.workflows.stage_of("t-3") is None and store.workflows.stages("wf-2") == []


def test_workflows_are_returned_newest_first_up_to_the_limit(store: Store) -> None:
    for key, minutes in (("b", 1), ("c", 0), ("a", 1), ("d", 5)):
        store.workflows.add(a_workflow(key, made_at=NOON + minutes * MINUTE), [])
    assert [each.id for each in store.workflows.newest(limit=3)] == ["d", "a", "b"]
    assert len(store.workflows.newest(limit=9)) == 4


def test_workflow_is_stopped_and_cleaned_once(store: Store) -> None:
    store.workflows.add(a_workflow(), [])
    assert store.workflows.stop("wf-1", "by hand", NOON + MINUTE)
    assert not store.workflows.stop("wf-1", "again", NOON + HOUR)
    assert store.workflows.mark_cleaned("wf-1", NOON + HOUR)
    assert not store.workflows.mark_cleaned("wf-1", NOON + 2 * HOUR)
    kept = store.workflows.get("wf-1")
    assert (kept.stopped_at, kept.reason, kept.cleaned_at) == (NOON + MINUTE, "by hand", NOON + HOUR)


def test_unknown_workflow_is_named(store: Store) -> None:
    for ask in (
        lambda: store.workflows.get("nope"),
        lambda: store.workflows.task_prompt("nope"),
        lambda: store.workflows.stop("nope", "", NOON),
        lambda: store.workflows.mark_cleaned("nope", NOON),
    ):
        with pytest.raises(WorkflowNotFound, match="no workflow 'nope'"):
            ask()


def test_workflows_are_rolled_back_with_their_transaction(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.atomic():
        store.workflows.add(a_workflow(), [a_stage("t-1", 0)])
        store.results.keep(a_result())
        raise ZeroDivisionError
    assert (
        store.workflows.newest(limit=5) == []
        and store.workflows.stage_of("t-1") is None
        and store.results.find(["t-1"]) == {}
    )
