"""How a run ended, worked out from what was seen: exit codes and cheerful words are not enough."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from fleet.core.jsontext import decode
from fleet.core.record import Record
from fleet.core.run import Ending, Outcome
from fleet.core.task import Status

if TYPE_CHECKING:
    from fleet.core.run import Run
    from fleet.core.task import Task
    from fleet.launchers.base import Exit


class Seen(Record):
    """Everything that was observed about a run's end."""

    run: Run
    task: Task  # as the queue has it now
    exit: Exit | None  # none: the shim vanished
    alarm: Outcome | None = None  # why fleet stopped it
    result_file: bool = False  # a well-formed result.json of this run
    asked: bool = False  # it left a question
    stderr: str = ""  # the end of what it complained


def outcome_of(seen: Seen) -> Outcome:
    """The outcome; first match wins."""
    words = decode(seen.run.folded)
    if seen.task.cancel_requested_at is not None:
        return _ended(seen, Ending.CANCELLED, seen.task.cancel_reason or "stopped by hand")
    if seen.alarm is not None and not (seen.alarm.ending == Ending.HUNG_AFTER_RESULT and words.get("ok") is False):
        return _ended(seen, seen.alarm.ending, seen.alarm.reason)
    if seen.task.status == Status.BLOCKED or seen.asked:
        return _ended(seen, Ending.BLOCKED, "the agent asks a person")
    if seen.exit is None:
        return _ended(seen, Ending.LOST, "the agent vanished with its shim")
    if seen.exit.error:
        return _ended(seen, Ending.FAILED, f"the agent could not be started: {seen.exit.error}")
    if "limit" in words and not words.get("ok"):
        return _limited(seen, words["limit"])
    if "ok" in words:
        return _with_result(seen, words)
    return _without_result(seen, words)


def _with_result(seen: Seen, words: dict[str, Any]) -> Outcome:
    if not words["ok"]:
        return _ended(seen, Ending.FAILED, f"the coder reports an error: {words.get('said') or 'no details'}")
    if _handed_in(seen) or seen.run.tool_calls:
        return _ended(seen, Ending.FINISHED, words.get("said") or "done")
    return _ended(seen, Ending.INCOMPLETE, "the agent said it was done without having done anything")


def _without_result(seen: Seen, words: dict[str, Any]) -> Outcome:
    assert seen.exit is not None
    complaint = words.get("error") or seen.stderr.strip()[-300:]
    detail = f": {complaint}" if complaint else ""
    if seen.exit.signal is not None:
        return _ended(seen, Ending.FAILED, f"the agent was ended by signal {seen.exit.signal}{detail}")
    if seen.exit.status:
        return _ended(seen, Ending.FAILED, f"the agent ended with exit code {seen.exit.status}{detail}")
    return _ended(seen, Ending.INCOMPLETE, f"the agent ended without its coder's last word{detail}")


def _limited(seen: Seen, limit: dict[str, Any]) -> Outcome:
    until = datetime.fromisoformat(limit["until"]) if limit.get("until") else None
    reason = f"{limit.get('kind', 'rate')} limit: {limit.get('text') or 'no details'}"
    return _ended(seen, Ending.RATE_LIMITED, reason).replace(resume_at=until)


def _handed_in(seen: Seen) -> bool:
    return seen.task.handed_in_at is not None or seen.result_file


def _ended(seen: Seen, ending: str, reason: str) -> Outcome:
    exit = seen.exit
    return Outcome(
        ending=ending,
        reason=reason,
        handed_in=_handed_in(seen),
        tool_calls=seen.run.tool_calls,
        exit_status=exit.status if exit else None,
        exit_signal=exit.signal if exit else None,
    )
