"""The real codex, claude and gemini as stages of one workflow. Each stage gets the work and results of earlier ones."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flows import PARALLEL, WRITE_REVIEW_REFINE
from model_server import Turn
from real.mixed import Mixed, mixed
from real.through_fleet import MODELS
from repositories import run_git

__all__ = ["mixed"]

pytestmark = pytest.mark.soak("clis")
DONE = Turn(text="All done.")


def handing_in(**told: Any) -> Turn:
    """Return the turn of an agent that hands in a result by its shell."""
    return Turn(shell=f"echo '{json.dumps(told)}' > \"$FLEET_ARTIFACT_DIR/result.json\"")


def tip(mixed: Mixed, flow: dict[str, Any], name: str) -> str:
    """Return the last commit of a stage's branch."""
    return run_git(mixed.repo, "rev-parse", next(each["branch"] for each in flow["stages"] if each["name"] == name))


def test_codex_writes_claude_reviews_and_gemini_refines(mixed: Callable[..., Mixed]) -> None:
    says = {"summary": "names are checked", "status": "completed", "files_changed": ["check.txt"]}
    finds = {"summary": "nearly right", "status": "completed_no_changes", "next_steps": ["check the mail too"]}
    given = mixed(
        codex=[Turn(write="check.txt", content="names\n"), handing_in(**says), DONE],
        claude=[Turn(text="I read it.", shell="cat check.txt"), handing_in(**finds), DONE],
        # Gemini hands in nothing. fleet builds its result from its text and its changes.
        gemini=[Turn(shell="echo mail >> check.txt && cat check.txt"), Turn(text="The mail is checked too.")],
    )
    refined = json.loads(WRITE_REVIEW_REFINE)
    refined["stages"][2]["executor"] = "gemini"
    flow = given.ran(json.dumps(refined), "Check what people type")
    assert [each["coder"] for each in flow["stages"]] == ["codex", "claude", "gemini"]

    assert given.heard("codex")("Check what people type")
    assert given.heard("claude")("names are checked") and given.heard("claude")("check.txt")
    assert given.models["claude"].turns()[1].said == ("names",), "the reviewer has the writer's file"
    assert given.heard("gemini")("nearly right") and given.heard("gemini")("check the mail too")

    main, wrote, reviewed, last = (
        run_git(given.repo, "rev-parse", "main"),
        *(tip(given, flow, name) for name in ("implement", "review", "refine")),
    )
    assert (run_git(given.repo, "rev-parse", f"{wrote}~"), reviewed) == (main, wrote)
    assert run_git(given.repo, "rev-parse", f"{last}~") == wrote
    assert run_git(given.repo, "show", f"{last}:check.txt") == "names\nmail"

    handed = given.results(flow)
    assert [each["made_by"] for each in handed.values()] == ["agent", "agent", "fleet"]
    told = {name: each["result"] for name, each in handed.items()}
    assert [each["status"] for each in told.values()] == ["completed", "completed_no_changes", "completed"]
    assert [each["files_changed"] for each in told.values()] == [["check.txt"], [], ["check.txt"]]
    assert [each["commits"] for each in told.values()] == [[wrote], [], [last]]
    assert (told["review"]["next_steps"], told["refine"]["summary"]) == (
        finds["next_steps"],
        "The mail is checked too.",
    )
    for name, cli in (("implement", "codex"), ("review", "claude"), ("refine", "gemini")):
        run = given.run_of(flow, name)
        assert (run["coder"], run["model"], run["ending"], bool(run["session"])) == (cli, MODELS[cli], "finished", True)


def test_codex_and_gemini_work_in_parallel_and_claude_reviews_both(mixed: Callable[..., Mixed], tmp_path: Path) -> None:
    given = mixed(
        codex=[meeting(tmp_path, "a", "b"), Turn(write="a.txt", content="A\n"), Turn(text="A is there.")],
        gemini=[
            meeting(tmp_path, "b", "a"),
            Turn(shell="echo B > b.txt"),
            handing_in(summary="B is there", status="completed"),
            DONE,
        ],
        claude=[
            Turn(text="I write it down.", shell="ls > seen.txt"),
            handing_in(summary="both are fine", status="completed", files_changed=["seen.txt", "made-up.txt"]),
            DONE,
        ],
    )
    flow = given.ran(PARALLEL, "Two modules")
    assert given.heard("codex")("Two modules: module A") and given.heard("gemini")("Two modules: module B")
    assert given.heard("claude")("A is there.") and given.heard("claude")("B is there")
    main, handed = run_git(given.repo, "rev-parse", "main"), given.results(flow)
    for name, files in (("module-a", ["a.txt"]), ("module-b", ["b.txt"]), ("review", ["seen.txt"])):
        assert run_git(given.repo, "rev-parse", f"{tip(given, flow, name)}~") == main, "each has a start of its own"
        assert handed[name]["result"]["files_changed"] == files
    assert [each["made_by"] for each in handed.values()] == ["fleet", "agent", "agent"]
    assert handed["review"]["result"]["claimed_only"] == ["made-up.txt"]
    one, other, review = (given.run_of(flow, name) for name in ("module-a", "module-b", "review"))
    assert review["started_at"] >= max(one["ended_at"], other["ended_at"])


def meeting(place: Path, mine: str, theirs: str) -> Turn:
    """Return the turn of an agent that announces itself and continues once another agent has done so."""
    return Turn(shell=f"touch {place / mine}; while [ ! -e {place / theirs} ]; do sleep 0.05; done")
