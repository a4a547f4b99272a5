"""The outcome of a run, derived from observations, because exit codes and an agent's words are not enough."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from fleet.core.record import Record
from fleet.core.run import Ending, Outcome, limit_reason
from fleet.core.task import Status

if TYPE_CHECKING:
    from fleet.core.run import Run
    from fleet.core.task import Task


#: Characters at the end of a message that are searched, and that are quoted.
LONGEST_END, LONGEST_QUESTION = 4_000, 2_000
#: Polite phrases that expect no answer.
_POLITE = re.compile(
    r"\b(?:anything else|something else|any (?:other |more |further )?questions|how does (?:that|this) look)\b",
    re.IGNORECASE,
)
#: Requests that are not phrased as a question.
_REQUEST = re.compile(
    r"\bplease (?:confirm|tell me|let me know|choose|clarify|advise|decide|specify|provide)\b"
    r"|\blet me know (?:which|what|how|whether|when|where)\b"
    r"|\b(?:waiting for|awaiting|i need) your (?:answer|decision|confirmation|approval|input|reply|choice|go-ahead)\b",
    re.IGNORECASE,
)
_QUESTION = re.compile(r"[^.!?\n]*\?+(?=[\s\"'”’)*_`]|$)")
_FENCED = re.compile(r"(?:```|~~~).*?(?:```|~~~|\Z)", re.DOTALL)
_OPTION = re.compile(r"\s*(?:[-*•+]|\(?[0-9a-zA-Z][.):])\s")


def question_in(text: str) -> str:
    """Return the end of a message if it asks the reader something, else ""."""
    end = text[-LONGEST_END:].strip()
    paragraphs = [part for part in re.split(r"\n\s*\n", _FENCED.sub("", end)) if part.strip()]
    while len(paragraphs) > 1 and all(_OPTION.match(line) for line in paragraphs[-1].splitlines()):
        options = paragraphs.pop()  # the options below the question
        if _asks(options):
            return end[-LONGEST_QUESTION:]
    return end[-LONGEST_QUESTION:] if paragraphs and _asks(paragraphs[-1]) else ""


def _asks(paragraph: str) -> bool:
    asked = [found for found in _QUESTION.findall(paragraph) if not _POLITE.search(found)]
    return bool(asked) or bool(_REQUEST.search(paragraph) and not _POLITE.search(paragraph))


#: A final message from the service instead of the model, which some coders report as a success.
API_ERROR = re.compile(r"\s*\[?API Error\b")
#: The ending of a run that met a limit, by the kind of limit.
BY_LIMIT = {"auth": Ending.NOT_LOGGED_IN, "overload": Ending.OVERLOADED}


class Exit(Record):
    """How an agent's process ended, as its shim observed."""

    status: int | None = None  # the exit code, if it ended normally
    signal: int | None = None  # the signal, if it was killed
    error: str = ""  # why it could not be started
    survivors: int = 0  # descendants that had to be killed
    cpu_seconds: float = 0.0
    peak_rss_kb: int = 0
    truncated: bool = False  # the output was longer than what is kept
    crowded: bool = False  # it was killed for too many processes
    apart: tuple[str, ...] = ()  # sandbox restrictions: offline, hidden, writes, temporary, ipc


class RunObservations(Record):
    """All observations about a run's end."""

    run: Run
    task: Task  # as it is now in the queue
    exit: Exit | None  # None: the shim vanished
    alarm: Outcome | None = None  # why fleet stopped it
    result_file: bool = False  # a well-formed result.json of this run exists
    asked: tuple[str, ...] = ()  # questions that it left
    unanswered: tuple[str, ...] = ()  # questions of earlier runs that it found and left open
    dangling: str = ""  # the tool call that was unfinished when its stream ended
    stderr: str = ""  # the end of its stderr
    tells_result: bool = True  # its coder has a final result
    result_needs_exit_0: bool = False  # that result counts only with exit code 0
    interactive: bool = False  # it had a terminal with a person at the keyboard


def outcome_of(seen: RunObservations) -> Outcome:
    words = seen.run.notes
    if seen.task.cancel_requested_at is not None:
        return _make_outcome(seen, Ending.CANCELLED, seen.task.cancel_reason or "stopped by hand")
    if seen.alarm is not None and seen.alarm.ending == Ending.RATE_LIMITED and "limit" in words:
        return _limit_outcome(seen, words["limit"])
    hung = seen.alarm is not None and seen.alarm.ending == Ending.HUNG_AFTER_RESULT
    if seen.alarm is not None and not (hung and (words.get("ok") is False or find_last_question(seen))):
        return _make_outcome(seen, seen.alarm.ending, seen.alarm.reason)
    if (
        seen.task.status == Status.BLOCKED
        or seen.asked
        or find_last_question(seen)
        or (seen.unanswered and not _is_handed_in(seen))
    ):
        return _make_outcome(seen, Ending.BLOCKED, "the agent asked a question")
    if seen.exit is None:
        return _make_outcome(seen, Ending.LOST, "the agent disappeared with its shim")
    if seen.exit.error:
        return _make_outcome(seen, Ending.FAILED, f"the agent could not be started: {seen.exit.error}")
    return _of_session(seen, seen.exit) if seen.interactive else _by_words(seen, words, seen.exit)


def find_last_question(seen: RunObservations) -> str:
    """Return the question that a headless run asks in its last message, or "".

    Empty if the run handed in or asked in another way.
    """
    words = seen.run.notes
    has_asked = seen.asked or seen.unanswered or seen.task.status == Status.BLOCKED
    if seen.interactive or has_asked or _is_handed_in(seen) or words.get("denied"):
        return ""
    ended_well = seen.exit is not None and not (seen.exit.status or seen.exit.signal or seen.exit.error)
    if words.get("ok"):
        counts = ended_well or seen.alarm is not None or not seen.result_needs_exit_0
        return str(words.get("asks", "")) if counts else ""
    return question_in(str(words.get("end", ""))) if ended_well and not seen.tells_result and "ok" not in words else ""


def list_denied_tools(run: Run) -> list[str]:
    """Return the tools that a run was not allowed to use."""
    return list(run.notes.get("denied", ()))


def _of_session(seen: RunObservations, exit: Exit) -> Outcome:
    """Return the outcome of a terminal session that ended on its own, judged by its results.

    A final result of the coder is not needed.
    """
    if seen.task.handed_in_at is not None:
        return _make_outcome(seen, Ending.FINISHED, seen.task.hand_in_reason or "done")
    if exit.status or exit.signal:
        return _make_outcome(seen, Ending.FAILED, f"its session {_end_of(exit)}")
    if seen.run.diff_files or seen.result_file:
        return _make_outcome(seen, Ending.FINISHED, "its session ended")
    return _make_outcome(seen, Ending.INCOMPLETE, "its session ended without changes")


def _by_words(seen: RunObservations, words: dict[str, Any], exit: Exit) -> Outcome:
    if words.get("denied") and not _is_handed_in(seen):
        return _make_outcome(seen, Ending.BLOCKED, f"the agent was not allowed to use {', '.join(words['denied'])}")
    if not words.get("ok"):
        if "full" in words:
            return _make_outcome(seen, Ending.CONTEXT_FULL, words["full"])
        if "limit" in words:
            return _limit_outcome(seen, words["limit"])
    if "ok" in words:
        return _with_result(seen, words, exit)
    return _without_result(seen, words, exit)


def _with_result(seen: RunObservations, words: dict[str, Any], exit: Exit) -> Outcome:
    if not words["ok"]:
        said = words.get("said") or words.get("error") or "no details"
        return _make_outcome(seen, Ending.FAILED, f"the coder reported an error: {said}")
    if _is_handed_in(seen):
        return _make_outcome(seen, Ending.FINISHED, words.get("said") or "done")
    if seen.result_needs_exit_0 and (exit.status or exit.signal):
        return _make_outcome(
            seen, Ending.FAILED, f"the coder reported success, then {_end_of(exit)}{_detail(seen, words)}"
        )
    if API_ERROR.match(words.get("said") or ""):
        return _make_outcome(seen, Ending.FAILED, f"the coder's result is an error: {words['said']}")
    if seen.dangling:
        return _make_outcome(seen, Ending.INCOMPLETE, f"the agent ended in the middle of {seen.dangling}")
    return _make_outcome(seen, Ending.FINISHED, words.get("said") or "done")


def _without_result(seen: RunObservations, words: dict[str, Any], exit: Exit) -> Outcome:
    if exit.status or exit.signal:
        return _make_outcome(seen, Ending.FAILED, f"the agent {_end_of(exit)}{_detail(seen, words)}")
    if not seen.tells_result:
        if _is_handed_in(seen):
            return _make_outcome(seen, Ending.FINISHED, words.get("text") or "done")
        return _make_outcome(seen, Ending.INCOMPLETE, "the agent ended without a result")
    return _make_outcome(seen, Ending.INCOMPLETE, f"the agent ended without a final event{_detail(seen, words)}")


def _end_of(exit: Exit) -> str:
    return f"was ended by signal {exit.signal}" if exit.signal else f"ended with exit code {exit.status}"


def _detail(seen: RunObservations, words: dict[str, Any]) -> str:
    complaint = words.get("error") or seen.stderr.strip()[-300:]
    return f": {complaint}" if complaint else ""


def _limit_outcome(seen: RunObservations, limit: dict[str, Any]) -> Outcome:
    kind = limit.get("kind") or "rate"
    if kind == "budget":
        return _make_outcome(seen, Ending.OVER_BUDGET, f"its coder stopped: {limit.get('text') or 'no details'}")
    until = datetime.fromisoformat(limit["until"]) if limit.get("until") else None
    reason = f"{limit_reason(kind)}: {limit.get('text') or 'no details'}"
    return _make_outcome(seen, BY_LIMIT.get(kind, Ending.RATE_LIMITED), reason).replace(resume_at=until, limit=kind)


def _tool_calls(seen: RunObservations) -> int:
    """Return the tool calls of the whole session. A run interrupted after the work needs no calls."""
    return seen.run.tool_calls + int(seen.run.notes.get("before", {}).get("tool_calls", 0))


def _formalities(seen: RunObservations) -> int:
    notes = seen.run.notes
    return int(notes.get("formalities", 0)) + int(notes.get("before", {}).get("formalities", 0))


def _is_handed_in(seen: RunObservations) -> bool:
    return seen.task.handed_in_at is not None or seen.result_file


def _make_outcome(seen: RunObservations, ending: str, reason: str) -> Outcome:
    exit = seen.exit
    return Outcome(
        ending=ending,
        reason=reason,
        handed_in=_is_handed_in(seen),
        tool_calls=_tool_calls(seen),
        formalities=_formalities(seen),
        exit_status=exit.status if exit else None,
        exit_signal=exit.signal if exit else None,
    )
