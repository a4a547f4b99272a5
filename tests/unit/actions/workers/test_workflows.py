"""The copy of a stage that gives a workflow its result, by the states of all stages."""

import pytest

from builders import NOON
from fleet.actions.workers.workflows import Flow, StageState, StageView
from fleet.core.workflow import Workflow, WorkflowPlan
from flows import a_plan, a_stage

LOOP = a_plan(a_stage("write"), a_stage("review", "write", repeat={"at_most": 3, "from": "write"}))
FAN = a_plan(a_stage("plan"), a_stage("part", "plan", each=["a", "b", "c"]))
ITEMS_REPEAT = a_plan(a_stage("plan"), a_stage("part", "plan", each=["a", "b"], repeat=2))


def last_of(plan: WorkflowPlan, *skipped: str, **states: str) -> tuple[str, str]:
    """Return the stage that gives the result, and its state. All other stages are done unless named."""
    named = dict.fromkeys(skipped, StageState.SKIPPED) | states
    seen = [StageView(stage, "", None, named.pop(stage.name, StageState.DONE), "", None, None) for stage in plan.stages]
    assert not named
    found = Flow(Workflow(id="wf_000000000000", name="flow", made_at=NOON), plan, seen).last
    return found.stage.name, found.state


def test_result_stage_is_the_last_round_that_was_not_skipped() -> None:
    rounds = ("review#3", "review#2", "review")
    found = [last_of(LOOP, *rounds[:count]) for count in range(4)]
    assert found == [*((name, StageState.DONE) for name in rounds), ("review", StageState.SKIPPED)]


@pytest.mark.parametrize("state", [StageState.WAITING, StageState.RUNNING, StageState.FAILED, StageState.STOPPED])
def test_result_is_an_earlier_round_when_a_later_one_has_not_finished(state: str) -> None:
    assert last_of(LOOP, "review#3", **{"review#2": state}) == ("review#2", state)


def test_result_stage_is_the_last_item_in_its_last_round() -> None:
    assert last_of(FAN) == ("part@3", StageState.DONE)
    assert last_of(FAN, "part@3") == ("part@2", StageState.DONE)
    assert last_of(ITEMS_REPEAT, "part@2#2") == ("part@2", StageState.DONE)
    assert last_of(ITEMS_REPEAT, "part@2#2", "part@2") == ("part@1#2", StageState.DONE)


def test_result_stage_has_no_dependents_wherever_it_is_written() -> None:
    assert last_of(a_plan(a_stage("end", "begin"), a_stage("begin"))) == ("end", StageState.DONE)
    aside = a_plan(a_stage("write"), a_stage("aside"), a_stage("review", "write", repeat={"at_most": 2, "from": 0}))
    assert aside.stages[-1].name == "aside"
    assert last_of(aside) == ("review#2", StageState.DONE)
