"""Everything known about an ended run, as evidence for its finding and as parts of its receipt."""

from __future__ import annotations

import os
from itertools import islice
from typing import TYPE_CHECKING

from fleet.coders.base import Coder
from fleet.core import globs
from fleet.core.event import Kind
from fleet.core.finding import Evidence
from fleet.core.record import Record
from fleet.core.rules import rules_of
from fleet.core.task import WORKTREE
from fleet.git.work_done import files_at, unknown_commits
from fleet.git.worktree_place import read_plain
from fleet.home import is_project_file
from fleet.proof import baseline, stream
from fleet.proof.baseline import spawn_of
from fleet.proof.claims import ClaimContext, Claims, claims_of
from fleet.proof.stream import StreamEvidence, stream_of
from fleet.proof.tree import TreeEvidence
from fleet.supervisor.agent_files import result_in
from fleet.supervisor.run.output_reader import files_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from fleet.core.outcome import Exit
    from fleet.core.run import Outcome, Run
    from fleet.core.task import Task
    from fleet.core.verification import Verification
    from fleet.supervisor.agent_files import ResultFile
    from fleet.supervisor.run.live import Live

MOST_TRACKED = 200_000
#: A longer transcript is not read again: it was read while the agent worked.
LARGEST_TRANSCRIPT = 4 << 20
MOST_TRANSCRIPTS = 8
NO_CHANGES, BLOCKED = "completed_no_changes", "blocked"
#: Maximum length of an agent's reason for being blocked, as shown with the finding.
LONGEST_TROUBLE = 200


class RunEvidence(Record):
    """The data gathered about a run. The state of its task, and so its outcome, is known only when it is settled."""

    result: ResultFile | None = None
    refused: str = ""  # why the result that it left is not used
    artifact: bool = False
    tells_tools: bool = True
    stream: StreamEvidence = StreamEvidence()
    transcript: dict[str, Any] = {}  # noqa: RUF012
    tree: TreeEvidence = TreeEvidence()
    compared: bool = False  # True if its files were compared with their state before the run
    claims: Claims = Claims()
    allow: tuple[str, ...] = ()
    protect: tuple[str, ...] = ()
    strayed: tuple[str, ...] = ()  # sentences about its actions out of scope
    verification: Verification | None = None
    not_verified: str = ""
    missing: str = ""  # a sentence if its worktree or branch is gone
    gone: str = ""  # a sentence if its repository is gone: none of its work can be judged

    def evidence(self, outcome: Outcome, task: Task) -> Evidence:
        """Return the evidence for the finding about a run with this outcome."""
        # Agents can write the transcript. It counts for tool calls only if the stream is incomplete.
        told = 0 if self.stream.whole else self.transcript.get("tool_calls") or 0
        return Evidence(
            ending=outcome.ending,
            reason=outcome.reason,
            tool_calls=max(outcome.tool_calls, told),
            formalities=outcome.formalities,
            tells_tools=self.tells_tools,
            handed_in=outcome.handed_in,
            artifact=self.artifact,
            workspace=self.tree.kind,
            commits=self.tree.count,
            changed=self.tree.changed,
            blank=self.tree.blank,
            missing=self.missing,
            claimed_no_changes=self.result is not None and self.result.status == NO_CHANGES,
            claimed_blocked=_explain_block(self.result),
            absent=self.claims.absent,
            absent_artifact=self.claims.absent_artifact,
            untouched=self.claims.untouched,
            unknown_commits=self.claims.unknown_commits,
            unseen=self.claims.unseen,
            strayed=self.strayed,
            verification=self.verification,
            not_verified=self.not_verified,
        )

    def pieces(self, run: Run, exit: Exit | None) -> dict[str, Any]:
        """Return the parts of the receipt."""
        made = self.verification
        verify: dict[str, Any] = made.as_dict() if made else {"not_verified": self.not_verified}
        rules = [change.path for change in self.tree.files or () if is_project_file(change.path)]
        scope = {"strayed": self.strayed, "flags": run.flagged, "allow": self.allow, "protect": self.protect}
        scope |= {"contested": rules} if rules else {}
        return {
            "spawn": baseline.piece(run),
            "stream": stream.piece(run, self.stream),
            "transcript": self.transcript,
            "process": process(run, exit),
            "git": self.tree.piece(),
            "claims": self.claims.piece(),
            "verify": verify,
            "base": {"status": made.base_status if made else None},
            "scope": scope,
        }


def _explain_block(result: ResultFile | None) -> str:
    """Return a sentence with the agent's reason if the agent reported that it is blocked. Return "" if it did not."""
    if result is None or result.status != BLOCKED:
        return ""
    why = result.summary.strip().partition("\n")[0].strip()
    why = why if len(why) <= LONGEST_TROUBLE else f"{why[: LONGEST_TROUBLE - 1]}…"
    return f"the agent reports that it is blocked: {why}" if why else "the agent reports that it is blocked"


def process(run: Run, exit: Exit | None) -> dict[str, Any]:
    """Return how the run's processes ended, and what they used (E4)."""
    return {
        "exit_status": exit.status if exit else None,
        "exit_signal": exit.signal if exit else None,
        "containment": run.containment,
        "cpu_seconds": exit.cpu_seconds if exit else None,
        "rss_kb": exit.peak_rss_kb if exit else run.rss_kb,
        "survivors": exit.survivors if exit else None,
    }


def look(live: Live) -> RunEvidence:
    """Return what an ended agent reported and left, without its files. Reads from the disk."""
    run, folder = live.run, live.folder
    lines, whole = folder.events_since(int(spawn_of(run).get("events_at") or 0), live.began_here)
    told, refused = folder.result_left(since=live.began_here)
    handed_in = _read_handed_in(run)
    return RunEvidence(
        result=handed_in or told,
        refused="" if handed_in else refused,
        artifact=folder.has_artifacts(live.began_here),
        # A user may have acted in the terminal without a trace in the session.
        tells_tools=live.coder.tells_tools and not live.interactive,
        stream=stream_of(lines, whole=whole, task_id=run.task_id),
        transcript=_read_transcript(live.coder, run, live.env),
        strayed=tuple(run.notes.get("strayed", ())),
    )


def _read_transcript(coder: Coder, run: Run, env: Mapping[str, str]) -> dict[str, Any]:
    """Return what files other than stdout show of a run's session (E3). The count is None if unknown."""
    told: dict[str, Any] = {"found": False, "session": run.session, "tool_calls": None}
    pattern = coder.transcript(run.session, run.workspace, env) if run.session else ""
    for path in islice(files_of(pattern), MOST_TRANSCRIPTS):
        if os.path.isfile(path) and not os.path.islink(path):  # noqa: PTH113, PTH114
            return told | {"found": True, "tool_calls": _count_tool_calls(coder, path)}
    return told


def _count_tool_calls(coder: Coder, path: str) -> int | None:
    if type(coder).parse_session is Coder.parse_session or os.path.getsize(path) > LARGEST_TRANSCRIPT:  # noqa: PTH202
        return None
    lines = read_plain(path, LARGEST_TRANSCRIPT).decode("utf-8", "replace").splitlines()
    return sum(event.kind == Kind.TOOL_USE for line in lines for event in coder.parse_session(line))


def _read_handed_in(run: Run) -> ResultFile | None:
    """Return the result that a coder with an output schema returned at its end."""
    told = run.notes.get("handed_in")
    try:
        return result_in(told) if told is not None else None
    except ValueError:  # as with a file, an invalid result is not used
        return None


def compared(found: RunEvidence, live: Live, task: Task, tree: TreeEvidence) -> RunEvidence:
    """Return the data with the tree and the claims compared with it. Raises FleetError, OSError."""
    rules, scope = rules_of(task), live.settings.scope
    allow, protect = rules.allow or scope.allow, (*scope.protect, *rules.protect)
    changed = tuple(change.path for change in tree.files or ())
    ground = ClaimContext(
        top=live.run.workspace,
        artifacts=live.folder.artifacts,
        started=live.began_here.timestamp(),
        is_git=tree.view is not None,
        changed=changed,
        stream=found.stream,
        tells_tools=found.tells_tools,
    )
    # If others worked in the directory too, the author of a change is unknown.
    own = () if tree.kind != WORKTREE and tree.others else changed
    return found.replace(
        tree=tree,
        compared=True,
        claims=_check_claims(found, tree, ground),
        allow=tuple(allow),
        protect=protect,
        strayed=(*found.strayed, *globs.strays(own, allow=allow, protect=protect)),
    )


def _list_files_below(top: str) -> set[str]:
    """Return the files below a folder, relative to it, up to MOST_TRACKED. Links are not followed."""
    below = (os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names)  # noqa: PTH118
    return {os.path.relpath(path, top) for path in islice(below, MOST_TRACKED)}


def _check_claims(found: RunEvidence, tree: TreeEvidence, ground: ClaimContext) -> Claims:
    view = tree.view
    if view is None:  # without git nothing shows the earlier state
        return claims_of(found.result, ground, tracked=lambda: _list_files_below(ground.top), unknown=lambda _ids: [])
    at = tree.tip or tree.base
    return claims_of(
        found.result,
        ground,
        tracked=lambda: files_at(view, at, MOST_TRACKED) if at else set(),
        unknown=lambda ids: unknown_commits(view, ids),
    )
