"""Plans survive a round trip through their text."""

import pytest

from fleet.core.errors import BadInput
from fleet.core.workflow import Stage, WorkflowPlan, plan_in, stage_in
from flows import a_plan, a_stage


def a_rich_plan() -> WorkflowPlan:
    return a_plan(
        a_stage("plan", no_changes=True, executor="claude", model="opus"),
        a_stage("part", "plan", each=["a", "b"], extra_args=["-x", "1"], timeout="10m", retries=2, account="work"),
        a_stage(
            "fix",
            "part",
            worktree_strategy="inherit",
            when="stages.plan.summary",
            repeat=3,
            verify="make",
            prompt_template="{stages.part.files}",
        ),
        a_stage("end", "fix", worktree_strategy="inherit", when="stages.fix.summary", reasoning_effort="high"),
        name="ship it",
        description="two\nlines",
        on_failure="stop",
        task_prompt="do",
        base_ref="main",
    )


def test_plan_survives_a_round_trip() -> None:
    plan = a_rich_plan()
    again = plan_in(plan.text())
    assert again == plan
    assert again.stage("part@2").extra_args == ("-x", "1")
    assert again.stage("fix#3").after == plan.stage("fix#3").after
    assert again.stage("end").origins == plan.stage("end").origins == (("part@1",),)
    assert "\n" not in plan.text()


def test_each_stage_can_be_stored_separately() -> None:
    for stage in a_rich_plan().stages:
        assert stage_in(stage.text()) == stage


def test_stage_knows_its_dependencies_and_inputs() -> None:
    stage = Stage(name="c", stage="c", index=2, prompt="", after=(("a", "a#2"), ("b",)), reads={"stages.z": (("z",),)})
    assert stage.needs == ("a#2", "b")
    assert stage.sources == ("a", "a#2", "b", "z")


@pytest.mark.parametrize("text", ["", "[]", "{", '{"name": "x"}', '{"name": "x", "stages": [{"nonsense": 1}]}', "null"])
def test_invalid_plan_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="not a plan of a workflow"):
        plan_in(text)


def test_unknown_stage_is_named() -> None:
    with pytest.raises(BadInput, match="workflow 'ship it' has no stage 'nope'"):
        a_rich_plan().stage("nope")
