"""bd assign, priority, note, defer, undefer and unclaim: single changes with short commands."""

from __future__ import annotations

from fleet.actions.tasks import tasks
from fleet.beads.format import issue
from fleet.cli.bd.comments import free_text, leave
from fleet.cli.bd.fields import moment
from fleet.cli.bd.update import update_one
from fleet.cli.text import clean
from fleet.core import checks
from fleet.core.errors import BadInput, FleetError, UsageError
from fleet.core.patch import Patch
from fleet.core.task import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

    from fleet.cli.bd.session import Session
    from fleet.core.task import Task

FLAGS = {
    "assign": """
--force | also tasks that another agent is working on
""",
    "note": """
--stdin        | read the text from stdin
-f --file TEXT | read the text from a file, - for stdin
""",
    "defer": """
--until TEXT  | when to take it up again: +1h, tomorrow, next monday (default: when undeferred)
--reason TEXT | why; appended to the notes
""",
    "unclaim": """
-r --reason TEXT   | why; kept as a comment
--force            | also tasks of another owner
--if-assignee TEXT | only if this is still whose it is
""",
}


def assign(session: Session) -> int:
    word, name = session.arguments.exactly(2)
    task = _change(session, word, Patch(fields={"assignee": checks.line("assignee", name)}))
    named = f"{task.id} — {clean(task.title)}"
    return _answer(session, task, f"✓ Assigned {named} to {clean(name)}" if name else f"✓ Unassigned {named}")


def priority(session: Session) -> int:
    word, text = session.arguments.exactly(2)
    task = _change(session, word, Patch(fields={"priority": checks.priority(text)}))
    return _answer(session, task, f"✓ Set priority of {task.id} — {clean(task.title)} to P{task.priority}")


def note(session: Session) -> int:
    word = session.arguments.at_least(1)[0]
    text = free_text(session, "note", "use positional args, --stdin, or --file")
    task = _change(session, word, Patch(append_notes=text))
    return _answer(session, task, f"✓ Note added to {task.id} — {clean(task.title)}")


def defer(session: Session) -> int:
    words, store = session.arguments.at_least(1), session.store
    until = _until(session)
    reason = checks.body("reason", session.arguments.text("reason"))
    is_past = until is not None and until <= store.now()
    patch = Patch(
        fields={"defer_until": until},
        status=Status.OPEN if is_past else Status.DEFERRED,
        append_notes=reason or None,
    )
    with store.atomic():
        done = [tasks.update(store, key, patch) for key in _find_all(session, words)]
    if is_past and until is not None:
        session.warn(f'! Defer date "{until:%Y-%m-%d %H:%M}" is in the past: it stays open and ready.')
        session.warn("  Did you mean a future date? Use --until=+1h or --until=tomorrow")
    return _answer_all(session, done, "* Deferred")


def undefer(session: Session) -> int:
    words, store = session.arguments.at_least(1), session.store
    done: list[Task] = []
    with store.atomic():
        for task in [store.tasks.get(key) for key in _find_all(session, words)]:
            if task.status == Status.DEFERRED or task.defer_until is not None:
                done.append(tasks.update(store, task.id, Patch(undefer=True)))
            else:
                session.warn(f"{task.id} is not deferred (status: {clean(task.status)})")
    return _answer_all(session, done, "* Undeferred", " (now open)")


def unclaim(session: Session) -> int:
    arguments = session.arguments
    words = arguments.at_least(1)
    if arguments.has("force") and arguments.has("if-assignee"):
        raise UsageError(
            "--force and --if-assignee cannot be combined", hint="one ignores the holder, the other names it"
        )
    if arguments.has("if-assignee") and not arguments.text("if-assignee"):
        raise UsageError("--if-assignee requires a non-empty assignee")
    reason = checks.body("reason", arguments.text("reason"))
    done: list[Task] = []
    for word in words:
        try:
            key = session.find(word)
        except FleetError as error:
            session.warn(f"Error resolving {clean(word)}: {error}")
            continue
        try:
            done.append(_unclaim_one(session, key, reason))
        except FleetError as error:
            session.warn(f"Error unclaiming {key}: {error}")
    _answer_all(session, done, "✓ Unclaimed", f": {clean(reason)}" if reason else "")
    return 0 if len(done) == len(words) else 1


def _unclaim_one(session: Session, key: str, reason: str) -> Task:
    arguments, store = session.arguments, session.store
    with store.atomic():
        task = store.tasks.get(key)
        expected = arguments.text("if-assignee") or session.actor
        if not task.assignee and not task.is_claimed:
            raise BadInput(f"issue {key} is not assigned")
        if arguments.has("if-assignee") and task.assignee != expected:
            raise BadInput(f'assignee mismatch: {key} is held by "{task.assignee}", expected "{expected}"')
        if not arguments.flag("force") and (task.is_supervised or task.assignee != expected):
            raise BadInput(
                f"issue claimed by a different actor: {key} is held by {task.assignee or task.claim_owner}; "
                "coordinate with the holder — pass --force only if their claim is abandoned"
            )
        store.tasks.save(task.freed(store.now()))
        if reason:
            leave(session, key, reason)
        return store.tasks.get(key)


def _until(session: Session) -> datetime | None:
    try:
        return moment(session, "until")
    except BadInput as error:
        text = session.arguments.text("until")
        told = f'invalid --until format "{text}". Examples: +1h, tomorrow, next monday, 2025-01-15'
        raise BadInput(told, hint=error.hint) from error


def _change(session: Session, word: str, patch: Patch) -> Task:
    return update_one(session, session.find(word, doing=f"resolving {word}"), patch)


def _find_all(session: Session, words: list[str]) -> list[str]:
    return list(dict.fromkeys(session.find(word) for word in words))


def _answer(session: Session, task: Task, line: str) -> int:
    if session.json:
        return session.answer(issue(task))
    session.say(line)
    return 0


def _answer_all(session: Session, done: list[Task], before: str, after: str = "") -> int:
    if session.json and done:
        return session.answer([issue(task) for task in done])
    for task in done if not session.json else ():
        session.say(f"{before} {task.id}{after}")
    return 0
