"""The three examples of codefleet's document, unchanged: from files as users run them, and through the MCP server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flows import EXAMPLES
from mcp_client import Tools, serving, stop, workshop
from program import Program
from repositories import run_git
from stub_clis import found, heard, with_stub_clis

PROMPT = "Add rate limiting"
NAMES = ("write-review-refine", "parallel-review", "competition")


class Shop(NamedTuple):
    """A home that finds stubs of the three CLIs, a repository, and a server with its client."""

    fleet: Program
    repo: Path
    tools: Tools


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    fleet, repo = workshop(tmp_path_factory.mktemp("examples"))
    del fleet.env["FLEET_DEFAULT_EXECUTOR"]  # the examples name their executors
    with_stub_clis(fleet)
    with serving(fleet) as tools:
        yield Shop(fleet, repo, tools)
    stop(fleet)


@pytest.mark.parametrize("name", NAMES)
def test_example_runs_from_its_file(shop: Shop, name: str) -> None:
    says = [] if name == "write-review-refine" else ["-p", PROMPT]  # this example has a prompt of its own
    file = str(EXAMPLES / f"{name}.json")
    flow = json.loads(shop.fleet.ok("workflow", "run", file, *says, "--repo", str(shop.repo), "--wait", "--json"))
    assert (flow["status"], flow["name"]) == ("succeeded", name)
    assert [(each["name"], each["coder"], each["state"]) for each in flow["stages"]] == [
        (each["name"], each["executor"], "done") for each in stages(name)
    ]
    assert_flowed(shop, name, [str(each["task"]) for each in flow["stages"]])


@pytest.mark.parametrize("name", NAMES)
def test_example_runs_through_mcp(shop: Shop, name: str) -> None:
    told = {"name": name, "task_prompt": PROMPT} | json.loads((EXAMPLES / f"{name}.json").read_text())
    made = shop.tools.ok("create_workflow", repo_path=str(shop.repo), **told)
    answer = shop.tools.ok("wait", ids=[made["workflow_id"]], until="all", timeout_seconds=45)
    assert not answer["timed_out"], answer
    done = shop.tools.ok("get_workflow_status", workflow_id=made["workflow_id"])
    assert (done["status"], done["progress"]) == ("succeeded", "3/3 stages complete (3 done)")
    summary = done["stage_summary"]
    assert [(each["index"], each["name"], each["executor"], each["status"]) for each in summary] == [
        (index, each["name"], each["executor"], "succeeded") for index, each in enumerate(stages(name))
    ]
    assert_flowed(shop, name, [str(each["worker_id"]) for each in summary])
    final = shop.tools.ok("collect_workflow_result", workflow_id=made["workflow_id"])["final_result"]
    assert final["result"]["summary"] == f"{stages(name)[-1]['executor']} wrote it"


def stages(name: str) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = json.loads((EXAMPLES / f"{name}.json").read_text())["stages"]
    return told


def assert_flowed(shop: Shop, name: str, tasks: list[str]) -> None:
    """Check that each prompt is its template with earlier results, and that each branch starts at the right commit."""
    first, second, third = (heard(shop.fleet, task) for task in tasks)
    about = json.loads((EXAMPLES / f"{name}.json").read_text()).get("task_prompt", PROMPT)
    made = [f"{each['executor']}-{task}.txt" for each, task in zip(stages(name), tasks, strict=True)]
    seen = [[file for file in found(shop.fleet, task) if file in made] for task in tasks]
    if name == "write-review-refine":
        assert first == about and in_order(second, "Review these changes:", "codex wrote it", "Files:", made[0])
        assert in_order(third, "Address this review:", "claude wrote it", "as claude says")
        assert seen == [[], made[:1], sorted(made[:2])], "an heir has what those before it made"
    else:
        own = (": module A", ": module B") if name == "parallel-review" else ("", "")
        assert (first, second) == (about + own[0], about + own[1])
        lines = [f"{letter}: " for letter in "AB"]
        assert in_order(third, lines[0], f"{stages(name)[0]['executor']} wrote it", lines[1])
        assert f"{stages(name)[1]['executor']} wrote it" in third
        assert seen == [[], [], []], "each has a start of its own"
    main = run_git(shop.repo, "rev-parse", "HEAD")
    assert run_git(shop.repo, "status", "--porcelain") == "" and run_git(shop.repo, "rev-parse", "main") == main


def in_order(text: str, *words: str) -> bool:
    """Return True if these words occur in this order."""
    places = [text.find(word) for word in words]
    return -1 not in places and places == sorted(places)
