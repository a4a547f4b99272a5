"""The result that a task gives to later tasks: its agent's result compared with git, or a result made from evidence."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleet.core.finding import DONE
from fleet.core.flow import Result
from fleet.core.jsontext import encode
from fleet.core.task import WORKTREE
from fleet.workflows.results import NO_ITEM, REFUSED

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from fleet.core.run import Outcome, Run
    from fleet.engine.evidence.gathering import Gathered
    from fleet.engine.live import Live
    from fleet.store.base import Store

COMPLETED, NO_CHANGES, FAILED, SKIPPED = "completed", "completed_no_changes", "failed", "skipped"
AGENT, FLEET = "agent", "fleet"
MOST_FILES, MOST_ENTRIES = 2_000, 200
LONGEST_SUMMARY, LONGEST_ENTRY = 32_000, 4_000


def body_of(run: Run, outcome: Outcome, found: Gathered) -> dict[str, Any]:
    """Return the result of an ended run: files and commits from git, texts from its agent."""
    told, tree = found.result, found.tree
    is_git = tree.files is not None and (tree.kind == WORKTREE or not tree.others)
    files = _paths(change.path for change in tree.files or ()) if is_git else list(told.files_changed if told else ())
    commits = [commit.id for commit in tree.commits] if is_git else list(told.commits if told else ())
    summary = told.summary if told else str(run.notes.get("said") or run.notes.get("text") or outcome.reason)
    body: dict[str, Any] = {
        "summary": summary[:LONGEST_SUMMARY],
        "files_changed": files[:MOST_FILES],
        "tests": list(told.tests if told else ())[:MOST_ENTRIES],
        "commits": commits[:MOST_ENTRIES],
        "next_steps": [step[:LONGEST_ENTRY] for step in (told.next_steps if told else ())][:MOST_ENTRIES],
        "status": _status(outcome, found, changed=bool(files)),
        "finding": outcome.finding,
        "branch": tree.branch or run.branch,
        "commit": tree.tip if is_git and tree.kind == WORKTREE else "",
    }
    if told is None and found.refused:
        body[REFUSED] = found.refused
    if told is not None and is_git:
        body |= _differences(set(map(_plain, told.files_changed)), set(files), run.workspace)
    return body


def keep_result(store: Store, live: Live, outcome: Outcome, found: Gathered, *, failed: bool) -> None:
    """Keep the result of a task for the tasks that wait for it. Call this within a transaction."""
    told = body_of(live.run, outcome, found)
    if failed and told["status"] in (COMPLETED, NO_CHANGES):
        told["status"] = FAILED  # regardless of the agent's claim
    body = live.folder.cleaned(told)
    result = Result(
        task_id=live.run.task_id,
        run_id=live.run.id,
        made_at=store.now(),
        made_by=AGENT if found.result is not None else FLEET,
        body=encode(body),
    )
    store.results.keep(result)


def skipped_result(task_id: str, store: Store, *, no_item: bool = False) -> Result:
    """Return the result of a stage that did not run."""
    body = {"status": SKIPPED, **({NO_ITEM: True} if no_item else {})}
    return Result(task_id=task_id, run_id="", made_at=store.now(), made_by=FLEET, body=encode(body))


def _status(outcome: Outcome, found: Gathered, *, changed: bool) -> str:
    if outcome.ending not in DONE:
        return FAILED
    if found.tree.files is None:
        return found.result.status if found.result else COMPLETED
    if found.result is not None and found.result.status not in (COMPLETED, NO_CHANGES):
        return found.result.status
    return COMPLETED if changed else NO_CHANGES


def _differences(said: set[str], seen: set[str], top: str) -> dict[str, Any]:
    """Return the claimed files that git does not show. Absolute and relative paths in the worktree count as equal."""
    said = {path.removeprefix(f"{top}/").removeprefix("./") for path in said}
    claimed = sorted(said - seen)[:MOST_ENTRIES]
    return {"claimed_only": claimed} if claimed else {}


def _paths(paths: Iterable[str]) -> list[str]:
    return [_plain(path) for path in paths]


def _plain(path: str) -> str:
    return os.fsencode(path).decode("utf-8", "replace")
