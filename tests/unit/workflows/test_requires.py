"""Requirements of workflow stages on their hosts."""

from typing import Any

import pytest

from fleet.core.workflow import plan_in
from flows import a_plan, a_stage, faults_of


def test_stage_names_its_required_labels_and_host() -> None:
    plan = a_plan(
        a_stage("train", requires=["gpu", "big"], repeat=2),
        a_stage("deploy", "train", host="edge"),
        a_stage("rest", "deploy"),
    )
    assert {stage.name: stage.requires for stage in plan.stages} == {
        "train": '["big", "gpu"]',
        "train#2": '["big", "gpu"]',
        "deploy": '["host:edge"]',
        "rest": "",
    }
    assert plan_in(plan.text()) == plan


@pytest.mark.parametrize(
    "said",
    [
        {"requires": "gpu"},
        {"requires": ["a b"]},
        {"requires": [1]},
        {"requires": ["host:a"]},
        {"requires": ["x"] * 40},
        {"host": "a b"},
        {"host": 7},
        {"host": ["a"]},
    ],
)
def test_requirement_that_no_host_can_offer_is_a_fault(said: dict[str, Any]) -> None:
    faults = faults_of(a_stage("one", **said))
    assert [next(iter(said)) in fault.message for fault in faults] == [True]
