"""A home with something of everything that a queue stores; moves of it, killed moves, and their results."""

import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import beads
from builders import HOUR, NOON, a_comment, a_task, an_edge
from contract.store_builders import a_question, a_receipt, a_run, a_workspace
from fleet.assembly import Fleet, open_fleet
from fleet.core.dependency import PARENT_CHILD, WAITS_FOR
from fleet.core.filter import Filter, Lane
from fleet.core.run import Message
from fleet.core.task import SPEC_FIELDS, Verdict
from fleet.home import Home
from fleet.settings.queue import BEADS, SQLITE, kind_of
from fleet.store import transfer
from postgres import server
from program import Program

TEXT = "quotes ' \" $(x) ünï 🚀 \u2028 tab\t end"
TITLE = "quotes ' \" $(x) ünï 🚀 end"
#: The home is moved between these kinds; PostgreSQL uses a new database each time.
KINDS = ("sqlite", "postgresql", "beads")
DYING = Path(__file__).parent / "workers" / "dying.py"


def fill(fleet: Fleet) -> None:
    """Add dependent tasks of several kinds, with comments, labels, metadata and history."""
    store = fleet.store
    tasks = [
        a_task(id="fleet-epic", type="epic", title=TITLE, description=TEXT, notes="n\n\n", design="d", acceptance="a"),
        a_task(id="fleet-epic.1", labels=("a", "b c"), metadata={"own": {"deep": [1, None, "ünï 🚀"]}}, priority=0),
        a_task(id="fleet-epic.2", coder="demo", model="m", description="demo: steps=1", estimated_minutes=90),
        a_task(id="fleet-shut", status="closed", close_reason=TEXT, external_ref="gh-1", assignee="ada"),
        a_task(id="fleet-late", status="deferred", defer_until=NOON + 9000 * HOUR, due_at=NOON + 9001 * HOUR),
        a_task(id="fleet-mine", status="in_progress", assignee="ada", claim_owner="ada", epoch=1, spec_id="s"),
        a_task(id="other-1", type="bug", created_by="ada", owner="ada@example.test", title="x" * 400),
    ]
    edges = [
        an_edge("fleet-epic.1", "fleet-epic", PARENT_CHILD),
        an_edge("fleet-epic.2", "fleet-epic", PARENT_CHILD, created_by="ada"),
        an_edge("fleet-epic.2", "fleet-epic.1"),
        an_edge("fleet-late", "fleet-shut", "discovered-from"),
        an_edge("fleet-late", "fleet-mine", "related"),
        an_edge("other-1", "fleet-epic", WAITS_FOR, metadata='{"gate":"any-children"}'),
        an_edge("fleet-mine", "external:other:thing", "tracks"),
    ]
    with store.atomic():
        for task in tasks:
            store.tasks.add(task)
        for edge in edges:
            store.edges.add(edge)
        for number, task in enumerate(tasks[:3]):
            for word in (TEXT, "again", "again"):
                store.comments.add(a_comment(task, author=("ada", "bob")[number % 2], text=f"{word} {number}"))
    store.tasks.add(a_task(id="fleet-ran", priority=0, created_at=NOON - HOUR))
    (claim,) = store.claims.acquire("host", [Lane(room=1)], room=1, ttl=HOUR)
    run = store.runs.begin(claim, a_run(coder="demo", model="m"))
    with store.atomic():
        kept = store.receipts.keep(a_receipt(run.id, coder="demo"))
        store.runs.end(run.replace(finding=kept.finding, receipt=kept.hash, ended_at=store.now()))
        store.claims.settle(claim, Verdict(status="open", reason=TITLE))
    store.questions.ask(a_question("fleet-ran", TEXT, run_id=run.id))
    store.workspaces.lease(a_workspace("fleet-ran"))
    store.trust.set("repository", "/r/.git", TEXT, "ada")
    store.messages.add(Message(id="m-1", task_id="fleet-ran", text=TEXT, author="ada", queued_at=NOON))
    store.tails.keep(run.id, TEXT, NOON)
    store.tasks.next_child("fleet-epic")


@functools.cache
def _template() -> Path:
    base = Path(tempfile.mkdtemp(prefix="fleet-moves-"))
    fleet = Program(base)
    fleet.ok("init", "--home", "--permissions", "skip")
    with open_fleet(Home(str(fleet.home))) as opened:
        fill(opened)
    return fleet.home


def a_home(base: Path) -> Program:
    """Return the program with such a home, whose tasks are in the home's own file."""
    fleet = Program(base)
    shutil.copytree(_template(), fleet.home)
    fleet.home.chmod(0o700)
    fleet.env["FLEET_BD"] = os.environ["FLEET_BD"] = beads.program()
    return fleet


def home_of(fleet: Program) -> Home:
    return Home(str(fleet.home))


def place(kind: str) -> str:
    """Return a place of this kind as a move names it."""
    return server().make_database() if kind == "postgresql" else kind


def move(fleet: Program, target: str) -> dict[str, Any]:
    """Move the queue to this place. Return the answer."""
    told: dict[str, Any] = json.loads(fleet.ok("queue", "migrate", target, "--json"))
    return told


def killed_move(fleet: Program, target: str, point: str, when: str = "before", number: int = 1) -> None:
    """Move the queue with the program killed by SIGKILL at the n-th call of a function of fleet."""
    argv = [sys.executable, str(DYING), point, when, str(number), "queue", "migrate", target]
    done = subprocess.run(argv, env=fleet.env, cwd=fleet.cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == -9, done


def contents(fleet: Program, queue: str) -> dict[str, Any]:
    """Return number and checksum of the rows of every table, without tables that belong to a place.

    Of beads, the file is read.
    """
    file = SQLITE if queue == BEADS else queue
    with open_fleet(home_of(fleet), queue=file) as opened:
        found = dict(transfer.contents(opened.store.connection))
    del found["config"], found["trusted"]
    return found


def begin_ids_with(fleet: Program, prefix: str) -> None:
    with open_fleet(home_of(fleet), queue=SQLITE) as opened:
        opened.store.config.set("issue_prefix", prefix)


def change(fleet: Program, queue: str) -> None:
    """Change tasks, labels, edges and comments between two attempts, and add a task with an early id."""
    with open_fleet(home_of(fleet), queue=queue) as opened, opened.store.atomic():
        change_in(opened)


def change_in(opened: Fleet) -> None:
    store, now = opened.store, opened.store.now()
    first = store.tasks.get("fleet-epic.1")
    store.tasks.save(first.replace(title="another title", labels=("a", "new"), metadata={"other": 1}, updated_at=now))
    store.tasks.save(store.tasks.get("other-1").moved("closed", now).replace(close_reason="done meanwhile"))
    store.comments.add(a_comment("fleet-epic", text="said meanwhile"))
    store.edges.remove("fleet-late", "fleet-mine")
    store.tasks.add(a_task(id="aaa-1", title="made meanwhile", labels=("early",)))
    store.edges.add(an_edge("aaa-1", "fleet-epic.1", "related"))
    store.tasks.remove("fleet-shut")


def ask_bd(fleet: Program, *words: str) -> str:
    """Return the answer of the real bd, without fleet."""
    env = os.environ | {"BEADS_DIR": f"{fleet.home}/.beads", "BD_DISABLE_METRICS": "1", "BEADS_ACTOR": "human"}
    argv = [fleet.env["FLEET_BD"], *words]
    done = subprocess.run(argv, env=env, cwd=fleet.home, capture_output=True, text=True)
    assert done.returncode == 0, done
    return done.stdout


def real(fleet: Program) -> dict[str, Any]:
    """Return every task as the real bd reports it."""
    told = {}
    for found in map(json.loads, ask_bd(fleet, "export", "--all").splitlines()):
        edges = [(each["depends_on_id"], each["type"]) for each in found.get("dependencies") or ()]
        said = [(each["author"], each["text"]) for each in found.get("comments") or ()]
        told[found["id"]] = (
            *(found["title"], found["status"], found.get("description", ""), sorted(found.get("labels") or ())),
            *(sorted(edges), sorted(said), found.get("metadata") or {}),
        )
    return told


def told(fleet: Program) -> dict[str, Any]:
    """Return the same from the home's file."""
    with open_fleet(home_of(fleet), queue=SQLITE) as opened:
        edges, found = opened.store.edges.find(), {}
        for task in opened.store.tasks.find(Filter()):
            said = [(each.author, each.text) for each in opened.store.comments.find([task.id])]
            own = {f"fleet.{name}": value for name in SPEC_FIELDS if (value := getattr(task, name))}
            found[task.id] = (
                *(task.title, task.status, task.description, sorted(task.labels)),
                *(sorted((each.needs, each.type) for each in edges if each.task == task.id), sorted(said)),
                {**task.metadata, **own},
            )
    return found


def check(fleet: Program, queue: str, before: dict[str, Any]) -> None:
    """Check that all tasks arrived unchanged, also as the real bd reports them."""
    assert json.loads(fleet.ok("queue", "--json"))["kind"] == kind_of(queue)
    assert contents(fleet, queue) == before
    if queue == BEADS:  # its file was just compared; the real bd must agree
        found, mine = real(fleet), told(fleet)
        assert found == mine, [(found.get(key), mine.get(key)) for key in {*found, *mine}]
