"""Workflows through the real MCP server, as codefleet's callers use them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flows import COMPETITION, PARALLEL, WRITE_REVIEW_REFINE
from mcp_client import Tools, is_alive, serving, stop, workshop
from program import Program
from repositories import branches, run_git, worktrees
from supervised import wait_for

#: The keys of codefleet's payload of a workflow and of each stage.
PAYLOAD = {
    *("workflow_id", "name", "status", "repo_path", "stage_summary", "created_at", "completed_at", "error_message"),
    *("elapsed", "progress", "summary_line"),
}
STAGE = {"index", "name", "executor", "status", "worker_id", "status_label", "elapsed", "model"}
QUICK = "\ndemo: steps=1 pause=0"


class Shop(NamedTuple):
    """A home, a repository, and a server with its client."""

    fleet: Program
    repo: Path
    tools: Tools

    def make(self, stages: list[dict[str, Any]], **given: Any) -> dict[str, Any]:
        """Create a workflow."""
        told = {"name": "flow", "repo_path": str(self.repo), "task_prompt": "Do it", "stages": stages} | given
        return self.tools.ok("create_workflow", **told)

    def over(self, made: dict[str, Any]) -> dict[str, Any]:
        """Wait until the workflow has ended. Return its status."""
        found: dict[str, Any] = {}

        def is_over() -> bool:
            found.update(self.tools.ok("get_workflow_status", workflow_id=made["workflow_id"]))
            return found["status"] not in ("pending", "running")

        wait_for(is_over, "its end", lambda: str(found))
        return found


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    fleet, repo = workshop(tmp_path_factory.mktemp("flows"))
    with serving(fleet) as tools:
        yield Shop(fleet, repo, tools)
    stop(fleet)


@pytest.mark.parametrize("text", [WRITE_REVIEW_REFINE, PARALLEL, COMPETITION], ids=["refine", "parallel", "compete"])
def test_workflow_shapes_of_codefleet_run_to_their_end(shop: Shop, text: str) -> None:
    stages = json.loads(text)["stages"]
    for stage in stages:
        stage["executor"] = "demo"
        stage["prompt_template"] += QUICK
    made = shop.make(stages)
    assert set(made) >= PAYLOAD and all(set(each) >= STAGE for each in made["stage_summary"])
    done = shop.over(made)
    assert done["status"] == "succeeded" and done["progress"] == "3/3 stages complete (3 done)", done
    final = shop.tools.ok("collect_workflow_result", workflow_id=made["workflow_id"])
    last = final["stages"]
    assert {name: final["final_result"][name] for name in ("worker_id", "result")}.items() <= last[0].items()
    assert [each["name"] for each in last] == [stages[-1]["name"]]
    found = shop.tools.ok(
        "collect_workflow_result", workflow_id=made["workflow_id"], include_all_stages=True, include_logs=True
    )
    every, results = found["stages"], found["stage_results"]
    assert len(every) == 3 and all(each["result"]["status"] == "completed" for each in every)
    assert [(each["index"], each["name"], each["status"]) for each in results] == [
        (index, stage["name"], "succeeded") for index, stage in enumerate(stages)
    ]
    assert all("stdout_tail" in each["result"] and each["result"]["exit_code"] == 0 for each in results)
    tips = [run_git(shop.repo, "rev-parse", each["branch_name"]) for each in every]
    assert tips == [each["result"]["commit"] for each in every]


def test_final_result_is_of_the_last_round_or_item_that_ran(shop: Shop) -> None:
    work = {"prompt_template": f"x{QUICK}"}
    review = work | {"name": "review", "depends_on": ["write"], "repeat": {"at_most": 3, "from": "write"}}
    looped = shop.make([work | {"name": "write"}, review])
    each = {"of": "stages.plan.files", "at_most": 3}
    fanned = shop.make([work | {"name": "plan"}, work | {"name": "part", "depends_on": ["plan"], "each": each}])
    for made, last, copies in ((looped, "review", 6), (fanned, "part@1", 4)):
        done = shop.over(made)
        assert [stage["status"] for stage in done["stage_summary"]] == ["succeeded"] * 2 + ["skipped"] * (copies - 2)
        found = shop.tools.ok("collect_workflow_result", workflow_id=made["workflow_id"])
        (stage,) = found["stages"]
        assert (stage["name"], stage["status"], stage["result"]["status"]) == (last, "succeeded", "completed")
        final = found["final_result"]
        assert (final["task_name"], final["status"], final["result"]) == (f"flow: {last}", "succeeded", stage["result"])


def test_skipped_stage_is_reported_as_skipped_and_not_as_succeeded(shop: Shop) -> None:
    never = {"name": "mend", "prompt_template": "x", "depends_on": ["write"], "when": 'stages.write.status == "failed"'}
    made = shop.make([{"name": "write", "prompt_template": f"x{QUICK}"}, never])
    assert shop.over(made)["progress"] == "2/2 stages complete (1 done, 1 skipped)"
    found = shop.tools.ok("collect_workflow_result", workflow_id=made["workflow_id"])
    every = shop.tools.ok("collect_workflow_result", workflow_id=made["workflow_id"], include_all_stages=True)
    assert found["stages"] == every["stages"][1:] and found["stages"][0]["status"] == "skipped"
    for told in (found["final_result"], every["stage_results"][1]["result"]):
        assert (told["status"], told["status_label"], told["result"]) == ("skipped", "[SKIPPED]", {"status": "skipped"})
        assert told["summary_line"].startswith("[SKIPPED] flow: mend (demo/"), told
    shown = shop.fleet.ok("workflow", "results", made["workflow_id"])
    assert shown.splitlines()[-1] == "mend: skipped"


def test_workflow_is_canceled_and_cleaned_up(shop: Shop) -> None:
    made = shop.make(
        [
            {"name": "slow", "prompt_template": "demo: hang=middle"},
            {"name": "after", "prompt_template": "x", "depends_on": ["slow"]},
        ]
    )
    key = made["workflow_id"]
    assert "is pending" in (told := shop.tools.refused("cleanup_workflow", workflow_id=key)) or "is running" in told
    slow = made["stage_summary"][0]["worker_id"]
    wait_for(lambda: shop.tools.ok("get_worker_status", worker_id=slow)["pid"], "its agent")
    working = shop.tools.ok("get_worker_status", worker_id=slow)
    assert is_alive(working["pid"]) and Path(working["prompt_path"]).read_text() == "demo: hang=middle"
    shop.tools.ok("cancel_workflow", workflow_id=key)
    assert shop.over(made)["status"] == "cancelled"
    assert shop.tools.ok("get_worker_status", worker_id=slow)["pid"] is None
    assert shop.tools.refused("cancel_workflow", workflow_id=key).startswith("IllegalMove: ")
    listed = shop.tools.ok("list_workflows", statuses=["cancelled"], limit=1)
    assert [each["workflow_id"] for each in listed["workflows"]] == [key]
    assert listed["summary"] == "1 workflows: 1 cancelled"
    gone = shop.tools.ok("cleanup_workflow", workflow_id=key)
    assert (gone["stages_cleaned"], gone["cleaned"], gone["errors"]) == (1, [slow], [])
    assert not any("slow" in tree for tree in worktrees(shop.repo)) and not any(
        "slow" in b for b in branches(shop.repo)
    )
    kept = run_git(shop.repo, "for-each-ref", "--format=%(refname)", "refs/fleet")
    assert all(ref in kept for ref in (*gone["saved_refs"], *gone["branches_kept_at"]))


def test_wait_returns_at_a_question_and_a_canceled_workflow_asks_no_more(shop: Shop) -> None:
    """`wait` returns when a stage asks a person. After the cancellation, the question has no effect."""
    asks = {"name": "asks", "prompt_template": 'demo: steps=1 pause=0 ask="Which colour?"'}
    made = shop.make([asks, {"name": "after", "prompt_template": "x", "depends_on": ["asks"]}])
    key, task = made["workflow_id"], made["stage_summary"][0]["worker_id"]
    without = shop.tools.start(shop.tools.call("wait", {"until": "all", "timeout_seconds": 45}))
    answer = shop.tools.ok("wait", ids=[key], until="all", timeout_seconds=45)
    assert (answer["timed_out"], answer["count"], answer["over"]) == (False, 1, 1), answer
    (told,) = answer["workflows"]
    assert (told["id"], told["status"], told["stages"]) == (key, "running", {"asks": "needs you", "after": "waiting"})
    (question,) = told["questions"]
    assert (question["task"], question["text"].splitlines()[0]) == (task, "Which colour?")
    found = without.result(45)
    assert key in [each["id"] for each in found["workflows"]], "a wait for all that is made here is for workflows too"

    assert [each["task"] for each in json.loads(shop.fleet.ok("questions", "--json"))] == [task]
    shop.tools.ok("cancel_workflow", workflow_id=key)
    assert shop.over(made)["status"] == "cancelled"
    assert [each["status"] for each in shop.over(made)["stage_summary"]] == ["cancelled", "cancelled"]
    assert json.loads(shop.fleet.ok("questions", "--json")) == []
    (over,) = [each for each in json.loads(shop.fleet.ok("questions", "--all", "--json")) if each["task"] == task]
    assert (over["answer"], over["withdrawn"], over["waits"]) == (None, True, False)
    assert "→ withdrawn  (fleet)" in shop.fleet.ok("questions", "--all")
    assert "was withdrawn" in shop.fleet("answer", over["id"], "green").err, "it is too late"
    assert shop.tools.ok("wait", ids=[key], until="all")["workflows"][0]["status"] == "cancelled"
    assert "WorkflowNotFound" in shop.tools.refused("wait", ids=["wf_000000000000"])


def test_withdrawn_question_has_no_answer_and_is_asked_again_after_a_retry(shop: Shop) -> None:
    made = shop.make([{"name": "asks", "prompt_template": 'demo: steps=1 pause=0 ask="Which size?"'}])
    key, task = made["workflow_id"], made["stage_summary"][0]["worker_id"]
    artifacts = shop.fleet.home / "tasks" / task / "artifacts"

    def asked() -> list[str]:
        found = json.loads(shop.fleet.ok("questions", "--json"))
        return [each["id"] for each in found if each["task"] == task]

    def status() -> object:
        return json.loads(shop.fleet.ok("bd", "show", task, "--json"))[0]["status"]

    wait_for(asked, "its question")
    (first,) = asked()
    shop.tools.ok("cancel_workflow", workflow_id=key)
    assert asked() == []
    told = (artifacts / "Q&A.md").read_text()
    assert "## A:" not in told and "> withdrawn 2" in told
    shop.fleet.ok("retry", task)
    wait_for(asked, "its question to be asked anew", lambda: (artifacts / "Q&A.md").read_text())
    (second,) = asked()
    assert shop.tools.ok("get_workflow_status", workflow_id=key)["status"] == "running", "it waits for a person"
    assert second != first and "## A:" not in (artifacts / "Q&A.md").read_text()
    shop.fleet.ok("answer", second, "large")
    wait_for(lambda: status() == "closed", "its end")
    assert (artifacts / "KNOWLEDGE.md").read_text().splitlines()[0] == "- Which size? large"


def test_retried_stage_that_is_canceled_while_working_asks_nothing(shop: Shop) -> None:
    """Questions of an earlier run in the file are not asked again for the stage."""
    made = shop.make([{"name": "asks", "prompt_template": 'demo: steps=1 pause=0 ask="Which shape?"'}])
    key, task = made["workflow_id"], made["stage_summary"][0]["worker_id"]
    shop.tools.ok("wait", ids=[key], until="all", timeout_seconds=45)
    shop.tools.ok("cancel_workflow", workflow_id=key)
    shop.fleet.ok("bd", "update", task, "--description", "demo: hang=middle")
    shop.fleet.ok("retry", task)
    wait_for(lambda: shop.tools.ok("get_worker_status", worker_id=task)["status"] == "running", "its agent")
    shop.tools.ok("cancel_worker", worker_id=task)
    wait_for(lambda: shop.tools.ok("get_worker_status", worker_id=task)["status"] == "cancelled", "its end")
    assert [each for each in json.loads(shop.fleet.ok("questions", "--json")) if each["task"] == task] == []


def test_stage_that_times_out_is_reported_and_its_work_collected(shop: Shop) -> None:
    slow = {"name": "slow", "prompt_template": "demo: steps=2 pause=0 hang=middle", "timeout_seconds": 5}
    waits = {"name": "waits", "prompt_template": "demo: hang=middle"}
    made = shop.make([slow, waits], on_failure="cancel")
    done = shop.over(made)
    first, second = done["stage_summary"]
    assert (done["status"], first["status"], second["status"]) == ("failed", "timed_out", "cancelled")
    assert done["progress"] == "0/2 stages complete (1 failed, 1 cancelled)"
    for stage in (first, second):
        found = shop.tools.ok("collect_worker_result", worker_id=stage["worker_id"])
        assert found["status"] == stage["status"]
        assert (found["result_made_by"], found["result"]["status"]) == ("fleet", "failed"), found
        assert found["result"]["branch"] == stage["branch_name"] and found["result"]["summary"]
    every = shop.tools.ok("collect_workflow_result", workflow_id=made["workflow_id"], include_all_stages=True)
    assert [each["status"] for each in every["stages"]] == ["timed_out", "cancelled"]
    assert all(each["result"]["status"] == "failed" for each in every["stages"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"stages": []}, "BadWorkflow: "),
        ({"stages": [{"name": "a", "prompt_template": "x", "executor": "nobody"}]}, "unknown coder 'nobody'"),
        ({"stages": [{"name": "a", "prompt_template": "x", "depends_on": [0]}]}, "BadWorkflow: "),
        ({"repo_path": "/nowhere"}, "'/nowhere' is not a directory"),
        ({"repo_path": "a\0b"}, "is not a directory"),
        ({"base_ref": "no-such-branch"}, "no-such-branch"),
        ({"on_failure": "explode"}, "on_failure"),
    ],
)
def test_invalid_workflow_is_refused_and_nothing_is_created(shop: Shop, given: dict[str, Any], said: str) -> None:
    usual = {"name": "n", "repo_path": str(shop.repo), "task_prompt": "p"}
    before = shop.fleet.ok("bd", "list", "--all", "--json")
    told = shop.tools.refused(
        "create_workflow", **(usual | {"stages": [{"name": "a", "prompt_template": "x"}]} | given)
    )
    assert said in told
    assert shop.fleet.ok("bd", "list", "--all", "--json") == before
    assert shop.tools.refused("get_workflow_status", workflow_id="wf_no").startswith("WorkflowNotFound: ")
    assert "unknown status" in shop.tools.refused("list_workflows", statuses=["x"])
