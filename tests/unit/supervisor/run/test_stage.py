"""The result of a run: text from its agent, files and commits from git."""

from datetime import timedelta
from typing import Any

import pytest

from builders import NOON
from fleet.core.jsontext import encode
from fleet.core.run import Ending, Outcome, Run
from fleet.core.task import DIRECTORY, WORKTREE
from fleet.git.work_done import FileChange, WorkCommit
from fleet.proof.evidence import RunEvidence
from fleet.proof.tree import TreeEvidence
from fleet.supervisor.agent_files import ResultFile
from fleet.supervisor.run.stage import LONGEST_SUMMARY, MOST_FILES, body_of

DONE = Outcome(ending=Ending.FINISHED, reason="it ended", finding="unverified")


def a_run(**notes: Any) -> Run:
    return Run(
        id="t/1",
        task_id="t",
        number=1,
        epoch=1,
        owner="me",
        branch="b",
        workspace="/w",
        started_at=NOON - timedelta(hours=1),
        folded=encode(notes),
    )


def a_tree(*paths: str, **said: Any) -> TreeEvidence:
    files = tuple(FileChange(path=path, status="M") for path in paths)
    commits = (WorkCommit(id="c1", subject="s", author="a", at="now"),)
    return TreeEvidence(**{"kind": WORKTREE, "branch": "b", "tip": "c1", "commits": commits, "files": files, **said})


def test_result_takes_files_and_commits_from_git_and_text_from_the_agent() -> None:
    told = ResultFile(
        summary="did it", status="completed", files_changed=("/w/a", "./b", "lie"), commits=("dead",), next_steps=("x",)
    )
    body = body_of(a_run(), DONE, RunEvidence(result=told, tree=a_tree("a", "b", "more")))
    assert (body["files_changed"], body["commits"], body["commit"]) == (["a", "b", "more"], ["c1"], "c1")
    assert (body["summary"], body["next_steps"], body["status"]) == ("did it", ["x"], "completed")
    assert body["claimed_only"] == ["lie"] and (body["branch"], body["finding"]) == ("b", "unverified")


@pytest.mark.parametrize(
    ("result", "tree", "status"),
    [
        (None, a_tree("a"), "completed"),
        (None, a_tree(), "completed_no_changes"),
        (ResultFile(summary="", status="completed"), a_tree(), "completed_no_changes"),
        (ResultFile(summary="", status="completed_no_changes"), a_tree("a"), "completed"),
        (ResultFile(summary="", status="blocked"), a_tree("a"), "blocked"),
        (ResultFile(summary="", status="completed_no_changes"), TreeEvidence(kind=DIRECTORY), "completed_no_changes"),
        (None, TreeEvidence(kind=DIRECTORY), "completed"),
    ],
)
def test_result_status_follows_from_git(result: ResultFile | None, tree: TreeEvidence, status: str) -> None:
    assert body_of(a_run(), DONE, RunEvidence(result=result, tree=tree))["status"] == status


def test_missing_result_is_replaced_by_last_words_and_git_changes() -> None:
    assert body_of(a_run(said="all done", text="hm"), DONE, RunEvidence(tree=a_tree("a")))["summary"] == "all done"
    assert body_of(a_run(text="hm"), DONE, RunEvidence(tree=a_tree("a")))["summary"] == "hm"
    assert body_of(a_run(), DONE, RunEvidence(tree=a_tree("a")))["summary"] == "it ended"


def test_result_lists_only_claimed_files_when_others_worked_in_the_directory() -> None:
    told = ResultFile(summary="", status="completed", files_changed=("mine",))
    tree = a_tree("mine", "theirs", kind=DIRECTORY, others=1)
    assert body_of(a_run(), DONE, RunEvidence(result=told, tree=tree))["files_changed"] == ["mine"]


def test_result_is_bounded_and_any_path_can_be_listed() -> None:
    told = ResultFile(summary="x" * 100_000, status="completed")
    body = body_of(a_run(), DONE, RunEvidence(result=told, tree=a_tree("a\udcff", *(f"f{n}" for n in range(5000)))))
    assert len(body["summary"]) == LONGEST_SUMMARY and len(body["files_changed"]) == MOST_FILES
    assert body["files_changed"][0] == "a\N{REPLACEMENT CHARACTER}" and encode(body).encode()


def test_unfinished_run_has_failed() -> None:
    outcome = Outcome(ending=Ending.FAILED, reason="no")
    assert body_of(a_run(), outcome, RunEvidence(tree=a_tree("a")))["status"] == "failed"
