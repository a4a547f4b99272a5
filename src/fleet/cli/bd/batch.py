"""bd batch: several operations, one per line, in one transaction. A failed operation rolls back all of them."""

from __future__ import annotations

from fleet.actions.tasks import tasks
from fleet.cli.bd.placement import placement
from fleet.cli.bd.session import NoMatch, read_source
from fleet.cli.text import clean
from fleet.core import checks
from fleet.core.dependency import BLOCKS, EXTERNAL, Edge
from fleet.core.errors import AlreadyClaimed, BadInput, FleetError
from fleet.core.patch import Patch
from fleet.core.record import Record
from fleet.core.task import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fleet.cli.bd.session import Session
    from fleet.core.task import Task

FLAGS = {
    "batch": """
-f --file TEXT    | read the operations from a file (default: stdin)
-m --message TEXT | accepted; there is no commit to describe
--dry-run         | show what was read, do nothing
""",
}

SUPPORTED = "close, update, create, dep add, dep remove"
KEYS = ("status", "priority", "title", "assignee", "force")


class Op(Record):
    """An operation of a script."""

    line: int
    raw: str
    name: str
    words: list[str]


def batch(session: Session) -> int:
    path = session.arguments.text("file", "-")
    try:
        text = read_source(path)
    except BadInput as error:
        raise BadInput(f"open batch file: {error}", hint=error.hint) from error
    ops = parse(text)
    if session.arguments.flag("dry-run"):
        return _show(session, ops)
    done = [] if not ops else _run_all(session, ops)
    if session.json:
        rows = [{"line": op.line, "op": op.name, "target": target} for op, target in done]
        return session.answer({"operations": len(rows), "status": "ok", **({"results": rows} if rows else {})})
    session.say(f"batch: {len(done)} operations committed" if done else "batch: 0 operations (no-op)")
    for op, target in done:
        session.say(f"  line {op.line}: {op.name} {target}")
    return 0


def parse(text: str) -> list[Op]:
    """Return the operations of a script, without empty lines and lines that start with #. Raises BadInput."""
    ops = []
    for number, line in enumerate(text.splitlines(), 1):
        raw = line.strip()
        if raw and not raw.startswith("#"):
            try:
                ops.append(_op(number, raw))
            except BadInput as error:
                raise BadInput(f"parsing batch input: line {number}: {error}", hint=error.hint) from error
    return ops


def words_of(line: str) -> list[str]:
    r"""Return the words of a line. Double quotes enclose words with blanks; \" and \\ are escapes inside.

    Raises BadInput.
    """
    words: list[str] = []
    word: str | None = None
    quoted, rest = False, iter(line)
    for char in rest:
        if quoted and char == "\\":
            following = next(rest, "")
            word = (word or "") + (following if following in ('"', "\\") else char + following)
        elif char == '"':
            quoted, word = not quoted, word or ""
        elif char in " \t" and not quoted:
            words += [word] if word is not None else []
            word = None
        else:
            word = (word or "") + char
    if quoted:
        raise BadInput("unterminated quoted string")
    return words + ([word] if word is not None else [])


def _op(number: int, raw: str) -> Op:
    words = words_of(raw)
    name = words.pop(0)
    if name == "dep":
        if not words:
            raise BadInput("'dep' requires a subcommand (add|remove)")
        kind = {"add": "add", "remove": "remove", "rm": "remove"}.get(words[0])
        if kind is None:
            raise BadInput(f'unknown dep subcommand "{words[0]}" (want add|remove)')
        return Op(line=number, raw=raw, name=f"dep.{kind}", words=words[1:])
    if name not in _OPERATIONS:
        raise BadInput(f'unsupported batch command "{name}" (supported: {SUPPORTED})')
    return Op(line=number, raw=raw, name=name, words=words)


def _show(session: Session, ops: list[Op]) -> int:
    if session.json:
        return session.answer({"dry_run": True, "operations": len(ops)})
    for op in ops:
        session.say(f"line {op.line}: {clean(op.raw)}")
    session.say(f"{len(ops)} operations parsed (dry-run, nothing executed)")
    return 0


def _run_all(session: Session, ops: list[Op]) -> list[tuple[Op, str]]:
    done = []
    with session.store.atomic():
        for op in ops:
            try:
                done.append((op, _OPERATIONS[op.name](session, op.words)))
            except FleetError as error:
                raise BadInput(f"line {op.line} ({op.raw}): {error}", hint=error.hint) from error
    return done


def _close(session: Session, words: list[str]) -> str:
    _need(words, 1, "close requires <id>")
    key = _find(session, words[0])
    return _finish(session, key, checks.body("reason", " ".join(words[1:])) or "Closed")


def _finish(session: Session, key: str, reason: str, *, force: bool = False) -> str:
    caller = session.caller()
    if caller is not None and caller.task_id == key:
        tasks.hand_in(session.store, key, reason)
    else:
        tasks.close(session.store, key, reason, actor=session.actor, force=force)
    return key


def _update(session: Session, words: list[str]) -> str:
    _need(words, 2, "update requires <id> and at least one key=value")
    found: dict[str, str] = {}
    for pair in words[1:]:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise BadInput(f'update: expected key=value, got "{pair}"')
        if name not in KEYS:
            raise BadInput(f'update: unsupported key "{name}" (allowed: {", ".join(KEYS)})')
        found[name] = value
    key = _find(session, words[0])
    force = found.get("force", "").lower() in ("1", "t", "true")
    patch = _patch(session, found)
    if not patch.is_empty:
        tasks.update(session.store, key, patch, guard=lambda task: _check_holder(session, task, patch, force))
    if found.get("status") == Status.CLOSED:
        _finish(session, key, "Closed", force=force)
    return key


def _patch(session: Session, found: dict[str, str]) -> Patch:
    fields: dict[str, Any] = {}
    if "title" in found:
        fields["title"] = checks.title(found["title"])
    if "priority" in found:
        fields["priority"] = checks.priority(found["priority"])
    if "assignee" in found:
        fields["assignee"] = checks.line("assignee", found["assignee"])
    status = checks.status(found["status"], session.store.config.all()) if "status" in found else None
    return Patch(fields=fields, status=None if status == Status.CLOSED else status)


def _check_holder(session: Session, task: Task, patch: Patch, force: bool) -> None:
    held = task.status == Status.IN_PROGRESS and task.assignee not in ("", session.actor)
    if held and not force and patch.status is None and patch.fields.get("assignee", task.assignee) != task.assignee:
        raise AlreadyClaimed(
            f'cannot reassign {task.id}: held by "{task.assignee}" (in_progress); coordinate with the holder',
            hint="add force=true only if the claim is abandoned",
        )


def _create(session: Session, words: list[str]) -> str:
    _need(words, 3, "create requires <type> <priority> <title>")
    fields = {
        "type": checks.task_type(words[0], session.store.config.all()),
        "priority": checks.priority(words[1]),
        "title": checks.title(" ".join(words[2:])),
        "owner": session.owner,
        **placement(session),
    }
    task, _ = tasks.create(session.store, tasks.Draft(fields=fields), actor=session.actor)
    return task.id


def _add(session: Session, words: list[str]) -> str:
    _need(words, 2, "dep add requires <from-id> <to-id>")
    task, needs = _find(session, words[0]), _find(session, words[1])
    if task == needs:
        raise BadInput(f"cannot add self-dependency: {task} cannot depend on itself")
    kind = checks.line("dependency type", words[2] if len(words) > 2 else BLOCKS, longest=50)
    now = session.store.now()
    session.store.edges.add(Edge(task=task, needs=needs, type=kind, created_at=now, created_by=session.actor))
    return f"{task}->{needs}"


def _remove(session: Session, words: list[str]) -> str:
    _need(words, 2, "dep remove requires <from-id> <to-id>")
    task, needs = _find(session, words[0]), _find(session, words[1])
    if not session.store.edges.remove(task, needs):
        raise BadInput(f"{task} does not depend on {needs}")
    return f"{task}->{needs}"


def _need(words: list[str], number: int, message: str) -> None:
    if len(words) < number:
        raise BadInput(message)


def _find(session: Session, text: str) -> str:
    if text.startswith(EXTERNAL):
        return text
    try:
        return session.find(text, guess=False)
    except NoMatch as error:
        raise BadInput(f"not found: issue {text}", hint=error.hint) from error


_OPERATIONS = {
    "close": _close,
    "update": _update,
    "create": _create,
    "dep.add": _add,
    "dep.remove": _remove,
}
