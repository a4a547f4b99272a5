"""bd create --file and --graph: several tasks from one file, all or none."""

from __future__ import annotations

from fleet.actions.tasks import tasks
from fleet.beads.format import edge, issue
from fleet.cli.bd.arguments import GLOBAL_FLAGS, table
from fleet.cli.bd.fields import check_sections
from fleet.cli.bd.placement import placement
from fleet.cli.bd.session import NoMatch, read_source
from fleet.cli.text import clean
from fleet.core import checks
from fleet.core.errors import BadInput, FleetError, UsageError
from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fleet.cli.bd.session import Session
    from fleet.core.task import Task

#: Flags of create that apply to many tasks at once. The other flags belong to a single task.
SHARED = (
    *("file", "graph", "cwd", "coder", "model", "workspace", "requires", "host"),
    *("validate", "silent", "dry-run", "force", "ephemeral"),
)
#: Known sections, and their synonyms.
SECTIONS = {
    **{name: name for name in ("priority", "type", "description", "design", "notes", "assignee", "labels")},
    **{"acceptance criteria": "acceptance criteria", "acceptance": "acceptance criteria"},
    **{"dependencies": "dependencies", "deps": "dependencies"},
}


def from_file(session: Session) -> int:
    """Create the tasks of a markdown file."""
    check_flags(session, "file")
    if session.arguments.flag("dry-run"):
        raise UsageError("--dry-run is not supported with --file flag")
    path = session.arguments.text("file")
    try:
        plan = read_markdown(read_source(path))
        drafts = [_draft(session, sections) for sections in plan]
    except BadInput as error:
        raise BadInput(f"parsing markdown file: {error}", hint=error.hint) from error
    with session.store.atomic():
        made = [_make(session, draft, sections) for draft, sections in zip(drafts, plan, strict=True)]
    if session.json:
        return session.answer([_with_edges(session, task) for task in made])
    if session.arguments.flag("silent"):
        session.say("\n".join(task.id for task in made))
        return 0
    session.say(f"✓ Created {len(made)} issues from {clean(path)}:")
    session.say("\n".join(f"  {task.id}: {clean(task.title)} [P{task.priority}, {task.type}]" for task in made))
    return 0


def from_graph(session: Session) -> int:
    """Create the tasks and dependencies of a JSON plan."""
    from fleet.cli.bd import graph_plan

    check_flags(session, "graph")
    return graph_plan.create(session)


def check_flags(session: Session, by: str) -> None:
    """Raise UsageError for flags that apply to a single task, instead of ignoring them."""
    if session.arguments.words or session.arguments.has("title"):
        raise UsageError(f"cannot specify both title and --{by} flag")
    if session.arguments.has("file") and session.arguments.has("graph"):
        raise UsageError("cannot specify both --file and --graph")
    everywhere = {flag.dest for flag in table(GLOBAL_FLAGS)}
    for name in session.arguments.given:
        if name not in SHARED and name not in everywhere:
            raise UsageError(f"--{name} cannot be used with --{by}", hint="say it in the file, for each task")


def _draft(session: Session, sections: Sections) -> tasks.Draft:
    found: dict[str, Any] = {"owner": session.owner, "ephemeral": session.arguments.flag("ephemeral")}
    found |= {"title": _at(sections.title, checks.title), **placement(session)}
    for name, field in (("description", "description"), ("design", "design"), ("notes", "notes")):
        found[field] = _section(sections, name, lambda text, name=name: checks.body(name, text), "")
    found["acceptance"] = _section(sections, "acceptance criteria", lambda text: checks.body("acceptance", text), "")
    found["assignee"] = _section(sections, "assignee", lambda text: checks.line("assignee", text), "")
    found["priority"] = _section(sections, "priority", checks.priority, 2)
    config = session.store.config.all()
    found["type"] = _section(sections, "type", lambda text: checks.task_type(text, config), "task")
    found["labels"] = _section(sections, "labels", lambda text: checks.labels(text.replace(",", " ").split()), ())
    if session.arguments.flag("validate"):
        _at(sections.title, lambda _: check_sections(found["type"], found["description"]))
    needs, holds = _section(sections, "dependencies", lambda text: _ties(session, text), ((), ()))
    return tasks.Draft(fields=found, needs=needs, holds=holds)


def _section(sections: Sections, name: str, read: Any, default: Any) -> Any:
    section = sections.parts.get(name)
    return _at(section, read) if section is not None and section.text else default


def _at(section: FileSection, read: Any) -> Any:
    try:
        return read(section.text)
    except FleetError as error:
        raise BadInput(f"line {section.line}: {error}", hint=error.hint) from error


def _ties(session: Session, text: str) -> tuple[tuple[tuple[str, str, str], ...], tuple[tuple[str, str], ...]]:
    needs, holds = [], []
    for spec in text.replace(",", " ").split():
        kind, other, reverse = tasks.parse_dependency(spec)
        try:
            target = other if other.startswith("external:") else session.find(other)
        except NoMatch as error:
            raise BadInput(f'dependency "{spec}": {error}', hint=error.hint) from error
        if reverse:
            holds.append((kind, target))
        else:
            needs.append((kind, target, "{}"))
    return tuple(needs), tuple(holds)


def _make(session: Session, draft: tasks.Draft, sections: Sections) -> Task:
    try:
        task, _ = tasks.create(session.store, draft, actor=session.actor)
    except FleetError as error:
        raise BadInput(f"line {sections.title.line}: {error}", hint=error.hint) from error
    return task


def _with_edges(session: Session, task: Task) -> dict[str, Any]:
    edges = [edge(each) for each in session.store.edges.find([task.id])]
    return {**issue(task), **({"dependencies": edges} if edges else {})}


class FileSection(Record):
    """A text and the number of its first line."""

    line: int
    text: str = ""


class Sections(Record):
    """A task: its title, and its sections by name."""

    title: FileSection
    parts: dict[str, FileSection]


def read_markdown(text: str) -> list[Sections]:
    """Return the tasks of a file, in order. Raises BadInput for an unknown section or if the file has no task."""
    found: list[Sections] = []
    name, fence = "", ""
    for number, line in enumerate(text.split("\n"), 1):
        line = line.rstrip("\r")
        fence = _fence(line, fence)
        heading = "" if fence else _heading(line)
        if heading.startswith("## "):
            found.append(Sections(title=FileSection(line=number, text=heading[3:].strip()), parts={}))
            name = "description"
        elif heading and found:
            name = _known(heading[4:].strip(), number)
            if name != "description" and name in found[-1].parts:
                raise BadInput(f"line {number}: a second section {heading[4:].strip()!r}")
        elif found:
            old = found[-1].parts.get(name) or FileSection(line=number)
            begins = old.line if old.text.strip() else number
            found[-1].parts[name] = FileSection(line=begins, text=old.text + line + "\n")
    if not found:
        raise BadInput("no issues found in markdown file (expected ## Issue Title format)")
    return [each.replace(parts={key: _stripped(part) for key, part in each.parts.items()}) for each in found]


def _heading(line: str) -> str:
    words = line.split(maxsplit=1)
    return f"{words[0]} {words[1]}" if len(words) == 2 and words[0] in ("##", "###") and line[0] == "#" else ""


def _fence(line: str, fence: str) -> str:
    """Return the fence that is open after this line. A heading inside a code block is not a heading."""
    mark = line.lstrip()[:3]
    if mark not in ("```", "~~~"):
        return fence
    return "" if fence == mark else fence or mark


def _known(name: str, number: int) -> str:
    found = SECTIONS.get(name.lower())
    if found is None:
        raise BadInput(f"line {number}: unknown section {name!r}", hint=f"sections: {', '.join(SECTIONS)}")
    return found


def _stripped(section: FileSection) -> FileSection:
    return section.replace(text=section.text.strip())
