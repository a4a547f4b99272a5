"""The included workflows: they are valid and do what they promise."""

from typing import Any

import pytest

from fleet.core.errors import BadInput
from fleet.core.workflow import WorkflowPlan
from fleet.workflows import templates
from fleet.workflows.check import KnownNames
from fleet.workflows.conditions import is_to_run
from fleet.workflows.plan import plan_from_file
from fleet.workflows.results import inherits_from
from fleet.workflows.stage_prompt import prompt_of
from flows import CODERS


def plan_of(name: str) -> WorkflowPlan:
    return plan_from_file(str(templates.FOLDER / f"{name}.toml"), known=KnownNames(CODERS.__contains__))


def test_all_five_templates_exist() -> None:
    wanted = "competition-judge parallel-review split-and-conquer test-driven write-review-refine"
    assert templates.names() == wanted.split()


@pytest.mark.parametrize("name", templates.names())
def test_each_template_is_valid_and_described_and_uses_the_task(name: str) -> None:
    plan = plan_of(name)
    assert plan.name == name
    assert plan.description
    assert templates.text(name).startswith("# ")
    results: dict[str, Any] = {}
    for stage in plan.stages:
        prompt = prompt_of(stage, task_prompt="MEND THE ROOF", results=results)
        assert "MEND THE ROOF" in prompt
        assert "{" not in prompt, "a variable that stands for nothing"
        runs, _ = is_to_run(stage, results)
        done = {"status": "completed", "summary": "s", "next_steps": ["n"] * 8, "branch": f"b/{stage.name}"}
        results[stage.name] = done if runs else {"status": "skipped"}
        assert not stage.inherits or inherits_from(stage, results)
    assert not any(body["status"] == "skipped" for body in results.values())


def test_refinement_is_skipped_when_the_review_asks_for_nothing() -> None:
    stage = plan_of("write-review-refine").stage("refine")
    assert not is_to_run(stage, {"implement": {"status": "completed"}, "review": {"status": "completed"}})[0]


def test_reviewers_and_judges_make_no_changes() -> None:
    reviewing = [stage for name in templates.names() for stage in plan_of(name).stages if stage.no_changes]
    assert {stage.stage for stage in reviewing} == {"review", "judge", "check", "plan"}


def test_unknown_template_gets_a_suggestion() -> None:
    for name, hint in [("write-review", "did you mean 'write-review-refine'?"), ("../../x", "there are: ")]:
        with pytest.raises(BadInput, match="no template") as caught:
            templates.text(name)
        assert hint in caught.value.hint
