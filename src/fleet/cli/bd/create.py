"""bd create, new and q: create tasks with their directory and coder."""

from __future__ import annotations

from fleet.actions.tasks import tasks
from fleet.beads.format import issue
from fleet.cli.bd import fields
from fleet.cli.bd.placement import placement
from fleet.cli.bd.session import NoMatch
from fleet.cli.text import block, clean
from fleet.core import checks
from fleet.core.clock import EPOCH
from fleet.core.errors import BadInput, UsageError
from fleet.core.jsontext import encode
from fleet.core.patch import with_metadata
from fleet.core.task import Status, Task
from fleet.home import find_project, project_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fleet.cli.bd.arguments import Arguments
    from fleet.cli.bd.session import Session

FLAGS = {
    "create": fields.TEXT_FLAGS
    + """
--title TEXT            | the title, instead of the positional one
-p --priority TEXT      | 0-4 or P0-P4, 0 is the most urgent (default 2)
-t --type TEXT          | bug, feature, task, epic, chore, decision, … (default task)
-s --status TEXT        | the status to begin with
-l --labels LIST        | labels, separated by commas
--label LIST            | the same
--deps LIST             | id or type:id; blocks:id makes the other one wait for this
--parent TEXT           | make it a numbered child of this task
--no-inherit-labels     | do not take the parent's labels
--id TEXT               | the id to use
--force                 | also an id with another prefix
--waits-for TEXT        | wait for the children of this task
--waits-for-gate TEXT   | all-children or any-children
--skills TEXT           | skills it needs, added to the description
--context TEXT          | context, added to the description
--ephemeral             | not part of ready work or exports
--no-history            | kept for bd's sake
--validate              | refuse a description without the sections its type needs
--silent                | print only the id
--dry-run               | show what would be made, make nothing
-f --file TEXT          | make the tasks of a markdown file
--graph TEXT            | make the tasks and dependencies of a JSON plan
--cwd TEXT              | where to work on it (default: here)
--coder TEXT            | which coder works on it
--model TEXT            | which model that coder uses
--workspace TEXT        | directory, or worktree for full proof
--requires LIST         | only on a host that offers these labels
--host TEXT             | only on this host
--allow-empty-description | accepted
""",
    "quick": """
-p --priority TEXT | 0-4 or P0-P4
-t --type TEXT     | the type
-l --labels LIST   | labels, separated by commas
--cwd TEXT         | where to work on it (default: here)
--coder TEXT       | which coder works on it
--model TEXT       | which model that coder uses
--workspace TEXT   | directory, or worktree for full proof
--requires LIST    | only on a host that offers these labels
--host TEXT        | only on this host
""",
}


def create(session: Session) -> int:
    arguments = session.arguments
    if arguments.has("file") or arguments.has("graph"):
        from fleet.cli.bd import create_many

        return create_many.from_file(session) if arguments.has("file") else create_many.from_graph(session)
    draft = read_draft(session, title_of(arguments))
    if arguments.flag("dry-run"):
        return _preview(session, draft)
    task, warnings = tasks.create(session.store, draft, actor=session.actor)
    for warning in warnings:
        session.warn(f"Warning: {warning}")
    if task.workspace != "worktree" and (task.verify or arguments.has("fail-to-pass")):
        session.warn("hint: pass --workspace worktree for full proof: others may work in a plain directory too")
    _look_at_project(session, task)
    if session.json:
        return session.answer(issue(task))
    session.say(task.id if arguments.flag("silent") else summary(session, task))
    return 0


def quick(session: Session) -> int:
    if not session.arguments.words:
        raise UsageError("title required", hint='`bd q "what is to be done"`')
    title = checks.title(" ".join(session.arguments.words))
    task, _ = tasks.create(session.store, read_draft(session, title), actor=session.actor)
    session.say(task.id)
    return 0


def _look_at_project(session: Session, task: Task) -> None:
    """Warn a person if a project file has no effect on the task."""
    project = find_project(task.cwd, session.home) if task.cwd and session.caller() is None else None
    if project is not None and project_files(project, session.home):
        from fleet.settings import load  # prints the warnings; most tasks are in no project with a file

        load(session.home, task.cwd, {}, lenient=True)


def title_of(arguments: Arguments) -> str:
    """Return the title from the words or the flag. Raises UsageError if both are given and differ."""
    words, flag = arguments.words, arguments.text("title")
    if len(words) > 1:
        raise UsageError(f"got {len(words)} titles, expected one", hint=f'put it in quotes: "{" ".join(words)[:80]}"')
    word = words[0] if words else ""
    if word and arguments.has("title") and word != flag:
        raise UsageError(
            f'cannot specify different titles as both positional argument and --title flag\n  Positional: "{word}"\n'
            f'  --title:    "{flag}"'
        )
    if word.startswith("-"):
        raise UsageError(
            f"title {encode(word)} looks like a flag (starts with '-')",
            hint=f"pass it explicitly to use it anyway: bd create --title={encode(word)}",
        )
    if not words and not arguments.has("title"):
        raise BadInput(
            "title required (or use --file to create from markdown)", hint='`bd create "what is to be done"`'
        )
    return checks.title(word or flag)


def read_draft(session: Session, title: str) -> tasks.Draft:
    """Return a draft of the new task from the flags. All flags are checked before anything is written."""
    arguments, config = session.arguments, session.store.config.all()
    found: dict[str, Any] = {"title": title, **fields.texts(arguments)}
    found["description"] = _with_sections(found.get("description", ""), arguments)
    found["priority"] = checks.priority(arguments.text("priority", "2"))
    found["type"] = checks.task_type(arguments.text("type", "task"), config)
    found["labels"] = checks.labels(arguments.many("labels") + arguments.many("label"))
    found["owner"] = session.owner
    if arguments.has("append-notes"):
        found["notes"] = "\n".join(filter(None, (found.get("notes", ""), arguments.text("append-notes"))))
    if arguments.has("estimate"):
        found["estimated_minutes"] = fields.estimate(arguments)
    found |= {"ephemeral": arguments.flag("ephemeral"), "no_history": arguments.flag("no-history")}
    found |= _status_and_times(session, config)
    found |= placement(session)
    if (rules := fields.rules(arguments)) is not None:
        found["rules"] = rules.text()
    found = _with_metadata(found, fields.metadata(arguments, session))
    if arguments.flag("validate"):
        from fleet.cli.bd.fields import check_sections

        check_sections(found["type"], found["description"])
    needs, holds = _dependencies(session)
    return tasks.Draft(
        fields=found,
        id=arguments.text("id"),
        parent=_parent(session),
        inherit_labels=not arguments.flag("no-inherit-labels"),
        force=arguments.flag("force"),
        needs=needs,
        holds=holds,
    )


def summary(session: Session, task: Task) -> str:
    """Return the line that reports a new task: its directory, coder, model and workspace."""
    facts = [f"cwd: {clean(task.cwd)}"]
    if task.coder:
        facts.append(f"coder: {task.coder}")
    if task.model:
        facts.append(f"model: {clean(task.model)}")
    elif task.coder:
        from fleet.settings import load, model_for  # reads settings, only to show the default model

        model = model_for(load(session.home, task.cwd, lenient=True), task.coder)
        facts.append(f"model: {model} (default)" if model else f"model: {task.coder}'s own default")
    if task.workspace:
        facts.append(f"workspace: {task.workspace}")
    return f"Created {task.id}: {clean(task.title)}  [{', '.join(facts)}]"


def _with_sections(description: str, arguments: Arguments) -> str:
    for flag, heading in (("skills", "## Required Skills"), ("context", "## Context")):
        if arguments.text(flag):
            description = f"{description}\n\n{heading}\n{arguments.text(flag)}".lstrip("\n")
    return checks.body("description", description)


def _status_and_times(session: Session, config: dict[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {"due_at": fields.moment(session, "due"), "defer_until": fields.moment(session, "defer")}
    if session.arguments.has("status"):
        found["status"] = checks.status(session.arguments.text("status"), config)
        if found["status"] == Status.CLOSED:
            raise BadInput("a new task cannot be closed", hint="create it, then close it")
    deferral = found["defer_until"]
    if deferral is not None and deferral > session.store.now():
        found.setdefault("status", Status.DEFERRED)
    elif deferral is not None:
        session.warn(
            f'! Defer date "{deferral.astimezone():%Y-%m-%d %H:%M}" is in the past. '
            "Issue will appear in bd ready immediately.\n"
            "  Did you mean a future date? Use --defer=+1h or --defer=tomorrow"
        )
    return found


def _with_metadata(found: dict[str, Any], merged: dict[str, Any]) -> dict[str, Any]:
    blank = Task(id="", created_at=EPOCH, updated_at=EPOCH, **found)
    task = with_metadata(blank, merged)
    changed = {name: value for name, value in task.as_dict().items() if value != getattr(blank, name)}
    return {**found, **changed}


def _parent(session: Session) -> str:
    arguments = session.arguments
    if not arguments.text("parent"):
        return ""
    if arguments.has("id"):
        raise UsageError("cannot specify both --id and --parent flags")
    try:
        return session.find(arguments.text("parent"))
    except NoMatch as error:
        raise BadInput(f"parent issue {arguments.text('parent')} not found", hint=error.hint) from error


def _dependencies(session: Session) -> tuple[tuple[tuple[str, str, str], ...], tuple[tuple[str, str], ...]]:
    needs, holds = [], []
    seen: dict[str, str] = {}
    for spec in filter(None, session.arguments.many("deps")):
        kind, other, reverse = tasks.parse_dependency(spec)
        target = _target(session, other)
        if seen.setdefault(target, kind) != kind:
            raise BadInput(
                f'--deps cannot attach both "{seen[target]}" and "{kind}" to the same target "{target}": '
                "a target can only carry one dependency type at a time",
                hint="pick one type, or make a separate task for the second relation",
            )
        if reverse:
            holds.append((kind, target))
        else:
            needs.append((kind, target, "{}"))
    if session.arguments.text("waits-for"):
        gate = session.arguments.text("waits-for-gate", "all-children")
        if gate not in ("all-children", "any-children"):
            raise BadInput(f"invalid --waits-for-gate {gate!r}", hint="all-children or any-children")
        needs.append(("waits-for", _target(session, session.arguments.text("waits-for")), encode({"gate": gate})))
    return tuple(needs), tuple(holds)


def _target(session: Session, text: str) -> str:
    if text.startswith("external:"):
        return text
    try:
        return session.find(text)
    except NoMatch as error:
        raise BadInput(f'resolving --deps target "{text}": {error}', hint=error.hint) from error


def _preview(session: Session, draft: tasks.Draft) -> int:
    now = session.store.now()
    task = Task(id=draft.id, created_at=now, created_by=session.actor, updated_at=now, **draft.fields)
    if session.json:
        return session.answer({"id": "", **issue(task)})
    lines = ["⚠ [DRY RUN] Would create issue:", f"  ID: {draft.id or '(will be generated)'}"]
    lines += [f"  Title: {clean(task.title)}", f"  Type: {task.type}", f"  Priority: P{task.priority}"]
    lines += [f"  Status: {task.status}"]
    lines += [f"  Assignee: {clean(task.assignee)}"] * bool(task.assignee)
    lines += [f"  Description: {block(task.description, '').strip()}"] * bool(task.description)
    lines += [f"  Labels: {', '.join(task.labels)}"] * bool(task.labels)
    lines += [f"  Cwd: {clean(task.cwd)}"]
    session.say("\n".join(lines))
    return 0
