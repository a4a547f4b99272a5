"""codefleet's document with the real codex, claude and gemini: its three examples unchanged, and its single workers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows import EXAMPLES
from mcp_client import serving
from model_server import Turn
from real.mixed import Mixed, mixed
from repositories import run_git

__all__ = ["mixed"]

pytestmark = pytest.mark.soak("clis")
CLIS = ("codex", "claude", "gemini")
NAMES = ("write-review-refine", "parallel-review", "competition")
SINGLE = {
    "codex": "Add rate limiting to the API gateway",
    "claude": "Write tests for the auth module",
    "gemini": "Refactor the database models",
}
PROMPT = "Limit how often one may ask"


def turns(cli: str) -> list[Turn]:
    """Return the turns of an agent that adds a file and reports it."""
    return [
        Turn(text="I write it.", shell=f"echo by {cli} > {cli}-$FLEET_TASK_ID.txt"),
        Turn(text=f"{cli} has written it."),
    ]


def test_three_codefleet_examples_run_unchanged_at_the_same_time(mixed: Callable[..., Mixed]) -> None:
    given = mixed(per_conversation=True, **{cli: turns(cli) for cli in CLIS})
    flows = [given.begun(EXAMPLES / f"{name}.json", PROMPT) for name in NAMES]
    for name, made in zip(NAMES, flows, strict=True):
        flow, handed = given.over(made), given.results(made)
        stages = json.loads((EXAMPLES / f"{name}.json").read_text())["stages"]
        assert [(each["name"], each["coder"]) for each in flow["stages"]] == [
            (each["name"], each["executor"]) for each in stages
        ]
        assert [given.run_of(flow, each["name"])["coder"] for each in stages] == [each["executor"] for each in stages]
        for stage, told in zip(stages, flow["stages"], strict=True):
            own = f"{stage['executor']}-{told['task']}.txt"
            assert handed[stage["name"]]["result"]["files_changed"] == [own]
            assert handed[stage["name"]]["result"]["summary"] == f"{stage['executor']} has written it."
            assert run_git(given.repo, "show", f"{told['branch']}:{own}") == f"by {stage['executor']}"
            assert depth(given.repo, told["branch"]) == len(lineage(stages, stage["name"]))
    assert told_any(given, "claude", "Review these changes:") and told_any(given, "claude", "Which is better?")
    assert told_any(given, "codex", "Address this review:") and told_any(given, "codex", f"{PROMPT}: module A")
    assert told_any(given, "gemini", f"{PROMPT}: module B")


def depth(repo: Path, branch: str) -> int:
    """Return the number of commits of a branch beyond main."""
    return int(run_git(repo, "rev-list", "--count", f"main..{branch}"))


def lineage(stages: list[dict[str, Any]], name: str) -> list[str]:
    """Return a stage and the stages whose work it continues."""
    stage = next(each for each in stages if each["name"] == name)
    heir = stage.get("worktree_strategy") == "inherit"
    return [name, *(lineage(stages, stages[stage["depends_on"][0]]["name"]) if heir else [])]


def told_any(given: Mixed, cli: str, words: str) -> bool:
    """Return True if a CLI's model got these words."""
    return any(each.holds(words) for each in given.models[cli].turns())


def test_single_workers_follow_the_document(mixed: Callable[..., Mixed]) -> None:
    given = mixed(**{cli: turns(cli) for cli in CLIS})
    orders = [{"repo_path": str(given.repo), "executor": cli, "task_name": cli, "prompt": SINGLE[cli]} for cli in CLIS]
    with serving(given.home.fleet) as tools:
        keys = [each["worker_id"] for each in tools.at_once("create_worker", orders)]
        assert [each["status"] for each in tools.wait_over(*keys)] == ["succeeded"] * 3
        every = [tools.ok("collect_worker_result", worker_id=key) for key in keys]
    for cli, key, done in zip(CLIS, keys, every, strict=True):
        assert (done["executor"], done["exit_code"], done["retry_count"]) == (cli, 0, 0)
        assert done["branch_name"] == f"{cli}/{cli}/{key}"
        assert done["result"]["files_changed"] == [f"{cli}-{key}.txt"]
        assert (done["result"]["summary"], done["result"]["status"]) == (f"{cli} has written it.", "completed")
        assert run_git(given.repo, "show", f"{done['branch_name']}:{cli}-{key}.txt") == f"by {cli}"
        assert told_any(given, cli, SINGLE[cli])
