"""From a file to a plan, or to all faults at once, each with its position."""

import json
from pathlib import Path
from typing import Any

import pytest

from fleet.core.workflow import CONTINUE, STOP
from fleet.workflows.check import KnownNames
from fleet.workflows.faults import MOST_FAULTS, BadWorkflow
from fleet.workflows.plan import plan_from_data
from flows import (
    CODERS,
    COMPETITION,
    PARALLEL,
    WRITE_REVIEW_REFINE,
    a_plan,
    a_stage,
    faults_in_file,
    faults_of,
    plan_in_file,
)


def test_write_review_refine_of_codefleet_runs_unchanged(tmp_path: Path) -> None:
    plan = plan_in_file(tmp_path, "any.json", WRITE_REVIEW_REFINE)
    told = json.loads(WRITE_REVIEW_REFINE)
    assert (plan.name, plan.task_prompt, plan.repo_hint) == ("write-review-refine", told["task_prompt"], "")
    elsewhere = json.dumps(told | {"repo_path": "/path/to/your/repo"})  # as in its examples to copy
    assert plan_in_file(tmp_path, "any.json", elsewhere).repo_hint == "/path/to/your/repo"
    assert [(each.name, each.coder, each.needs, each.inherits) for each in plan.stages] == [
        ("implement", "codex", (), False),
        ("review", "claude", ("implement",), True),
        ("refine", "codex", ("review",), True),
    ]
    assert plan.stage("refine").reads == {"stage_1": (("review",),)}


@pytest.mark.parametrize(("text", "first"), [(PARALLEL, "module-a"), (COMPETITION, "codex-impl")])
def test_the_other_shapes_of_codefleet_run_unchanged(tmp_path: Path, text: str, first: str) -> None:
    plan = plan_in_file(tmp_path, "two-and-one.json", text)
    assert plan.name == "two-and-one"
    assert plan.stages[0].name == first
    assert plan.stages[2].needs == tuple(stage.name for stage in plan.stages[:2])
    assert not any(stage.inherits for stage in plan.stages)


def test_each_key_of_a_stage_is_kept() -> None:
    plan = a_plan(
        a_stage("a"),
        {
            "name": "b",
            "coder": "claude",
            "model": "opus",
            "prompt": "do {task_prompt}",
            "worktree_strategy": "inherit",
            "depends_on": ["a"],
            "timeout": "1.5h",
            "verify": "make test",
            "retries": 0,
            "when": "stages.a.summary",
            "account": "work",
            "extra_args": ["--x", ""],
            "reasoning_effort": "high",
            "no_changes": True,
        },
        timeout_seconds=60,
        on_failure="stop",
    )
    first, stage = plan.stages
    assert (first.timeout_seconds, first.retries, first.verify) == (60.0, None, "")
    assert (stage.coder, stage.model, stage.prompt, stage.inherits) == ("claude", "opus", "do {task_prompt}", True)
    assert (stage.timeout_seconds, stage.verify, stage.retries) == (5400.0, "make test", 0)
    assert (stage.when, stage.account, stage.extra_args) == ("stages.a.summary", "work", ("--x", ""))
    assert (stage.reasoning_effort, stage.no_changes, stage.index) == ("high", True, 1)
    assert plan.on_failure == STOP


def test_null_counts_as_unset() -> None:
    plan = a_plan(a_stage("a", model=None, executor=None, timeout_seconds=None, extra_args=None, verify=None))
    assert (plan.stages[0].model, plan.stages[0].timeout_seconds, plan.on_failure) == ("", None, CONTINUE)


def test_name_is_taken_from_the_file_content(tmp_path: Path) -> None:
    assert plan_in_file(tmp_path, "my flow\n{x}.v2.json", PARALLEL).name == "my flow {x}.v2"


def test_all_faults_are_reported_in_order_of_the_file(tmp_path: Path) -> None:
    text = """name: x
on_failur: stop

stages:
- name: a
  executor: clade
  prompt_template: "{stages.b.summary} {stage_7_files} {stages.a.sumary}"

- name: b
  prompt: p
  depends_on: [a, ghost, 9]
  worktree_strategy: inherited
  when: stages.a.status = 'completed'
  timeout: -1

- name: a
  prompt: ""
  worktree_strategy: inherit
  retrys: 1
"""
    assert faults_in_file(tmp_path, "x.yaml", text) == [
        "2:1: unknown key 'on_failur' of a workflow",
        "6:13: unknown coder 'clade'",
        "7:20: the variable {stages.b.summary} is about stage 'b', on which 'a' does not depend",
        "7:20: the variable {stage_7_files}: no such stage: 7",
        "7:20: the variable {stages.a.sumary} uses a field that no stage has",
        "11:19: no such stage: 'ghost'",
        "11:26: no such stage: 9",
        "12:22: worktree_strategy must be 'new' or 'inherit', not 'inherited'",
        "13:9: bad condition \"stages.a.status = 'completed'\": "
        "`and`, `or` or the end is expected at character 17, not '='",
        """14:12: timeout must be a time like 600, "10m" or "2h", at most 30 days, not -1""",
        "16:9: stage 2 has the same name as stage 0, 'a'",
        "17:11: prompt must be text, not ''",
        "18:22: stage 'a' inherits a worktree, but depends on no stage",
        "19:3: unknown key 'retrys' of a stage",
    ]


def test_toml_faults_are_named_by_their_paths(tmp_path: Path) -> None:
    text = (
        '[[stages]]\nname = "a"\nprompt = "p"\ntimeout = -1\n[[stages]]\nname = "b"\nprompt = "{stages.nope.summary}"\n'
    )
    first, second = faults_in_file(tmp_path, "x.toml", text)
    assert first.startswith(" stages[0].timeout: timeout must be a time")
    assert second.startswith(" stages[1].prompt: the variable {stages.nope.summary}")


def test_json_faults_have_positions(tmp_path: Path) -> None:
    text = json.dumps({"stages": [a_stage("a", "b"), a_stage("b", "a")]}, indent=1)
    [fault] = faults_in_file(tmp_path, "x.json", text)
    assert fault == "6:18: stages depend on each other in a cycle: a → b → a"


def test_data_without_a_file_is_named_by_path() -> None:
    [fault] = faults_of(a_stage("a"), a_stage("b", "c"))
    assert str(fault) == "stages[1].depends_on[0]: no such stage: 'c'"
    assert fault.hint == "there are: a, b."
    assert fault.view() == {
        "file": "",
        "path": "stages[1].depends_on[0]",
        "message": "no such stage: 'c'",
        "hint": "there are: a, b.",
    }


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("promt_template", "prompt_template"),
        ("dependson", "depends_on"),
        ("repeats", "repeat"),
        ("excutor", "executor"),
    ],
)
def test_unknown_key_gets_a_suggestion(wrong: str, near: str) -> None:
    [fault] = faults_of(a_stage("a", **{wrong: "x"}))
    assert fault.message == f"unknown key {wrong!r} of a stage"
    assert fault.hint == f"did you mean {near!r}?"


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("name", [1, "", " a", "a\nb", "a{b", "a#2", "a@1", "x" * 101, None]),
        ("executor", [1, "a\nb", ["claude"]]),
        ("prompt_template", [None, 1, "  ", ["x"], "a\0b", "\ud800"]),
        ("worktree_strategy", ["", "NEW", 1, None]),
        ("depends_on", ["a", 0, None, [True], [1.5], [None], {"a": 1}]),
        ("timeout", [0, -1, True, "soon", "10 parsecs", 1e12, "", []]),
        ("verify", [1, "a\nb", ["make"]]),
        ("retries", [-1, 1.0, True, "1", 1000]),
        ("when", ["", 1, True]),
        ("repeat", [0, 21, True, "3", {}, {"at_most": 0}, {"at_most": 2, "x": 1}, {"at_most": 2, "until": 1}, []]),
        ("each", [0, [], True, "abc", [""], [1.5], 1001, ["x"] * 1001, {}, {"of": 1}, {"of": "stages.first.branch"}]),
        ("each", [{"of": "stages.first.files", "at_most": 0}, {"of": "stages.first.files", "x": 1}, {"at_most": 2}]),
        ("extra_args", ["--x", [1], ["a\0"]]),
        ("no_changes", ["yes", 1, None]),
    ],
)
def test_value_of_the_wrong_type_is_refused(key: str, values: list[Any]) -> None:
    for value in values:
        found = faults_of(a_stage("first"), {**a_stage("x"), key: value})
        assert [fault.path for fault in found if fault.message.startswith(f"{key} must be ")] == [f"stages[1].{key}"], (
            value
        )


@pytest.mark.parametrize("data", [None, [], "x", {}, {"stages": []}, {"stages": {}}, {"stages": [1]}, {"stages": [{}]}])
def test_data_that_is_no_workflow_is_refused(data: Any) -> None:
    with pytest.raises(BadWorkflow):
        plan_from_data(data, name="x", known=KnownNames(CODERS.__contains__))


def test_key_in_two_spellings_is_a_fault() -> None:
    [fault] = faults_of(a_stage("a", prompt="also"))
    assert fault.message == "'prompt' says again what another key has said"


def test_each_coder_is_looked_up_once() -> None:
    asked: list[str] = []

    def knows(name: str) -> bool:
        asked.append(name)
        return True

    plan_from_data(
        {"stages": [a_stage(f"s{n}", executor="claude") for n in range(50)]}, name="x", known=KnownNames(knows)
    )
    assert asked == ["claude"]


def test_endless_faults_are_counted_and_not_stored() -> None:
    with pytest.raises(BadWorkflow, match=r"\(and 2999 more\)") as caught:
        a_plan(*(a_stage(f"s{number}", f"ghost-{number}") for number in range(3000)))
    assert len(caught.value.faults) == MOST_FAULTS


def test_error_names_the_first_fault_and_its_remedy() -> None:
    with pytest.raises(BadWorkflow) as caught:
        a_plan(a_stage("review"), a_stage("b", "reviw"), a_stage("c", "d"))
    assert str(caught.value) == "stages[1].depends_on[0]: no such stage: 'reviw' (and 1 more)"
    assert caught.value.hint == "did you mean 'review'?"


def test_name_with_blanks_is_quoted_in_prompts_and_conditions() -> None:
    plan = a_plan(
        a_stage("a b"),
        a_stage("c", "a b", prompt_template='{stages["a b"].summary}', when="stages['a b'].status == 'completed'"),
        a_stage("d", "a b", prompt_template="{stages.a b.summary}"),
    )
    assert [stage.reads for stage in plan.stages[1:]] == [{"stages.a b": (("a b",),)}] * 2
    (fault,) = faults_of(a_stage("a b"), a_stage("c", "a b", when='stages.a b.status == "completed"'))
    assert 'stages["a b"].status if a name has blanks' in fault.hint


@pytest.mark.parametrize(
    ("name", "text", "places"),
    [
        (
            "x.yaml",
            "stages:\n- name: a\n  prompt: |\n    Do\n    it {stages.b.summary}\n"
            "- name: c\n  prompt: '{stages.b.files}'\n",
            ["5:8", "7:11"],
        ),
        (
            "x.json",
            '{"stages": [\n{"name": "a",\n"prompt": "Do\\n{stages.b.summary}"}]}',
            ["3:11"],
        ),
    ],
)
def test_invalid_variable_in_a_long_prompt_is_reported_with_its_line(
    tmp_path: Path, name: str, text: str, places: list[str]
) -> None:
    assert [":".join(fault.split(":")[:2]) for fault in faults_in_file(tmp_path, name, text)] == places


def test_single_dependency_name_gets_a_hint_about_its_form() -> None:
    (fault,) = faults_of(a_stage("a"), {**a_stage("b"), "depends_on": "a"})
    assert fault.message.endswith("not 'a': write [\"a\"]")
