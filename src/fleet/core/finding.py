"""The finding: what the evidence about a run amounts to. An agent's word is evidence, never state."""

from __future__ import annotations

from fleet.core.record import Record
from fleet.core.run import Ending
from fleet.core.task import DIRECTORY, WORKTREE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.core.verification import Verification


class Finding:
    """The words for what a receipt shows."""

    VERIFIED = "verified"  # real work, and fleet's own look at it ended well
    UNVERIFIED = "unverified"  # nothing has proven the work, or that there is any
    NO_CHANGES = "no_changes"
    FAILED_VERIFY = "failed_verify"
    INCOMPLETE = "incomplete"
    FABRICATED = "fabricated"  # it claims what did not happen
    OUT_OF_SCOPE = "out_of_scope"  # it touched what is not its to touch
    INFRA_ERROR = "infra_error"  # nobody's fault: a limit, an outage, a lost agent


FINDINGS = tuple(value for name, value in vars(Finding).items() if name.isupper())

#: The endings whose run claims to be done.
DONE = (Ending.FINISHED, Ending.HUNG_AFTER_RESULT)
#: The endings that are nobody's fault.
NOBODYS = (
    *(Ending.RATE_LIMITED, Ending.OVERLOADED, Ending.NOT_LOGGED_IN, Ending.LOST, Ending.RELEASED, Ending.START_HANG),
)
#: How the reason of a blocked task begins that a person has to judge, by its finding.
NEEDS_PERSON = {
    Finding.UNVERIFIED: "nothing has proven its work",
    Finding.NO_CHANGES: "it says it is done, and changed nothing",
    Finding.OUT_OF_SCOPE: "it touched what is not its to touch",
    Finding.FAILED_VERIFY: "its work does not pass",
    Finding.FABRICATED: "what it claims is not so",
}
#: Why nothing in a plain directory is verified.
IN_A_DIRECTORY = "it worked in a plain directory, where others work too"
#: Handing in is not work.
ONLY_HANDED_IN = "it handed in, and did nothing else"
#: How much of what a verify command printed is shown with the finding.
LAST_LINES, LONGEST_LINES = 3, 300
LAST_WORDS = "its last lines: "


class Evidence(Record):
    """What was seen of a run, boiled down to what the finding follows from. Nothing in it is only the agent's word,
    but for what begins with `claimed_`."""

    ending: str
    reason: str = ""
    tool_calls: int = 0
    formalities: int = 0  # of those, the ones that only hand in, talk about the task or plan
    tells_tools: bool = True  # its coder tells of each tool
    handed_in: bool = False  # `bd close` or result.json
    artifact: bool = False  # it left a file besides the change: a report, a plan
    workspace: str = DIRECTORY
    commits: int = 0
    changed: int | None = None  # files that differ from the base; none: nothing to compare with
    blank: bool = False  # and only in their white space
    missing: str = ""  # that its worktree or branch is gone, in words
    claimed_no_changes: bool = False  # its result.json says so
    claimed_blocked: str = ""  # that its result.json says it cannot go on, and why, in words
    absent: tuple[str, ...] = ()  # files it claims to have changed that are not there at all
    absent_artifact: bool = False  # one of them is among its artifacts
    untouched: tuple[str, ...] = ()  # files it claims to have changed that are as they were
    unknown_commits: tuple[str, ...] = ()  # commits it claims that nobody has
    unseen: tuple[str, ...] = ()  # commands it claims to have run that its stream does not show
    strayed: tuple[str, ...] = ()  # what it did outside of its scope, in words
    verification: Verification | None = None
    not_verified: str = ""  # why no verification was made though one was asked for


class Judgement(Record):
    """A finding and the sentences that show it."""

    finding: str
    shown: tuple[str, ...] = ()


def judge(seen: Evidence) -> Judgement:
    """What the evidence amounts to; first match wins."""
    if seen.strayed:
        return Judgement(finding=Finding.OUT_OF_SCOPE, shown=seen.strayed)
    if seen.ending in NOBODYS:
        return Judgement(finding=Finding.INFRA_ERROR, shown=(seen.reason or seen.ending,))
    if seen.ending not in DONE:
        return Judgement(finding=Finding.INCOMPLETE, shown=(seen.reason or seen.ending,))
    if not seen.missing and (lies := _lies(seen)):
        return Judgement(finding=Finding.FABRICATED, shown=lies)
    if unfinished := seen.missing or _unfinished(seen):
        return Judgement(finding=Finding.INCOMPLETE, shown=(unfinished,))
    verification = seen.verification
    if verification is not None and not verification.ok:
        return Judgement(finding=Finding.FAILED_VERIFY, shown=_failure(verification))
    if changeless := _changeless(seen, verification):
        return changeless
    if verification is None:
        why = seen.not_verified or "there is no verify command"
        return Judgement(finding=Finding.UNVERIFIED, shown=(why,))
    if doubts := _doubts(seen, verification):
        return Judgement(finding=Finding.UNVERIFIED, shown=doubts)
    return Judgement(finding=Finding.VERIFIED, shown=(f"`{verification.command}` ended with 0 at its branch's tip",))


def needs_verification(seen: Evidence) -> bool:
    """Return True if only a verification can still prove or disprove the work."""
    return judge(seen).finding == Finding.UNVERIFIED


def _lies(seen: Evidence) -> tuple[str, ...]:
    """What it claims and did not do."""
    found = []
    says_done = not seen.claimed_blocked
    if says_done and seen.tells_tools and _did_nothing(seen) and not (seen.handed_in and seen.changed is None):
        found.append("it says it is done, and never used a tool")
    if seen.absent and not _is_misnamed(seen):
        found.append(f"it claims files that are not there: {_some(seen.absent)}")
    if seen.untouched and not seen.changed and not seen.claimed_no_changes:
        found.append(f"it claims changes that were not made: {_some(seen.untouched)}")
    if seen.unknown_commits:
        found.append(f"it claims commits that nobody has: {_some(seen.unknown_commits)}")
    if seen.unseen:
        found.append(f"it claims commands that it never ran: {_some(seen.unseen)}")
    return tuple(found)


def _is_misnamed(seen: Evidence) -> bool:
    """Return True if wrong file names stand beside at least as much real work on the branch: the receipt notes them."""
    if seen.workspace != WORKTREE or seen.blank or seen.absent_artifact:
        return False
    return len(seen.absent) <= (seen.changed or 0)


def _unfinished(seen: Evidence) -> str:
    """Why it is not done, though it ended as if it were."""
    if seen.claimed_blocked:
        return seen.claimed_blocked
    nothing = not seen.tells_tools and not seen.handed_in and _did_nothing(seen)
    return "it says it is done, and there is nothing to show for it" if nothing else ""


def _did_nothing(seen: Evidence) -> bool:
    return not seen.tool_calls and not seen.changed and not seen.artifact


def _changeless(seen: Evidence, verification: Verification | None) -> Judgement | None:
    if seen.tells_tools and seen.tool_calls <= seen.formalities and not seen.changed and not seen.artifact:
        return Judgement(finding=Finding.NO_CHANGES, shown=(ONLY_HANDED_IN,))
    if seen.changed is None or (seen.changed and not seen.blank):
        return None
    if seen.changed and verification is not None and verification.proves and verification.base_status:
        return None  # white space that made a command pass
    said = "only white space differs from its base" if seen.changed else "nothing differs from its base"
    if seen.workspace != WORKTREE and (seen.handed_in or seen.artifact):
        return None  # in a plain directory the work may be a report
    return Judgement(finding=Finding.NO_CHANGES, shown=(said,))


def _doubts(seen: Evidence, verification: Verification) -> tuple[str, ...]:
    found = list(verification.doubts)
    if verification.contested and verification.without_them != 0:
        found.append(f"it passes only with its own changes to tests: {_some(verification.contested)}")
    if seen.workspace != WORKTREE and IN_A_DIRECTORY not in found:
        found.append(IN_A_DIRECTORY)
    return tuple(found)


def _failure(verification: Verification) -> tuple[str, ...]:
    last = " | ".join(line.strip() for line in verification.tail.splitlines()[-LAST_LINES:] if line.strip())
    said = f"`{verification.command}` {verification.in_words}"
    return (said, f"{LAST_WORDS}{last[-LONGEST_LINES:]}") if last else (said,)


def _some(names: tuple[str, ...]) -> str:
    more = len(names) - 3
    return ", ".join(names[:3]) + (f" and {more} more" if more > 0 else "")
