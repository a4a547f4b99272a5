"""bd delete: show what would be deleted; with --force, delete it permanently."""

from __future__ import annotations

from fleet.actions.tasks import deletion
from fleet.cli.bd.session import NoMatch, read_source
from fleet.cli.text import clean
from fleet.core.errors import BadInput, IllegalMove, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fleet.actions.tasks.deletion import Deletion
    from fleet.cli.bd.session import Session

FLAGS = {
    "delete": """
-f --force       | delete; without it, only show what would be deleted
--dry-run        | only show, whatever else is given
--cascade        | also delete everything that depends on it
--from-file TEXT | read ids from a file, one a line
""",
}


def delete(session: Session) -> int:
    arguments, store = session.arguments, session.store
    cascade = arguments.flag("cascade")
    if not arguments.flag("force") or arguments.flag("dry-run"):
        with store.snapshot():
            found = deletion.plan(store, _find_all(session, _words(session)), cascade=cascade)
        return _preview(session, found)
    with store.atomic():
        done = deletion.delete(store, _find_all(session, _words(session)), cascade=cascade)
    return _answer(session, done, single=len(done.asked) == 1 and not cascade)


def _words(session: Session) -> list[str]:
    words = list(session.arguments.words)
    if session.arguments.has("from-file"):
        lines = [line.strip() for line in read_source(session.arguments.text("from-file")).split("\n")]
        words += [line for line in lines if line and not line.startswith("#")]
    if not words:
        raise UsageError("no issue IDs provided", hint="run `bd delete <id…>` to show what would be deleted")
    return words


def _find_all(session: Session, words: list[str]) -> list[str]:
    # Showing a task may guess its ID, but deleting a task must not.
    keys: dict[str, None] = {}
    missing = []
    for word in words:
        try:
            keys[session.find(word, guess=False)] = None
        except NoMatch:
            missing.append(word)
    if missing:
        told = f"issue {missing[0]} not found" if len(words) == 1 else f"issues not found: {', '.join(missing)}"
        raise BadInput(told, hint="delete takes whole ids; `fleet bd list --all` lists them")
    return list(keys)


def _preview(session: Session, found: Deletion) -> int:
    arguments = session.arguments
    refusal: IllegalMove | None = None
    try:
        if not arguments.flag("force"):
            deletion.check(found, cascade=arguments.flag("cascade"))
    except IllegalMove as error:
        refusal = error
    if session.json:
        if refusal:
            session.warn(f"Error: {refusal}")
        session.answer(_preview_json(session, found, refusal))
        return 1 if refusal else 0
    if not session.quiet:
        session.say("\n".join(_preview_lines(session, found, refusal)))
    if refusal:
        raise IllegalMove(f"previewing deletion: {refusal}", hint=refusal.hint)
    return 0


def _preview_json(session: Session, found: Deletion, refusal: IllegalMove | None) -> dict[str, Any]:
    arguments = session.arguments
    told: dict[str, Any] = {
        "cascade": arguments.flag("cascade"),
        "dry_run": arguments.flag("dry-run"),
        "issue_ids": list(found.asked),
        "preview": True,
    }
    if refusal:
        return {**told, "error": str(refusal), **({"hint": refusal.hint} if refusal.hint else {})}
    return {
        **told,
        "would_delete": len(found.tasks),
        "would_orphan": len(found.orphans),
        "would_remove_dependencies": len(found.edges),
        "would_remove_events": 0,
        "would_remove_labels": found.labels,
    }


def _preview_lines(session: Session, found: Deletion, refusal: IllegalMove | None) -> list[str]:
    arguments = session.arguments
    cascade = arguments.flag("cascade")
    single = len(found.asked) == 1 and not cascade and not refusal
    lines = ["\n⚠️  DELETE PREVIEW\n", "Issue to delete:" if single else f"Issues to delete ({len(found.asked)}):"]
    lines += [f"  {task.id}: {clean(task.title)}" for task in found.tasks if task.id in found.asked]
    if refusal:
        return [*lines, "", str(refusal)]
    if cascade:
        lines += ["", "⚠ Cascade mode enabled - will also delete all dependent issues"]
        lines += [f"  {task.id}: {clean(task.title)}" for task in found.tasks if task.id not in found.asked]
    if found.edges:
        lines += ["", f"Dependency links to remove: {len(found.edges)}"]
        lines += [f"  {clean(each.task)} → {clean(each.needs)} ({clean(each.type)})" for each in found.edges]
    if found.mentioning:
        lines += ["", "Connected issues where text references will be updated:"]
        lines += [f"  {task.id}: {clean(task.title)}" for task in found.mentioning]
    if not single or arguments.flag("dry-run"):
        lines += ["", f"Would delete: {len(found.tasks)} issues"]
        lines += [f"Would remove: {len(found.edges)} dependencies, {found.labels} labels"]
        lines += [f"Would orphan: {len(found.orphans)} issues"] * bool(found.orphans)
    return lines + _last_words(session, found)


def _last_words(session: Session, found: Deletion) -> list[str]:
    if session.arguments.flag("dry-run"):
        return ["", "(Dry-run mode - no changes made)"]
    path = session.arguments.text("from-file")
    cascade = session.arguments.flag("cascade")
    what = f"--from-file {clean(path)}" if path else clean(" ".join(found.asked))
    proceed = "To proceed with cascade deletion, run" if cascade else "To proceed, run"
    command = f"bd delete {what} {'--cascade ' * cascade}--force"
    return ["", "This operation cannot be undone!", f"{proceed}: {command}", ""]


def _answer(session: Session, done: Deletion, *, single: bool) -> int:
    counts = {"dependencies_removed": len(done.edges), "references_updated": len(done.mentioning)}
    if session.json and single:
        return session.answer({"deleted": done.asked[0], **counts})
    if session.json:
        more = {"deleted_count": len(done.tasks), "events_removed": 0, "labels_removed": done.labels}
        return session.answer(
            {"deleted": list(done.asked), "orphaned_issues": list(done.orphans) or None, **more, **counts}
        )
    session.say(f"✓ Deleted {done.asked[0]}" if single else f"✓ Deleted {len(done.tasks)} issue(s)")
    session.say(f"  Removed {len(done.edges)} dependency link(s)")
    if not single:
        session.say(f"  Removed {done.labels} label(s)")
    session.say(f"  Updated text references in {len(done.mentioning)} issue(s)")
    if done.orphans and not single:
        session.say(f"  Orphaned {len(done.orphans)} issue(s): {', '.join(done.orphans)}")
    return 0
