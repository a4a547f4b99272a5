"""bd close, done and reopen."""

from __future__ import annotations

import os

from fleet.actions.tasks import tasks
from fleet.beads.format import issue
from fleet.cli.bd.session import NoMatch, read_source
from fleet.cli.text import clean
from fleet.core import checks
from fleet.core.errors import BadInput, FleetError, IllegalMove, UsageError
from fleet.core.filter import READY
from fleet.core.task import Comment, Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fleet.cli.bd.session import Session
    from fleet.core.task import Task

_CLOSE_FLAGS = """
-r --reason EACH   | why; once, or once per task (default Closed)
--resolution EACH  | the same
-m --message EACH  | the same
--comment EACH     | the same
--reason-file TEXT | read the reason from a file, - for stdin
-f --force         | also tasks that are blocked, pinned, have open children or another owner
--suggest-next     | show what became ready
--claim-next       | take the next ready task
--continue         | not supported
--no-auto          | accepted
--session TEXT     | the session that closes it (default: CLAUDE_SESSION_ID)
"""

FLAGS = {
    "close": _CLOSE_FLAGS,
    "done": _CLOSE_FLAGS,
    "reopen": """
-r --reason TEXT | why; kept as a comment
""",
}


def close(session: Session) -> int:
    if session.arguments.has("continue"):
        raise UsageError(
            "--continue is not supported by fleet bd", hint="molecules are not supported; use --claim-next"
        )
    if not session.arguments.words:
        raise UsageError("no issue ID provided", hint="name the tasks to close: `bd close <id…>`")
    return _close(session, session.arguments.words, _reasons(session))


def done(session: Session) -> int:
    """Run bd done. The first word is the task; the other words are the reason, unless all are tasks."""
    words = session.arguments.words
    if len(words) > 1 and not _reasons(session) and not all(_is_task(session, word) for word in words[1:]):
        return _close(session, words[:1], [" ".join(words[1:])])
    return close(session)


def reopen(session: Session) -> int:
    if not session.arguments.words:
        raise UsageError("requires at least 1 arg(s), only received 0", hint="name the tasks to open again")
    reason = checks.body("reason", session.arguments.text("reason"))
    opened: list[Task] = []
    failed = False
    for text in session.arguments.words:
        try:
            key = session.find(text)
        except FleetError as error:
            session.warn(f"Error resolving {clean(text)}: {error}")
            failed = True
            continue
        if session.store.tasks.get(key).status == Status.OPEN:
            session.warn(f"{key} is already open")
            continue
        opened.append(_reopen_one(session, key, reason))
        if not session.json:
            session.say(f"↻ Reopened {key}" + (f": {clean(reason)}" if reason else ""))
    if session.json and opened:
        session.answer([issue(task) for task in opened])
    return 1 if failed else 0


def _reopen_one(session: Session, key: str, reason: str) -> Task:
    from fleet.core.ids import new_uuid

    with session.store.atomic():
        task = tasks.reopen(session.store, key)
        if reason:
            now = session.store.now()
            session.store.comments.add(
                Comment(id=new_uuid(), task_id=key, author=session.actor, text=f"Reopened: {reason}", created_at=now)
            )
        return task


def _close(session: Session, words: list[str], reasons: list[str]) -> int:
    if len(reasons) > 1 and len(reasons) != len(words):
        raise UsageError(
            f"got {len(reasons)} close reasons for {len(words)} issue IDs; "
            "provide exactly one shared reason or one reason per issue"
        )
    try:
        keys = [(word, session.find(word, guess=False)) for word in words]
    except NoMatch as error:
        raise BadInput(f"resolving ID {_missing(session, words)}: {error}", hint=error.hint) from error
    closed: list[Task] = []
    for at, (_, key) in enumerate(keys):
        reason = (reasons[at if len(reasons) > 1 else 0] if reasons else "") or "Closed"
        try:
            closed.append(_close_one(session, key, reason))
        except FleetError as error:
            session.warn(f"{error}" + (f"; {error.hint.rstrip('.')}" if error.hint else ""))
            continue
        if not session.json:
            session.say(f"✓ Closed {key} — {clean(closed[-1].title)}: {clean(reason)}")
    _answer(session, closed)
    return 0 if closed else 1


def _close_one(session: Session, key: str, reason: str) -> Task:
    arguments = session.arguments
    caller = session.caller()
    if caller is not None and caller.task_id == key:
        return tasks.hand_in(session.store, key, reason)
    by = arguments.text("session") or os.environ.get("CLAUDE_SESSION_ID", "")
    force = arguments.flag("force")
    return tasks.close(session.store, key, reason, actor=session.actor, force=force, session=by)


def _answer(session: Session, closed: list[Task]) -> None:
    more: dict[str, Any] = {}
    if session.arguments.flag("suggest-next"):
        freed = {task.id: task for each in closed for task in tasks.unblocked_by(session.store, each.id)}
        if freed and not session.json:
            session.say("\nNewly unblocked:")
            session.say("\n".join(f"  • {task.id} — {clean(task.title)} (P{task.priority})" for task in freed.values()))
        more |= {"unblocked": [issue(task) for task in freed.values()]} if freed else {}
    if session.arguments.flag("claim-next") and closed:
        claimed = _claim_next(session)
        if claimed is not None and not session.json:
            session.say(f"✓ Auto-claimed next ready issue: {claimed.id} — {clean(claimed.title)} (P{claimed.priority})")
        more |= {"claimed": issue(claimed)} if claimed is not None else {}
    if session.json and closed:
        rows = [issue(task) for task in closed]
        session.answer({"closed": rows, **more} if more else rows)


def _claim_next(session: Session) -> Task | None:
    try:
        return tasks.claim_first(session.store, READY, session.actor)
    except IllegalMove as error:  # closing, the main request, has succeeded
        session.warn(f"{error}; {error.hint.rstrip('.')}")
        return None


def _reasons(session: Session) -> list[str]:
    arguments = session.arguments
    found = [text for flag in ("reason", "resolution", "message", "comment") for text in arguments.many(flag)]
    if arguments.has("reason-file"):
        found.append(read_source(arguments.text("reason-file")).strip())
    return [checks.body("reason", text) for text in found]


def _is_task(session: Session, word: str) -> bool:
    try:
        session.find(word, guess=False)
    except NoMatch:
        return False
    return True


def _missing(session: Session, words: list[str]) -> str:
    return next(word for word in words if not _is_task(session, word))
