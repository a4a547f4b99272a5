"""Conditions: their meaning, refused ones, and the stages they skip."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.core.workflow import Stage
from fleet.workflows.conditions import BadCondition, holds, is_to_run, parse
from fleet.workflows.references import Reference
from fleet.workflows.results import NoList
from flows import MADE_UP, a_plan, a_stage

BODIES = {
    "stages.review": {"status": "completed", "summary": 'Looks "good", LGTM', "next_steps": ""},
    "stage_0": {"status": "blocked", "summary": "", "next_steps": "a\nb"},
    "stages.my.stage": {"status": "skipped"},
    "stages.a b": {"status": "failed"},
}


def look_up(reference: Reference) -> str:
    return BODIES[reference.head].get(reference.field, "")


@pytest.mark.parametrize(
    ("text", "is_so"),
    [
        ('stages.review.status == "completed"', True),
        ("stages.review.status=='completed'", True),
        ('"completed" == stages.review.status', True),
        ('stages.review.status != "completed"', False),
        ('stages.review.summary contains "lgtm"', True),
        ('stages.review.summary == "LGTM"', False),
        ('not stages.review.summary contains "bad"', True),
        ("stages.review.next_steps", False),
        ("not stages.review.next_steps", True),
        ("stage_0_next_steps", True),
        ('stage_0_status == "blocked"', True),
        ('stages.my.stage.status == "skipped"', True),
        ('stages["a b"].status == "failed" and not stages["a b"].summary', True),
        ("stages['review'].status == \"completed\" and stages['my.stage'].status == 'skipped'", True),
        ("stage_0_summary or stage_0_next_steps", True),
        ("stage_0_summary and stage_0_next_steps", False),
        ("stage_0_next_steps or stage_0_next_steps and stage_0_summary", True),
        ("(stage_0_next_steps or stage_0_next_steps) and stage_0_summary", False),
        ("not stage_0_summary and stage_0_next_steps", True),
        ("not (stage_0_summary and stage_0_next_steps)", True),
        ("not not stage_0_next_steps", True),
        ("stage_0_status == stages.review.status", False),
        ("stage_0_summary contains ''", True),
        ("\n stage_0_summary\n  == \t'' \n", True),
    ],
)
def test_condition_has_the_documented_meaning(text: str, is_so: bool) -> None:
    assert holds(parse(text), look_up) is is_so


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a text in quotes, or a field like stages.NAME.status is expected at character 1, not the end"),
        ("'a'", "==, != or contains after a text is expected at character 4, not the end"),
        ("status ==", "is expected at character 10, not the end"),
        ("status = 'a'", "is expected at character 8, not '='"),
        ("(status", "a closing parenthesis is expected at character 8, not the end"),
        ("status)", "`and`, `or` or the end is expected at character 7, not '\\)'"),
        ("status status", "`and`, `or` or the end is expected at character 8"),
        ("stages.review.nonsense", "a field like .* is expected at character 1, not 'stages.review.nonsense'"),
        ("stages.review.statusx", "is expected at character 1"),
        ("__import__('os').system('id')", "is expected at character 1, not '__import__'"),
        ("status == 'a' && summary", "is expected at character 15, not '&'"),
        ("status == 'unclosed", "is expected at character 11"),
        ("True", "is expected at character 1, not 'True'"),
        ("(" * 60 + "status" + ")" * 60, "nested more than 50 deep"),
        ("not " * 60 + "status", "nested more than 50 deep"),
        ("status or " * 1000, "longer than 4096 characters"),
    ],
)
def test_invalid_condition_is_refused_with_its_position(text: str, message: str) -> None:
    with pytest.raises(BadCondition, match=message):
        parse(text)


def test_many_parts_side_by_side_are_not_nested() -> None:
    assert holds(parse(" and ".join(["(stage_0_next_steps)"] * 150)), look_up)


@MADE_UP
@given(st.text(max_size=200) | st.lists(st.sampled_from(["status", "==", "'a'", "(", ")", "and", "or", "not", " "])))
def test_any_text_is_a_condition_or_refused(text: str | list[str]) -> None:
    try:
        found = parse(text if isinstance(text, str) else " ".join(text))
    except BadCondition:
        return
    assert holds(found, lambda reference: "a") in (True, False)


def started(stage: Stage, **results: Any) -> tuple[bool, str]:
    return is_to_run(stage, results)


def test_stage_runs_when_its_condition_holds() -> None:
    stage = a_plan(a_stage("a"), a_stage("b", "a", when="stages.a.next_steps")).stage("b")
    assert started(stage, a={"next_steps": ["x"]}) == (True, "")
    assert started(stage, a={"next_steps": []}) == (False, "its condition does not hold: stages.a.next_steps")


def test_stage_with_a_false_condition_is_skipped_with_its_dependents() -> None:
    skipped, done = {"status": "skipped"}, {"status": "completed"}
    stage = a_plan(a_stage("a"), a_stage("b"), a_stage("c", "a", "b")).stage("c")
    assert started(stage, a=skipped, b=done) == (True, "")
    assert started(stage, a=skipped, b=skipped) == (False, "all its dependencies were skipped")
    own = a_plan(a_stage("a"), a_stage("c", "a", when='stages.a.status == "skipped"')).stage("c")
    assert started(own, a=skipped) == (True, "")
    assert started(a_plan(a_stage("a")).stage("a")) == (True, "")


def test_items_of_a_fan_agree_or_are_mixed() -> None:
    def condition(word: str) -> Stage:
        return a_plan(a_stage("a", each=2), a_stage("b", "a", when=f'stages.a.status == "{word}"')).stage("b")

    results = {"a@1": {"status": "completed"}, "a@2": {"status": "blocked"}}
    assert is_to_run(condition("mixed"), results)[0]
    assert not is_to_run(condition("completed"), results)[0]
    results["a@2"] = {"status": "completed"}
    assert is_to_run(condition("completed"), results)[0]


def test_items_beyond_the_end_of_a_list_do_not_count() -> None:
    each = {"of": "stages.plan.next_steps", "at_most": 3}
    plan = a_plan(
        a_stage("plan"), a_stage("a", "plan", each=each), a_stage("b", "a", when='stages.a.status == "completed"')
    )
    done, none = {"status": "completed"}, {"status": "skipped", "no_item": True}
    assert is_to_run(plan.stage("b"), {"a@1": done, "a@2": done, "a@3": none})[0]
    assert not is_to_run(plan.stage("b"), {"a@1": done, "a@2": {"status": "blocked"}, "a@3": none})[0]
    assert not is_to_run(plan.stage("b"), dict.fromkeys(("a@1", "a@2", "a@3"), none))[0]


def test_missing_list_is_not_treated_as_an_empty_one() -> None:
    plan = a_plan(a_stage("plan"), a_stage("a", "plan", each="stages.plan.next_steps"))
    for more, why in (
        ({}, ""),
        ({"refused": "its result.json is ignored: no text"}, ": its result.json is ignored: no text"),
    ):
        with pytest.raises(NoList) as caught:
            is_to_run(plan.stage("a@1"), {"plan": {"status": "completed", "made_by": "fleet", **more}})
        assert str(caught.value) == f"plan has no result, so stages.plan.next_steps is unknown{why}"
    files = a_plan(a_stage("plan"), a_stage("a", "plan", each="stages.plan.files")).stage("a@1")
    assert is_to_run(files, {"plan": {"status": "completed", "made_by": "fleet", "files_changed": ["x"]}})[0]


def test_malformed_results_are_harmless() -> None:
    stage = a_plan(a_stage("a"), a_stage("b", "a", when="stages.a.files or stages.a.summary")).stage("b")
    for body in ({"files_changed": 7, "summary": ["x"]}, {"files_changed": [1, None]}, {}):
        assert started(stage, a=body)[0] is False
