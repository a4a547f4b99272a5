"""JSON plans of bd create --graph: nodes become tasks, and edges connect them to each other or to existing tasks."""

from __future__ import annotations

from fleet.actions.tasks import jsonl, tasks
from fleet.cli.bd.fields import check_fleet_keys, check_sections
from fleet.cli.bd.placement import placement
from fleet.cli.bd.session import NoMatch, read_source
from fleet.cli.text import clean
from fleet.core import checks
from fleet.core.dependency import ALL_CHILDREN, ANY_CHILDREN, BLOCKS, EXTERNAL, PARENT_CHILD, WAITS_FOR, Edge
from fleet.core.errors import BadInput, FleetError, TaskExists
from fleet.core.jsontext import decode, encode
from fleet.core.patch import with_metadata
from fleet.core.record import Record
from fleet.core.task import Status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fleet.cli.bd.session import Session

#: Node fields with the same name in an issue, and node fields with their own meaning.
PLAIN = (
    *("id", "title", "status", "description", "design", "acceptance_criteria", "notes", "spec_id", "external_ref"),
    *("assignee", "owner", "estimated_minutes", "due_at", "defer_until", "labels", "metadata", "ephemeral"),
    *("no_history", "pinned", "wisp_type", "mol_type", "event_kind", "actor", "target", "payload"),
)
OWN = ("key", "type", "priority", "estimate", "parent", "parent_key", "parent_id", "deps", "metadata_refs")
NOTE = (
    "dry-run validates the graph structure only; live create may still reject parent-child blocking paths after "
    "resolving stored dependencies"
)
MADE_ANEW = ("id", "created_at", "created_by", "updated_at")


class Node(Record):
    """A task to create, with its key in the plan."""

    key: str
    draft: tasks.Draft
    parent: str = ""  # a key of the plan, or an ID
    refs: dict[str, str] = {}  # noqa: RUF012 - metadata that names other nodes


class Tie(Record):
    """An edge to create. Each end is a key or an ID."""

    what: str  # its place in the plan
    task: str
    needs: str
    type: str = BLOCKS
    metadata: str = "{}"
    thread_id: str = ""


def create(session: Session) -> int:
    """Create all tasks and edges of a plan, or none. With --dry-run, only check the plan."""
    plan = _plan(session.arguments.text("graph"))
    try:
        nodes, ties = read_plan(session, plan)
        if session.arguments.flag("dry-run"):
            return _preview(session, nodes, ties)
        ids = _make(session, nodes, ties)
    except BadInput as error:
        raise BadInput(f"invalid graph plan: {error}", hint=error.hint) from error
    if session.json:
        return session.answer({"ids": ids})
    session.say(f"Created {len(ids)} issues")
    session.say("\n".join(f"  {clean(key)} -> {made}" for key, made in ids.items()))
    return 0


def read_plan(session: Session, plan: dict[str, Any]) -> tuple[list[Node], list[Tie]]:
    """Return the nodes and edges of a plan, checked as far as possible without creating them. Raises BadInput."""
    objects = _objects(plan, "nodes")
    if not objects:
        raise BadInput("plan has no nodes")
    nodes = [_node(session, found, at) for at, found in enumerate(objects)]
    keys: dict[str, Node] = {}
    for node in nodes:
        if keys.setdefault(node.key, node) is not node:
            raise BadInput(f'duplicate node key "{node.key}"')
    ties = [_edge(session, found, at, keys) for at, found in enumerate(_objects(plan, "edges"))]
    for node, found in zip(nodes, objects, strict=True):
        for name in filter(None, (node.parent, *node.refs.values())):
            _end(session, f'node "{node.key}"', name, keys)
        ties += [_dep(session, dep, node, keys) for dep in _objects(found, "deps")]
    return nodes, ties


def _plan(path: str) -> dict[str, Any]:
    try:
        text = read_source(path)
    except BadInput as error:
        raise BadInput(f"reading graph plan: {error}", hint=error.hint) from error
    try:
        found = decode(text)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"parsing graph plan: {error}") from error
    if not isinstance(found, dict):
        raise BadInput('parsing graph plan: not an object with "nodes"')
    jsonl.check_plain(found)
    return found


def _objects(found: dict[str, Any], name: str) -> list[dict[str, Any]]:
    value = found.get(name) or []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise BadInput(f"{name} is not a list of objects")
    return value


def _node(session: Session, found: dict[str, Any], at: int) -> Node:
    key = found.get("key")
    if not isinstance(key, str) or not key:
        raise BadInput(f"node {at} has no key")
    unknown = [name for name in found if name not in PLAIN and name not in OWN]
    if unknown:
        session.warn(f'warning: graph plan node["{clean(key)}"] has unknown field(s), ignored: [{" ".join(unknown)}]')
    try:
        return _checked_node(session, found, key)
    except FleetError as error:
        raise BadInput(f'node "{key}": {error}', hint=error.hint) from error


def _checked_node(session: Session, found: dict[str, Any], key: str) -> Node:
    plain = {name: found[name] for name in PLAIN if name in found}
    plain |= {"issue_type": found.get("type"), "priority": 2 if found.get("priority") is None else found["priority"]}
    plain.setdefault("estimated_minutes", found.get("estimate"))
    now = session.store.now()
    row = jsonl.row_from(plain, session.store.config.all(), now)
    if row.task.status == Status.CLOSED:
        raise BadInput("a new task cannot be closed", hint="create it, then close it")
    fields = {name: value for name, value in row.task.as_dict().items() if name not in MADE_ANEW}
    check_fleet_keys(plain.get("metadata") or {}, session)
    fields |= {name: value for name, value in placement(session).items() if not fields[name]}
    fields["owner"] = fields["owner"] or session.owner
    fields["ephemeral"] = found.get("ephemeral", session.arguments.flag("ephemeral"))
    if row.task.defer_until is not None and row.task.defer_until > now and not found.get("status"):
        fields["status"] = Status.DEFERRED
    if session.arguments.flag("validate"):
        check_sections(row.task.type, row.task.description)
    draft = tasks.Draft(fields=fields, id=row.task.id, force=session.arguments.flag("force"))
    parents = [_text(found, name) for name in ("parent_key", "parent", "parent_id")]
    return Node(key=key, draft=draft, parent=next(filter(None, parents), ""), refs=_refs(found))


def _refs(found: dict[str, Any]) -> dict[str, str]:
    refs = found.get("metadata_refs") or {}
    if not isinstance(refs, dict) or not all(isinstance(value, str) for value in refs.values()):
        raise BadInput("metadata_refs is not an object of names")
    return {checks.metadata_key(name): value for name, value in refs.items()}


def _edge(session: Session, found: dict[str, Any], at: int, keys: dict[str, Node]) -> Tie:
    what = f"edge {at}"
    ends = []
    for side in ("from", "to"):
        key, known = _text(found, f"{side}_key"), _text(found, f"{side}_id")
        if key and key not in keys:
            raise BadInput(f'{what}: {side} key "{key}" not found in plan')
        if not key and not known:
            raise BadInput(f"{what}: {side}_key or {side}_id is missing")
        ends.append(key or _end(session, what, known, {}))
    kind = checks.line("type", _text(found, "type"), longest=50) or BLOCKS
    gate = _text(found, "gate")
    if gate not in ("", ALL_CHILDREN, ANY_CHILDREN):
        raise BadInput(f"{what}: invalid gate {gate!r}", hint=f"{ALL_CHILDREN} or {ANY_CHILDREN}")
    metadata = encode({"gate": gate or ALL_CHILDREN}) if kind == WAITS_FOR else "{}"
    thread = checks.line("thread_id", _text(found, "thread_id"))
    return Tie(what=what, task=ends[0], needs=ends[1], type=kind, metadata=metadata, thread_id=thread)


def _dep(session: Session, found: dict[str, Any], node: Node, keys: dict[str, Node]) -> Tie:
    what = f'node "{node.key}"'
    needs = _end(session, what, _text(found, "target"), keys)
    return Tie(what=what, task=node.key, needs=needs, type=_text(found, "type") or BLOCKS)


def _end(session: Session, what: str, name: str, keys: dict[str, Node]) -> str:
    if name in keys or name.startswith(EXTERNAL):
        return name
    try:
        return session.find(name, guess=False)
    except NoMatch as error:
        raise BadInput(f'{what}: "{name}" is neither a key of the plan nor a task', hint=error.hint) from error


def _make(session: Session, nodes: list[Node], ties: list[Tie]) -> dict[str, str]:
    store = session.store
    with store.atomic():
        ids = {node.key: _make_node(session, node) for node in nodes}
        for node in nodes:
            if node.refs:
                named = {name: ids.get(key, key) for name, key in node.refs.items()}
                store.tasks.save(with_metadata(store.tasks.get(ids[node.key]), named))
        parents = [
            Tie(what=f'node "{each.key}"', task=each.key, needs=each.parent, type=PARENT_CHILD)
            for each in nodes
            if each.parent
        ]
        for tie in (*parents, *ties):
            _link(session, tie, ids)
    return ids


def _make_node(session: Session, node: Node) -> str:
    try:
        task, _ = tasks.create(session.store, node.draft, actor=session.actor)
    except TaskExists as error:
        raise BadInput(
            f'explicit id "{node.draft.id}" (node "{node.key}") already exists; graph create will not overwrite an '
            "existing issue — drop the id to mint a new one, or update the existing issue instead"
        ) from error
    except FleetError as error:
        raise BadInput(f'node "{node.key}": {error}', hint=error.hint) from error
    return task.id


def _link(session: Session, tie: Tie, ids: dict[str, str]) -> None:
    edge = Edge(
        task=ids.get(tie.task, tie.task),
        needs=ids.get(tie.needs, tie.needs),
        type=tie.type,
        created_at=session.store.now(),
        created_by=session.actor,
        metadata=tie.metadata,
        thread_id=tie.thread_id,
    )
    try:
        session.store.edges.add(edge)
    except FleetError as error:
        raise BadInput(f"{tie.what} ({tie.task} -> {tie.needs}): {error}", hint=error.hint) from error


def _preview(session: Session, nodes: list[Node], ties: list[Tie]) -> int:
    edges, parents = sum(tie.what.startswith("edge ") for tie in ties), sum(bool(node.parent) for node in nodes)
    if session.json:
        rows = [{name: value for name, value in _row(node).items() if value != ""} for node in nodes]
        head = {"dry_run": True, "node_count": len(nodes), "edge_count": edges, "parent_deps": parents}
        return session.answer({**head, "validation_notes": [NOTE], "nodes": rows})
    ties_made = f"{edges} edge(s) ({parents} parent-child link(s))"
    session.say(f"Dry run: would create {len(nodes)} issue(s) and {ties_made}\nNote: {NOTE}.")
    for node in nodes:
        row = _row(node)
        tail = "".join(f" {name}={row[name]}" for name in ("id", "parent_key") if row[name])
        session.say(f'  {clean(node.key)} [{row["type"]}] P{row["priority"]} "{clean(row["title"])}"{clean(tail)}')
    return 0


def _row(node: Node) -> dict[str, Any]:
    fields = node.draft.fields
    named = {"key": node.key, "id": node.draft.id, "title": fields["title"], "type": fields["type"]}
    return {**named, "priority": fields["priority"], "parent_key": node.parent}


def _text(found: dict[str, Any], name: str) -> str:
    value = found.get(name)
    if value is not None and not isinstance(value, str):
        raise BadInput(f"{name} is not text")
    return value or ""
