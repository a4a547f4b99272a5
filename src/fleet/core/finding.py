"""Findings: the conclusions from the evidence about a run. An agent's claim is evidence, never state."""

from __future__ import annotations

from fleet.core.record import Record
from fleet.core.run import Ending
from fleet.core.task import DIRECTORY, WORKTREE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.core.verification import Verification


class Finding:
    """The words for the conclusion of a receipt."""

    VERIFIED = "verified"  # real work, and fleet's own verification passed
    UNVERIFIED = "unverified"  # no proof of the work, or that any exists
    NO_CHANGES = "no_changes"
    FAILED_VERIFY = "failed_verify"
    INCOMPLETE = "incomplete"
    FABRICATED = "fabricated"  # it claims work that did not happen
    OUT_OF_SCOPE = "out_of_scope"  # it touched files outside its scope
    INFRA_ERROR = "infra_error"  # not the agent's fault: a limit, an outage, a lost agent


FINDINGS = tuple(value for name, value in vars(Finding).items() if name.isupper())

#: Endings of runs that claim to be done.
DONE = (Ending.FINISHED, Ending.HUNG_AFTER_RESULT)
#: Endings that are not the agent's fault.
NOBODYS = (
    *(Ending.RATE_LIMITED, Ending.OVERLOADED, Ending.NOT_LOGGED_IN, Ending.LOST, Ending.RELEASED, Ending.START_HANG),
)
#: The start of the reason of a blocked task that a person must judge, by finding.
NEEDS_PERSON = {
    Finding.UNVERIFIED: "nothing proves its work",
    Finding.NO_CHANGES: "the agent reports success but changed nothing",
    Finding.OUT_OF_SCOPE: "it changed files outside its scope",
    Finding.FAILED_VERIFY: "its work fails verification",
    Finding.FABRICATED: "its claims are false",
}
#: Why work in a plain directory is never verified.
IN_A_DIRECTORY = "it worked in a plain directory that others may share"
#: Handing in does not count as work.
ONLY_HANDED_IN = "it handed in a result and did nothing else"
#: Amount of a verify command's output that is shown with the finding.
LAST_LINES, LONGEST_LINES = 3, 300
LAST_WORDS = "its last lines: "


class Evidence(Record):
    """The observations of a run that decide its finding.

    Only the fields that begin with `claimed_` rely on the agent's word alone.
    """

    ending: str
    reason: str = ""
    tool_calls: int = 0
    formalities: int = 0  # those of the tool calls that only hand in, comment on the task or plan
    tells_tools: bool = True  # its coder reports each tool use
    handed_in: bool = False  # by `bd close` or result.json
    artifact: bool = False  # it left another file, such as a report or a plan
    workspace: str = DIRECTORY
    commits: int = 0
    changed: int | None = None  # files that differ from the base; None: no base to compare with
    blank: bool = False  # the differences are only white space
    missing: str = ""  # message if its worktree or branch is gone
    claimed_no_changes: bool = False  # its result.json says so
    claimed_blocked: str = ""  # message if its result.json says that it cannot continue, with the reason
    absent: tuple[str, ...] = ()  # files that it claims to have changed but that do not exist
    absent_artifact: bool = False  # one of them is an artifact
    untouched: tuple[str, ...] = ()  # files that it claims to have changed but that did not change
    unknown_commits: tuple[str, ...] = ()  # commits that it claims but that do not exist
    unseen: tuple[str, ...] = ()  # commands that it claims to have run but that its stream does not show
    strayed: tuple[str, ...] = ()  # its actions outside its scope, in words
    verification: Verification | None = None
    not_verified: str = ""  # why no verification was made although one was requested


class Judgement(Record):
    """A finding and the sentences that explain it."""

    finding: str
    shown: tuple[str, ...] = ()


def judge_evidence(seen: Evidence) -> Judgement:
    """Return the conclusion from the evidence. The first match wins."""
    if seen.strayed:
        return Judgement(finding=Finding.OUT_OF_SCOPE, shown=seen.strayed)
    if seen.ending in NOBODYS:
        return Judgement(finding=Finding.INFRA_ERROR, shown=(seen.reason or seen.ending,))
    if seen.ending not in DONE:
        return Judgement(finding=Finding.INCOMPLETE, shown=(seen.reason or seen.ending,))
    if not seen.missing and (lies := _find_false_claims(seen)):
        return Judgement(finding=Finding.FABRICATED, shown=lies)
    if unfinished := seen.missing or _find_unfinished_reason(seen):
        return Judgement(finding=Finding.INCOMPLETE, shown=(unfinished,))
    verification = seen.verification
    if verification is not None and not verification.ok:
        return _judge_failed_verify(verification)
    if changeless := _changeless(seen, verification):
        return changeless
    if verification is None:
        why = seen.not_verified or "no verify command"
        return Judgement(finding=Finding.UNVERIFIED, shown=(why,))
    if doubts := _doubts(seen, verification):
        return Judgement(finding=Finding.UNVERIFIED, shown=doubts)
    return Judgement(
        finding=Finding.VERIFIED, shown=(f"`{verification.command}` exited with 0 at the tip of its branch",)
    )


def needs_verification(seen: Evidence) -> bool:
    """Return True if only a verification can still prove or disprove the work."""
    return judge_evidence(seen).finding == Finding.UNVERIFIED


def _find_false_claims(seen: Evidence) -> tuple[str, ...]:
    """Return the agent's false claims."""
    found = []
    says_done = not seen.claimed_blocked
    if says_done and seen.tells_tools and _did_nothing(seen) and not (seen.handed_in and seen.changed is None):
        found.append("the agent reports success but never used a tool")
    if seen.absent and not _is_misnamed(seen):
        found.append(f"it claims files that do not exist: {_join_names(seen.absent)}")
    if seen.untouched and not seen.changed and not seen.claimed_no_changes:
        found.append(f"it claims changes that do not exist: {_join_names(seen.untouched)}")
    if seen.unknown_commits:
        found.append(f"it claims unknown commits: {_join_names(seen.unknown_commits)}")
    if seen.unseen:
        found.append(f"it claims commands that it never ran: {_join_names(seen.unseen)}")
    return tuple(found)


def _is_misnamed(seen: Evidence) -> bool:
    """Return True if the branch has at least as many changed files as wrong file names. The receipt notes the names."""
    if seen.workspace != WORKTREE or seen.blank or seen.absent_artifact:
        return False
    return len(seen.absent) <= (seen.changed or 0)


def _find_unfinished_reason(seen: Evidence) -> str:
    """Return why a run that ended normally is not done, or ""."""
    if seen.claimed_blocked:
        return seen.claimed_blocked
    nothing = not seen.tells_tools and not seen.handed_in and _did_nothing(seen)
    return "the agent reports success but left no result" if nothing else ""


def _did_nothing(seen: Evidence) -> bool:
    return not seen.tool_calls and not seen.changed and not seen.artifact


def _changeless(seen: Evidence, verification: Verification | None) -> Judgement | None:
    if seen.tells_tools and seen.tool_calls <= seen.formalities and not seen.changed and not seen.artifact:
        return Judgement(finding=Finding.NO_CHANGES, shown=(ONLY_HANDED_IN,))
    if seen.changed is None or (seen.changed and not seen.blank):
        return None
    if seen.changed and verification is not None and verification.proves and verification.base_status:
        return None  # the white space made the command pass
    said = "only white space changed from its base" if seen.changed else "no change from its base"
    if seen.workspace != WORKTREE and (seen.handed_in or seen.artifact):
        return None  # in a plain directory the work may be a report
    return Judgement(finding=Finding.NO_CHANGES, shown=(said,))


def _doubts(seen: Evidence, verification: Verification) -> tuple[str, ...]:
    found = list(verification.doubts)
    if verification.contested and verification.without_them != 0:
        found.append(f"it passes only with its own changes to tests: {_join_names(verification.contested)}")
    if seen.workspace != WORKTREE and IN_A_DIRECTORY not in found:
        found.append(IN_A_DIRECTORY)
    return tuple(found)


def _judge_failed_verify(verification: Verification) -> Judgement:
    if verification.setup:  # the work is not at fault
        return Judgement(finding=Finding.UNVERIFIED, shown=(verification.setup,))
    return Judgement(finding=Finding.FAILED_VERIFY, shown=_failure(verification))


def _failure(verification: Verification) -> tuple[str, ...]:
    last = " | ".join(line.strip() for line in verification.tail.splitlines()[-LAST_LINES:] if line.strip())
    said = f"`{verification.command}` {verification.in_words}"
    return (said, f"{LAST_WORDS}{last[-LONGEST_LINES:]}") if last else (said,)


def _join_names(names: tuple[str, ...]) -> str:
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")
