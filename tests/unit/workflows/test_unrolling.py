"""Loops and fans: the plain stages they become, and which of them run."""

from collections.abc import Callable, Iterator
from typing import Any

from fleet.core.workflow import Stage, WorkflowPlan
from fleet.workflows.conditions import is_to_run
from fleet.workflows.results import inherits_from, no_item, own_items
from fleet.workflows.stage_prompt import prompt_of
from flows import a_plan, a_stage

Body = dict[str, Any]


def ran(plan: WorkflowPlan, bodies: Callable[[Stage], Body]) -> dict[str, Body]:
    """Return the results if each stage hands in its given body, in the order of the plan.

    Each stage sees only the results that it reads. A skipped stage hands in nothing.
    """
    results: dict[str, Body] = {}
    for stage in plan.stages:
        assert all(need in results for need in stage.needs)
        seen = {name: results[name] for name in stage.sources if name in results}
        runs, why = is_to_run(stage, seen)
        skipped = {"status": "skipped", **({"no_item": True} if why == no_item(stage) else {})}
        results[stage.name] = {"branch": f"b/{stage.name}", **bodies(stage)} if runs else skipped
    return results


def who_ran(results: dict[str, Body]) -> list[str]:
    return [name for name, body in results.items() if body["status"] != "skipped"]


def handing_in(**by_name: Body) -> Callable[[Stage], Body]:
    named: Iterator[tuple[str, Body]] = iter(by_name.items())
    bodies = {name.replace("_", "#"): body for name, body in named}
    return lambda stage: {"status": "completed", **bodies.get(stage.name, {})}


def test_each_creates_one_stage_per_item() -> None:
    plan = a_plan(a_stage("part", each=["x y", 2], prompt_template="{item}"), a_stage("end", "part"))
    assert [(stage.name, stage.item, stage.stage) for stage in plan.stages] == [
        ("part@1", "x y", "part"),
        ("part@2", "2", "part"),
        ("end", None, "end"),
    ]
    assert plan.stage("end").needs == ("part@1", "part@2")


def test_each_accepts_a_number_of_items() -> None:
    assert [stage.item for stage in a_plan(a_stage("part", each=3)).stages] == ["1", "2", "3"]


LISTED = (
    a_stage("plan"),
    a_stage("part", "plan", each={"of": "stages.plan.next_steps", "at_most": 3}, prompt_template="{item}"),
    a_stage("end", "part", worktree_strategy="inherit", prompt_template="{stages.part.summary}"),
)


def test_list_of_an_earlier_stage_creates_one_stage_per_item() -> None:
    plan = a_plan(*LISTED)
    assert [stage.name for stage in plan.stages] == ["plan", "part@1", "part@2", "part@3", "end"]
    results = ran(plan, handing_in(plan={"next_steps": ["one", "two"]}))
    assert who_ran(results) == ["plan", "part@1", "part@2", "end"]
    assert inherits_from(plan.stage("end"), results) == "part@1"
    assert is_to_run(plan.stage("part@3"), results) == (False, "stages.plan.next_steps has no item 3")


def test_last_stage_does_the_rest_of_a_longer_list() -> None:
    plan = a_plan(*LISTED)
    results = ran(plan, handing_in(plan={"next_steps": ["1", " ", "2", "3", "4", "5"]}))
    assert [own_items(plan.stage(f"part@{number}"), results) for number in (1, 2, 3)] == [["1"], ["2"], ["3", "4", "5"]]


def test_empty_list_skips_its_stages_and_their_dependents() -> None:
    bodies: list[Body] = [{"next_steps": []}, {}, {"next_steps": "no list"}]
    for body in bodies:
        assert who_ran(ran(a_plan(*LISTED), handing_in(plan=body))) == ["plan"]


def test_lists_of_a_whole_fan_are_joined() -> None:
    plan = a_plan(a_stage("look", each=2), a_stage("fix", "look", each="stage_0_files"))
    assert [stage.name for stage in plan.stages][2:] == [f"fix@{number}" for number in range(1, 11)]
    results = ran(plan, lambda stage: {"status": "completed", "files_changed": [f"{stage.name}.py"]})
    assert who_ran(results) == ["look@1", "look@2", "fix@1", "fix@2"]
    assert own_items(plan.stage("fix@2"), results) == ["look@2.py"]


LOOP = (
    a_stage("write"),
    a_stage("fix", "write", worktree_strategy="inherit", verify="make", repeat={"at_most": 3}),
    a_stage("end", "fix", worktree_strategy="inherit", prompt_template="{stages.fix.summary}"),
)


def test_stage_repeats_until_it_is_verified() -> None:
    plan = a_plan(*LOOP)
    assert [(stage.name, stage.round, stage.needs, stage.may_fail) for stage in plan.stages] == [
        ("write", 1, (), False),
        ("fix", 1, ("write",), True),
        ("fix#2", 2, ("fix",), True),
        ("fix#3", 3, ("fix#2",), False),
        ("end", 1, ("fix#3",), False),
    ]
    bad, good = {"status": "failed", "finding": "failed_verify"}, {"finding": "verified"}
    assert who_ran(ran(plan, handing_in(fix=good))) == ["write", "fix", "end"]
    assert who_ran(ran(plan, handing_in(fix=bad, fix_2=good))) == ["write", "fix", "fix#2", "end"]
    assert who_ran(ran(plan, handing_in(fix=bad, fix_2=bad, fix_3=bad)))[1:] == ["fix", "fix#2", "fix#3", "end"]


def test_stage_after_a_loop_starts_from_its_last_round() -> None:
    plan = a_plan(*LOOP)
    bad, good = {"finding": "failed_verify"}, {"finding": "verified"}
    results = ran(plan, handing_in(fix=bad, fix_2=good))
    assert inherits_from(plan.stage("end"), results) == "fix#2"
    assert inherits_from(plan.stage("fix#2"), results) == "fix"
    assert inherits_from(plan.stage("fix"), results) == "write"
    assert inherits_from(plan.stage("write"), results) == ""


def test_next_round_runs_when_the_end_of_a_round_is_not_recorded() -> None:
    stage = a_plan(*LOOP).stage("fix#2")
    assert is_to_run(stage, {})[0]
    assert is_to_run(stage, {"fix": {"status": "failed"}})[0]
    assert is_to_run(stage, {"fix": {"status": "skipped"}}) == (False, "the loop ended in an earlier round")
    assert is_to_run(stage, {"fix": {"finding": "verified"}}) == (False, "the loop ended with fix: verify")


REVIEWED = (
    a_stage("implement", prompt_template="{task_prompt}\n{stages.review.next_steps}"),
    a_stage("test", "implement", worktree_strategy="inherit"),
    a_stage(
        "review",
        "test",
        worktree_strategy="inherit",
        no_changes=True,
        repeat={"at_most": 3, "from": "implement"},
        prompt_template="{stages.implement.summary}{stages.review.summary}",
    ),
    a_stage("ship", "review", "implement", worktree_strategy="inherit"),
)


def test_several_stages_repeat_until_the_reviewer_is_content() -> None:
    plan = a_plan(*REVIEWED)
    rounds = [f"{name}{end}" for end in ("", "#2", "#3") for name in ("implement", "test", "review")]
    assert [stage.name for stage in plan.stages] == [*rounds, "ship"]
    assert plan.stage("implement#2").needs == ("review",)
    assert plan.stage("implement#2").inherits, "a later round goes on where the one before it ended"
    assert plan.stage("test#2").needs == ("implement#2",)
    assert plan.stage("ship").needs == ("review#3", "implement#3")
    more = {"next_steps": ["mend it"]}
    assert who_ran(ran(plan, handing_in())) == [*rounds[:3], "ship"]
    assert who_ran(ran(plan, handing_in(review=more))) == [*rounds[:6], "ship"]
    assert who_ran(ran(plan, handing_in(review=more, review_2=more, review_3=more))) == [*rounds, "ship"]
    assert who_ran(ran(plan, handing_in(review={"status": "blocked"})))[3] == "implement#2"


def test_prompt_in_a_loop_reads_finished_stages() -> None:
    plan = a_plan(*REVIEWED)
    assert plan.stage("implement").reads == {"stages.review": ()}
    assert plan.stage("implement#3").reads["stages.review"] == (("review", "review#2"),)
    assert plan.stage("review#2").reads["stages.implement"] == (("implement", "implement#2"),)
    assert plan.stage("review#2").reads["stages.review"] == (("review",),)


def test_until_accepts_any_condition() -> None:
    until = 'summary contains "approved" or finding == "verified"'
    plan = a_plan(a_stage("a", repeat={"at_most": 2, "until": until}))
    assert who_ran(ran(plan, handing_in(a={"summary": "APPROVED."}))) == ["a"]
    assert who_ran(ran(plan, handing_in(a={"summary": "no"}))) == ["a", "a#2"]


def test_each_item_has_its_own_loop() -> None:
    plan = a_plan(a_stage("a", each=2, verify="make", repeat=2), a_stage("b", "a"))
    assert [stage.name for stage in plan.stages] == ["a@1", "a@2", "a@1#2", "a@2#2", "b"]
    assert plan.stage("a@2#2").after == (("a@2",),)
    assert plan.stage("b").after == (("a@1", "a@1#2"), ("a@2", "a@2#2"))
    done = {"a@1": {"finding": "verified"}, "a@2": {"finding": "failed_verify"}}
    results = ran(plan, lambda stage: {"status": "completed", **done.get(stage.name, {})})
    assert who_ran(results) == ["a@1", "a@2", "a@2#2", "b"]


def test_fan_inside_a_loop_runs_completely_in_each_round() -> None:
    plan = a_plan(
        a_stage("plan"),
        a_stage("part", "plan", each=2),
        a_stage("judge", "part", repeat={"at_most": 2, "from": "plan"}),
    )
    assert plan.stage("judge#2").after == (("part@1", "part@1#2"), ("part@2", "part@2#2"))
    assert [stage.name for stage in plan.stages][4:] == ["plan#2", "part@1#2", "part@2#2", "judge#2"]


FROM_WRITE = {"at_most": 3, "from": "write"}


def test_next_round_continues_the_reviewed_work_when_the_reviewer_starts_fresh() -> None:
    plan = a_plan(a_stage("write"), a_stage("review", "write", repeat=FROM_WRITE))
    results = ran(plan, handing_in(review={"next_steps": ["x"]}, review_2={"next_steps": ["y"]}))
    assert who_ran(results) == ["write", "review", "write#2", "review#2", "write#3", "review#3"]
    assert [inherits_from(plan.stage(name), results) for name in ("write#2", "write#3")] == ["write", "write#2"]
    assert inherits_from(plan.stage("review#2"), results) == ""


def test_next_round_continues_the_last_stage_that_inherited_the_work() -> None:
    heir = {"worktree_strategy": "inherit"}
    plan = a_plan(
        a_stage("write"),
        a_stage("test", "write", **heir),
        a_stage("review", "test", repeat=FROM_WRITE),
        a_stage("end", "review"),
    )
    results = ran(plan, handing_in(review={"next_steps": ["x"]}))
    assert inherits_from(plan.stage("write#2"), results) == "test"
    plan = a_plan(a_stage("write"), a_stage("review", "write", repeat=FROM_WRITE, **heir))
    assert inherits_from(plan.stage("write#2"), ran(plan, handing_in(review={"next_steps": ["x"]}))) == "review"


def test_each_part_of_a_fan_continues_its_own_work_in_the_next_round() -> None:
    plan = a_plan(
        a_stage("part", each=2),
        a_stage("review", "part", worktree_strategy="inherit", repeat={"at_most": 2, "from": "part"}),
    )
    results = ran(plan, handing_in(review={"next_steps": ["x"]}))
    assert [inherits_from(plan.stage(name), results) for name in ("part@1#2", "part@2#2")] == ["part@1", "part@2"]


def test_earlier_results_for_a_dropped_item_do_not_count() -> None:
    plan = a_plan(
        a_stage("plan"),
        a_stage("part", "plan", each={"of": "stages.plan.next_steps", "at_most": 3}),
        a_stage("review", "part", repeat={"at_most": 2, "from": "plan"}, prompt_template="{stages.part.branch}"),
    )
    bodies = {"plan": {"next_steps": ["a", "b"]}, "plan#2": {"next_steps": ["c"]}, "review": {"next_steps": ["again"]}}
    results = ran(plan, lambda stage: {"status": "completed", **bodies.get(stage.name, {})})
    assert who_ran(results)[4:] == ["plan#2", "part@1#2", "review#2"]
    said = prompt_of(plan.stage("review#2"), task_prompt="", results=results)
    assert said == "b/part@1#2"


def test_external_dependencies_of_a_loop_run_before_all_of_it() -> None:
    plan = a_plan(
        a_stage("a"),
        a_stage("c", "a", "late", repeat={"at_most": 2, "from": "a"}),
        a_stage("late"),
        a_stage("beside", "a"),
    )
    assert [stage.name for stage in plan.stages] == ["late", "a", "c", "a#2", "c#2", "beside"]


def test_skipped_loop_has_no_later_rounds() -> None:
    plan = a_plan(a_stage("a"), a_stage("b", "a", when="stages.a.next_steps", repeat=3), a_stage("c", "b"))
    results = ran(plan, handing_in())
    assert who_ran(results) == ["a"]


def test_heir_of_a_skipped_stage_starts_from_the_base_of_that_stage() -> None:
    again = {"worktree_strategy": "inherit", "when": "stages.a.next_steps"}
    plan = a_plan(
        a_stage("a"),
        a_stage("b", "a", **again),
        a_stage("c", "b", **again),
        a_stage("d", "c", worktree_strategy="inherit", when="stages.c.status"),
    )
    results = ran(plan, handing_in())
    assert who_ran(results) == ["a", "d"]
    seen = {name: results[name] for name in plan.stage("d").sources}
    assert inherits_from(plan.stage("d"), seen) == "a"
    everyone = ran(plan, handing_in(a={"next_steps": ["more"]}))
    assert inherits_from(plan.stage("d"), everyone) == "c"


def test_heir_takes_the_first_named_stage() -> None:
    plan = a_plan(a_stage("a"), a_stage("b"), a_stage("c", "b", "a", worktree_strategy="inherit"))
    assert inherits_from(plan.stage("c"), ran(plan, handing_in())) == "b"


def test_plan_of_many_optional_stages_stays_small() -> None:
    row = [a_stage("s0"), a_stage("s1", "s0", when="stages.s0.summary")]
    row += [a_stage(f"s{n}", f"s{n - 1}", worktree_strategy="inherit") for n in range(2, 1000)]
    assert len(a_plan(*row).text()) < 2_500_000
