"""The graph: cycles, stages that can never start, allowed variables, valid loops, and size limits."""

import random

import pytest

from fleet.workflows.check import LARGEST_PLAN, MOST_EDGES
from flows import a_plan, a_stage, faults_of


def messages(*stages: object) -> list[str]:
    return [fault.message for fault in faults_of(*stages)]


def test_cycle_is_shown_and_stages_behind_it_are_checked() -> None:
    found = messages(a_stage("a", "c"), a_stage("b", "a"), a_stage("c", "b"), a_stage("d", "c"), a_stage("e"))
    assert found == [
        "stages depend on each other in a cycle: a → c → b → a",
        "stage 'd' can never start: its dependencies form a cycle",
    ]


def test_two_cycles_are_two_faults() -> None:
    found = messages(a_stage("a", "b"), a_stage("b", "a"), a_stage("x", "y", "a"), a_stage("y", "x"))
    assert len([each for each in found if "in a cycle:" in each]) == 2


def test_stage_cannot_depend_on_itself() -> None:
    assert messages(a_stage("a", "a")) == ["stages depend on each other in a cycle: a → a"]


def test_stage_may_depend_on_a_later_one_and_is_planned_after_it() -> None:
    plan = a_plan(a_stage("last", 1, "middle"), a_stage("first"), a_stage("middle", 1, 1))
    assert [stage.name for stage in plan.stages] == ["first", "middle", "last"]
    assert [stage.index for stage in plan.stages] == [1, 2, 0]
    assert plan.stage("middle").after == (("first",),)


def test_acyclic_graph_is_sorted() -> None:
    chance = random.Random(7)
    for _ in range(50):
        names = [f"s{number}" for number in range(30)]
        stages = [a_stage(name, *chance.sample(names[:at], min(at, 3))) for at, name in enumerate(names)]
        chance.shuffle(stages)
        seen: set[str] = set()
        for stage in a_plan(*stages).stages:
            assert set(stage.needs) <= seen
            seen.add(stage.name)
        assert seen == set(names)


@pytest.mark.parametrize("variable", ["{stage_1_summary}", "{stages.b.summary}"])
def test_variable_names_only_finished_stages(variable: str) -> None:
    b, c = a_stage("b", "a"), a_stage("c", "b")
    a_plan(a_stage("a"), b, c, a_stage("d", "c", prompt_template=variable))  # an ancestor, though not a dependency
    [fault] = faults_of(a_stage("a"), b, c, a_stage("d", "a", prompt_template=variable))
    assert fault.message == f"the variable {variable} is about stage 'b', on which 'd' does not depend"
    assert fault.hint == "add 'b' to depends_on"
    [fault] = faults_of(a_stage("a"), a_stage("b", "a", prompt_template=variable))
    assert fault.message == f"the variable {variable} is about the stage itself"


def test_condition_names_only_finished_stages() -> None:
    [fault] = faults_of(a_stage("a"), a_stage("b"), a_stage("c", "a", when="stages.b.summary and stages.a.summary"))
    assert fault.message == "the condition's stages.b.summary is about stage 'b', on which 'c' does not depend"
    assert fault.path == "stages[2].when"


def test_list_belongs_to_a_finished_stage() -> None:
    [fault] = faults_of(a_stage("a"), a_stage("b", each="stages.a.next_steps"))
    assert fault.message == "the list stages.a.next_steps is about stage 'a', on which 'b' does not depend"
    assert (fault.path, fault.hint) == ("stages[1].each", "add 'a' to depends_on")
    [fault] = faults_of(a_stage("a"), a_stage("b", "a", each="stages.ghost.files"))
    assert fault.message == "the list stages.ghost.files: no such stage: 'ghost'"
    [fault] = faults_of(a_stage("a"), a_stage("b", "a", each="stages.a.summary"))
    assert fault.message.endswith("not 'stages.a.summary': of a stage next_steps and files are lists")


def test_list_of_a_later_loop_stage_is_missing_in_the_first_round() -> None:
    again = {"at_most": 2, "from": "fix"}
    stages = [a_stage("plan"), a_stage("fix", "plan", each="stages.review.next_steps")]
    [fault] = faults_of(*stages, a_stage("review", "fix", repeat=again))
    assert fault.path == "stages[1].each"
    assert fault.message == (
        "the list stages.review.next_steps is of stage 'review', which has not run when 'fix' does for the first time"
    )


def test_condition_that_can_never_hold_is_a_fault() -> None:
    [fault] = faults_of(a_stage("a"), a_stage("b", "a", when='stages.a.status == "complete"'))
    assert (fault.message, fault.hint) == ("stages.a.status is never 'complete'", "did you mean 'completed'?")
    [fault] = faults_of(a_stage("a"), a_stage("b", "a", when='"verfied" != stages.a.finding'))
    assert fault.message == "stages.a.finding is never 'verfied'"


def test_stage_condition_names_others_and_loop_condition_its_own_stage() -> None:
    [fault] = faults_of(a_stage("a"), a_stage("b", "a", when="summary"))
    assert "asks for summary, but may only use fields of another stage" in fault.message
    [fault] = faults_of(a_stage("a"), a_stage("b", "a", repeat={"at_most": 2, "until": "stages.a.summary"}))
    assert "may only use fields of the stage itself" in fault.message


@pytest.mark.parametrize(
    ("repeat", "message"),
    [
        ({"at_most": 2, "from": "ghost"}, "no such stage: 'ghost'"),
        ({"at_most": 2, "from": "other"}, "stage 'c' cannot repeat from 'other': it does not depend on it"),
        ({"at_most": 2, "from": "d"}, "stage 'c' cannot repeat from 'd': it does not depend on it"),
        ({"at_most": 2, "until": "summary =="}, "bad condition 'summary =='"),
    ],
)
def test_invalid_loop_is_a_fault(repeat: object, message: str) -> None:
    stages = [a_stage("a"), a_stage("b", "a"), a_stage("c", "b", repeat=repeat), a_stage("d", "c"), a_stage("other")]
    [fault] = faults_of(*stages)
    assert fault.message.startswith(message)


def test_loops_do_not_overlap_and_end_in_one_stage() -> None:
    again = {"at_most": 2, "from": "a"}
    [fault] = faults_of(a_stage("a"), a_stage("b", "a", repeat=again), a_stage("c", "b", repeat=again))
    assert fault.message == "stage 'a' is already in another loop"
    [fault] = faults_of(a_stage("a"), a_stage("b", "a", each=2, repeat=again))
    assert fault.message == "stage 'b' ends a loop of several stages and also uses `each`"


def test_workflow_with_a_billion_stages_is_refused() -> None:
    [fault] = faults_of(*(a_stage(f"s{number}", each=1000, repeat=20) for number in range(500)))
    assert fault.message == f"10000000 stages with all rounds and items; the maximum is {LARGEST_PLAN}"
    [fault] = faults_of(a_stage("a", each=900), a_stage("b", "a", each=900))
    assert fault.message == f"810000 dependencies and variables; the maximum is {MOST_EDGES}"
    variables = "{stages.a.summary}{stages.a.files}"
    [fault] = faults_of(
        a_stage("a", each=900), a_stage("b", "a"), a_stage("c", "b", each=900, prompt_template=variables)
    )
    assert "the maximum is" in fault.message


def test_prompt_of_only_variables_is_refused() -> None:
    [fault] = faults_of(a_stage("a"), a_stage("b", "a", prompt_template="{stages.a.result}" * 501))
    assert fault.message == "more than 500 variables in one prompt"


def test_graph_of_thousands_of_stages_in_reverse_order_is_sorted() -> None:
    names = [f"s{number}" for number in range(4000)]
    plan = a_plan(a_stage("all", *names), *(a_stage(name) for name in names))
    assert plan.stages[-1].name == "all"
    plan = a_plan(*(a_stage(name, *names[at + 1 : at + 2]) for at, name in enumerate(names)))
    assert plan.stages[0].name == names[-1]
