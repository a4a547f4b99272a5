"""bd update: change tasks one by one, and report each failure."""

from __future__ import annotations

import sys

from fleet.actions.tasks import tasks
from fleet.beads.format import issue
from fleet.cli.bd import fields
from fleet.cli.bd.session import NoMatch, write_json
from fleet.cli.text import clean
from fleet.core import checks
from fleet.core.errors import AlreadyClaimed, FleetError, IllegalMove, UsageError
from fleet.core.patch import Patch
from fleet.core.task import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fleet.cli.bd.arguments import Arguments
    from fleet.cli.bd.session import Session
    from fleet.core.task import Task

FLAGS = {
    "update": fields.TEXT_FLAGS
    + """
-s --status TEXT      | the new status
-p --priority TEXT    | 0-4 or P0-P4
--title TEXT          | the new title
-t --type TEXT        | the new type
-l --add-label LIST   | labels to add
--remove-label LIST   | labels to remove
--set-labels LIST     | all its labels from now on
--parent TEXT         | the new parent, "" for none
--set-metadata EACH   | key=value
--unset-metadata LIST | keys to forget
--claim               | claim the task if it has no owner
--force               | also tasks of another owner
--if-assignee TEXT    | only if this is whose it is, else exit 13
--if-status TEXT      | only if this is its status, else exit 13
--ephemeral           | keep it out of ready work and exports
--persistent          | take that back
--no-history          | kept for bd's sake
--history             | take that back
--session TEXT        | the session that closes it
--await-id TEXT       | not supported
--cwd TEXT            | where to work on it
--coder TEXT          | which coder works on it
--model TEXT          | which model that coder uses
--workspace TEXT      | directory or worktree
--requires LIST       | only on a host that offers these labels, "" for any
--host TEXT           | only on this host, "" for any
--allow-empty-description | accepted
""",
}


def update(session: Session) -> int:
    arguments = session.arguments
    if arguments.has("await-id"):
        raise UsageError("--await-id is not supported by fleet bd", hint="gates are not supported")
    if not arguments.words:
        raise UsageError("no issue ID provided", hint="name the tasks to change: `bd update <id…> …`")
    patch = read_patch(session)
    others = arguments.flag("claim") or arguments.has("parent") or fields.rules(arguments) is not None
    others = others or _says_where(arguments)
    if patch.is_empty and not others:
        session.say("No updates specified")
        return 0
    done: list[Task] = []
    failures: list[tuple[str, FleetError, str]] = []
    for text in arguments.words:
        try:
            done.append(update_one(session, text, patch))
        except FleetError as error:
            failures.append((text, error, _tell(session, text, error)))
            continue
        if not session.json:
            session.say(f"✓ Updated issue: {done[-1].id} — {clean(done[-1].title)}")
    if session.json and done:
        session.answer([issue(task) for task in done])
    return _report(session, failures) if failures else 0


def update_one(session: Session, text: str, patch: Patch) -> Task:
    """Apply all flags to one task, or none, and return the task."""
    arguments, store = session.arguments, session.store
    with store.atomic():
        key = session.find(text, guess=patch.status != Status.CLOSED)
        if any(name in patch.fields for name in ("cwd", "coder", "model")):
            from fleet.actions.tasks.hand_edits import take_hand_edits  # the last change wins, here or in task.json

            take_hand_edits(session.fleet, [store.tasks.get(key)])
        _check_guards(session, store.tasks.get(key))
        if arguments.flag("claim"):
            store.claims.take(key, session.actor)
        caller = session.caller()
        hands_in = patch.status == Status.CLOSED and caller is not None and caller.task_id == key
        if hands_in:
            patch = patch.replace(status=None)
        if (rules := fields.rules(arguments)) is not None:
            from fleet.actions.tasks.rules import changed

            patch = patch.replace(fields={**patch.fields, "rules": changed(store.tasks.get(key).rules, rules)})
        if _says_where(arguments):
            from fleet.cli.bd.placement import requirements

            wanted = requirements(session, store.tasks.get(key).requires)
            patch = patch.replace(fields={**patch.fields, "requires": wanted})
        if not patch.is_empty:
            tasks.update(store, key, patch, guard=lambda task: _check_moves(session, task, patch))
        if arguments.has("parent"):
            tasks.move_under(store, key, arguments.text("parent"), actor=session.actor)
        return tasks.hand_in(store, key, "Closed") if hands_in else store.tasks.get(key)


def read_patch(session: Session) -> Patch:
    """Return the changes from the flags. All flags are checked before anything is written."""
    arguments, config = session.arguments, session.store.config.all()
    found: dict[str, Any] = dict(fields.texts(arguments))
    if arguments.has("title"):
        found["title"] = checks.title(arguments.text("title"))
    if arguments.has("priority"):
        found["priority"] = checks.priority(arguments.text("priority"))
    if arguments.has("type"):
        found["type"] = checks.task_type(arguments.text("type"), config)
    if arguments.has("estimate"):
        found["estimated_minutes"] = fields.estimate(arguments)
    if arguments.has("due"):
        found["due_at"] = fields.moment(session, "due")
    if arguments.has("session"):
        found["closed_by_session"] = checks.line("session", arguments.text("session"))
    for on, off, field in (("ephemeral", "persistent", "ephemeral"), ("no-history", "history", "no_history")):
        if arguments.flag(on) or arguments.flag(off):
            found[field] = arguments.flag(on)
    if arguments.has("notes") and arguments.has("append-notes"):
        raise UsageError("cannot specify both --notes and --append-notes")
    deferral = fields.moment(session, "defer")
    return Patch(
        fields={**found, **_placement(session)},
        status=checks.status(arguments.text("status"), config) if arguments.has("status") else None,
        append_notes=checks.body("notes", arguments.text("append-notes")) if arguments.has("append-notes") else None,
        set_labels=checks.labels(arguments.many("set-labels")) if arguments.has("set-labels") else None,
        add_labels=checks.labels(arguments.many("add-label")),
        remove_labels=tuple(arguments.many("remove-label")),
        metadata=_metadata(session),
        unset_metadata=tuple(arguments.many("unset-metadata")),
        defer_until=deferral,
        undefer=arguments.has("defer") and deferral is None,
    )


def _says_where(arguments: Arguments) -> bool:
    return arguments.has("requires") or arguments.has("host")


def _placement(session: Session) -> dict[str, str]:
    from fleet.cli.bd.placement import placement

    given = [flag for flag in ("cwd", "coder", "model", "workspace") if session.arguments.has(flag)]
    return {name: value for name, value in placement(session).items() if name in given} if given else {}


def _metadata(session: Session) -> dict[str, Any]:
    found = fields.metadata(session.arguments, session)
    for pair in session.arguments.many("set-metadata"):
        key, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f'invalid --set-metadata: expected key=value, got "{pair}"')
        found = {**found, checks.metadata_key(key): value}
    return fields.check_fleet_keys(found, session)


def _check_guards(session: Session, task: Task) -> None:
    arguments = session.arguments
    expected = arguments.text("if-assignee")
    if arguments.has("if-assignee") and task.assignee != expected:
        raise tasks.GuardMismatch(f'assignee mismatch: {task.id} is held by "{task.assignee}", expected "{expected}"')
    expected = arguments.text("if-status")
    if arguments.has("if-status") and task.status != expected:
        raise tasks.GuardMismatch(f'status mismatch: {task.id} has status "{task.status}", expected "{expected}"')


def _check_moves(session: Session, task: Task, patch: Patch) -> None:
    if session.arguments.flag("force"):
        return
    held = task.status == Status.IN_PROGRESS and task.assignee not in ("", session.actor)
    if held and "assignee" in patch.fields and patch.status is None and patch.fields["assignee"] != task.assignee:
        raise AlreadyClaimed(
            f'cannot reassign {task.id}: held by "{task.assignee}" (in_progress); coordinate with the holder',
            hint="use --force only if the claim is abandoned",
        )
    if patch.status == Status.CLOSED and task.status != Status.CLOSED:
        blockers = tasks.open_blockers(session.store, task)
        if blockers:
            raise IllegalMove(f"cannot close blocked issue: {task.id} is blocked by [{' '.join(blockers)}]")


def _tell(session: Session, text: str, error: FleetError) -> str:
    if isinstance(error, NoMatch):
        session.warn(f"Error resolving {clean(text)}: {error}")
        return f"resolving issue: {error}"
    session.warn(f"Error updating {clean(text)}: {error}")
    return f"updating issue: {error}"


def _report(session: Session, failures: list[tuple[str, FleetError, str]]) -> int:
    message = f"{len(failures)} of {len(session.arguments.words)} issues failed to update"
    if session.json:
        rows = [
            {"id": text, "error": told, **({"guard_mismatch": True} if error.exit_code == 13 else {})}
            for text, error, told in failures
        ]
        write_json({"error": message, "failed": rows}, stream=sys.stderr, compact=True)
    else:
        session.warn("\n".join([f"Error: {message}", *(f"  {clean(text)}: {told}" for text, _, told in failures)]))
        for hint in {error.hint for _, error, _ in failures if error.hint}:
            session.warn(f"Hint: {hint}")
    return 13 if any(isinstance(error, tasks.GuardMismatch) for _, error, _ in failures) else 1
