"""States of a queue that a person may find, made through the store, with the items that need the person."""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from builders import a_task
from contract.store_builders import a_workspace, removed
from fleet.core.run import BY_TOOL, Question
from fleet.core.task import FANOUT, MERGED, WORKTREE, Status, Verdict
from fleet.core.workflow import BY_HAND
from fleet.core.workspace import Collision
from fleet.supervisor.lock import PAUSED, Single

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fleet.core.run import Run
    from fleet.core.task import Claim
    from live_runs import Records

    Situation = Callable[["Scene"], None]

SAID = {
    "failed_verify": "its work fails verification, tried twice: `make test` ended with exit code 1",
    "fabricated": "its claims are false, the second time: it claims files that do not exist: a.py",
    "no_changes": "the agent reports success but changed nothing: no change from its base",
    "out_of_scope": "it changed files outside its scope: it wrote /etc/hosts",
}
TIP, OTHER_TIP = "a" * 40, "b" * 40


class Scene:
    """A queue to which tests add tasks and runs. All branches are of one repository."""

    def __init__(self, records: Records, stack: ExitStack) -> None:
        self.store, self.home = records.store, records.home
        self._records, self._stack = records, stack
        self.now = records.store.now()

    def serve(self, no_login: Sequence[Sequence[str]] = (), **said: Any) -> None:
        """Hold the lock of the home, as its supervisor does. `no_login` is what it knows of missing logins."""
        single = Single(self.home)
        single.take(**said)
        single.add(no_login=no_login)
        self._stack.callback(single.release)

    def task(self, name: str, **said: Any) -> str:
        """Put a task with a branch into the queue. Return its id."""
        given = {"title": f"Do {name}", "coder": "demo", "workspace": WORKTREE, "repo": "/r", "branch": name}
        made = a_task(id=f"fleet-{name}", created_at=self.now - timedelta(hours=1), **(given | said))
        self.store.tasks.add(made)
        return made.id

    def change(self, key: str, **said: Any) -> None:
        """Change fields of a task."""
        with self.store.atomic():
            self.store.tasks.save(self.store.tasks.get(key).replace(**said))

    def begin(self, name: str, task: dict[str, Any] | None = None, **run: Any) -> tuple[Claim, Run]:
        """Begin a run of a new task. `run` holds what was observed since."""
        began = self.now - timedelta(minutes=7, seconds=30)
        claim, begun = self._records.begin(self.task(name, **(task or {})), started_at=began)
        heard = {"first_event_at": began, "last_event_at": self.now, **run}
        self.store.runs.fold(claim, begun.replace(**heard))
        return claim, begun.replace(**heard)

    def end(self, name: str, verdict: Verdict, task: dict[str, Any] | None = None, **run: Any) -> str:
        """Begin a run of a new task and end it with this verdict. Return the task's id."""
        claim, begun = self.begin(name, task, **run)
        midnight = self.now.replace(hour=0, minute=0, second=0, microsecond=0)  # its totals count as today's
        ended_at = max(midnight, self.now - timedelta(minutes=3, seconds=30))
        self.store.runs.end(begun.replace(ended_at=ended_at, ending="finished", finding=verdict.finding))
        self.store.claims.settle(claim, verdict)
        return begun.task_id

    def verified(self, name: str, **task: Any) -> str:
        """Close a task whose work was verified and whose worktree still exists."""
        took = {"diff_files": 2, "diff_added": 38, "diff_removed": 4, "cost_usd": 0.224, "cost_basis": "reported"}
        key = self.end(name, closed("verified"), task, input_tokens=90_000, **took)
        self.worktree(key, name)
        return key

    def worktree(self, key: str, branch: str) -> None:
        """Give a task a worktree."""
        self.store.workspaces.lease(a_workspace(key, branch=branch, base_commit=TIP, ready_at=self.now))

    def ask(self, key: str, text: str, source: str = "file", **said: Any) -> None:
        """Record a question of a task."""
        asked_at = self.now - timedelta(minutes=4, seconds=30)
        self.store.questions.ask(
            Question(id=f"q-{key}", task_id=key, asked_at=asked_at, text=text, source=source, **said)
        )

    def collide(self, one: str, other: str) -> None:
        """Record that two branches collide."""
        found = Collision(
            common="/r/.git",
            task_id=one,
            other_id=other,
            tip=TIP,
            other_tip=OTHER_TIP,
            files=("src/app.py", "src/b.py"),
            seen_at=self.now,
        )
        self.store.collisions.keep("/r/.git", [found])

    def park(self, reason: str, account: str = "") -> None:
        """Park an account of the demo coder."""
        self.store.accounts.park("demo", account, until=self.now + timedelta(hours=2), reason=reason)


def closed(finding: str = "") -> Verdict:
    """Return the verdict on work that closes its task."""
    return Verdict(status=Status.CLOSED, finding=finding, reason="done")


def blocked(reason: str, finding: str = "") -> Verdict:
    """Return the verdict that gives a task to a person."""
    return Verdict(status=Status.BLOCKED, finding=finding, reason=reason)


#: The situations by name: a function that makes each, and the kind and name of all items that need a person.
SITUATIONS: dict[str, tuple[Situation, list[tuple[str, str]]]] = {}


def situation(*needs: tuple[str, str], served: bool = True) -> Callable[[Situation], Situation]:
    """Register a situation. A supervisor runs in it unless `served` is False."""

    def register(make: Situation) -> Situation:
        def whole(scene: Scene) -> None:
            if served:
                scene.serve()
            make(scene)

        SITUATIONS[make.__name__] = whole, list(needs)
        return make

    return register


@situation(served=False)
def nothing_at_all(_scene: Scene) -> None: ...


@situation()
def ready_work(scene: Scene) -> None:
    scene.task("a")
    scene.task("later", defer_until=scene.now + timedelta(hours=1))
    scene.task("pinned", status=Status.PINNED)
    scene.store.claims.take(scene.task("mine"), "ada")


@situation()
def paused_by_a_person(scene: Scene) -> None:
    scene.task("a")
    scene.store.config.set(PAUSED, scene.now.isoformat())


@situation(("supervisor", "supervisor"), served=False)
def ready_work_that_nobody_starts(scene: Scene) -> None:
    scene.task("a")


@situation(("supervisor", "supervisor"), served=False)
def an_agent_whose_processes_are_gone(scene: Scene) -> None:
    scene.begin("a")


@situation(served=False)
def all_is_done_and_no_supervisor_runs(scene: Scene) -> None:
    scene.end("a", closed("unverified"))


@situation(("supervisor", "supervisor"), served=False)
def a_supervisor_for_created_work_alone(scene: Scene) -> None:
    scene.serve(only_made=True)
    scene.task("a")


@situation(served=False)
def a_supervisor_for_created_work_with_such_work(scene: Scene) -> None:
    scene.serve(only_made=True)
    scene.task("a", origin="create")


@situation(("stray", "fleet-lost"), served=False)
def an_agent_that_is_not_on_record(scene: Scene) -> None:
    folder = scene.home.run("fleet-lost", 1)
    os.makedirs(folder)  # noqa: PTH103 - paths of the home are strings
    lock = os.open(f"{folder}/lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)
    scene._stack.callback(os.close, lock)


@situation()
def agents_at_work(scene: Scene) -> None:
    scene.begin("works")
    scene.begin("silent", last_event_at=scene.now - timedelta(minutes=5), cpu_pct=0.0)
    scene.begin("types", {"mode": "interactive"}, screen="busy")
    scene.begin("idle", {"mode": "interactive"}, screen="ready", sampled_at=scene.now, result_at=scene.now)


@situation(("question", "a"))
def a_question_in_the_file(scene: Scene) -> None:
    scene.ask(scene.end("a", blocked("the agent asked a question")), "red or blue?")


@situation(("question", "a"))
def a_question_by_a_tool(scene: Scene) -> None:
    scene.ask(scene.begin("a")[1].task_id, "red or blue?", BY_TOOL)


@situation()
def questions_that_hold_nothing_up(scene: Scene) -> None:
    scene.ask(scene.begin("works")[1].task_id, "an old one, and the agent works again")
    scene.ask(scene.end("over", closed("unverified")), "by a tool, and the task is over", BY_TOOL)
    scene.ask(scene.end("killed", blocked(BY_HAND)), "by an agent that was stopped")
    scene.ask(scene.end("told", Verdict(status=Status.OPEN)), "answered", answer="red", answered_at=scene.now)


@situation(("dialog", "a"))
def a_dialog_at_a_terminal(scene: Scene) -> None:
    scene.begin("a", {"mode": "interactive"}, screen="question", session_name="ai_a")


@situation(("blocked", "a"))
def a_task_that_failed_too_often(scene: Scene) -> None:
    scene.end("a", blocked("failed 3 times; last: the agent ended with exit code 1", "incomplete"))


@situation(("untrusted", "a"))
def a_project_that_nobody_trusted(scene: Scene) -> None:
    scene.task("a", status=Status.BLOCKED, reason="the project file of /r has commands that you have not trusted: make")


@situation()
def work_that_was_stopped(scene: Scene) -> None:
    scene.end("killed", blocked(BY_HAND, "incomplete"))
    scene.task("before", status=Status.BLOCKED, reason=f"{BY_HAND}: no use")
    scene.task("stage", status=Status.BLOCKED, reason="not begun, since stage impl failed")
    scene.task("aside", status=Status.BLOCKED)  # by a person's own decision


@situation(*(("failed", finding) for finding in sorted(SAID)))
def work_that_did_not_hold(scene: Scene) -> None:
    for finding, reason in SAID.items():
        scene.end(finding, blocked(reason, finding))


@situation()
def work_that_is_closed_as_it_is(scene: Scene) -> None:
    for finding in ("unverified", "no_changes", "failed_verify"):
        scene.worktree(scene.end(finding, closed(finding)), finding)
    told = {MERGED: {"at": scene.now.isoformat(timespec="seconds"), "tip": TIP, "commit": OTHER_TIP}}
    scene.change(scene.verified("merged"), metadata=told)
    removed(scene.store, scene.verified("removed"))
    scene.verified("stage", workflow="wf-1", stage="impl")
    scene.verified("judge", origin="pick")


@situation(("merge", "a"), ("merge", "b"))
def verified_work(scene: Scene) -> None:
    scene.verified("a")
    scene.verified("b")


@situation(("pick", "x"))
def candidates_that_ended(scene: Scene) -> None:
    fanned = {"batch": "x", "origin": FANOUT}
    keys = [scene.verified(name, **fanned) for name in ("x-A1", "x-A2")]
    scene.end("x-A3", closed("unverified"), fanned)
    scene.collide(*keys)


@situation()
def candidates_of_which_one_is_at_work(scene: Scene) -> None:
    fanned = {"batch": "x", "origin": FANOUT}
    scene.verified("x-A1", **fanned)
    scene.task("x-A2", **fanned)


@situation(("conflict", "b"))
def branches_that_collide(scene: Scene) -> None:
    keys = [scene.begin(name)[1].task_id for name in ("a", "b")]
    for key, name in zip(keys, "ab", strict=True):
        scene.worktree(key, name)
    scene.collide(*keys)


@situation()
def branches_that_collided(scene: Scene) -> None:
    keys = [scene.end("a", closed("unverified")), scene.end("b", blocked(BY_HAND))]
    for key, name in zip(keys, "ab", strict=True):
        scene.worktree(key, name)
    scene.collide(*keys)


@situation(("parked", "demo"))
def a_parked_account_that_tasks_wait_for(scene: Scene) -> None:
    scene.task("a")
    scene.park("plan limit: resets at 16:05")
    scene.store.accounts.note_strikes("demo", "", strikes=99)


@situation(("login", "demo"))
def an_account_without_a_login(scene: Scene) -> None:
    scene.task("a")
    scene.park("auth limit: not logged in")


@situation(("login", "claude"), served=False)
def a_coder_that_nobody_logged_in_to(scene: Scene) -> None:
    scene.serve(no_login=[["claude", "", "nobody is logged in: none of KEY exists"], ["codex", "", "nobody is"]])
    scene.task("a", coder="claude")


@situation()
def accounts_that_nobody_waits_for(scene: Scene) -> None:
    scene.task("a", coder="claude")
    scene.park("auth limit: not logged in")
    scene.store.accounts.park("claude", "", until=scene.now - timedelta(minutes=1), reason="plan limit: over")


@situation()
def an_account_that_is_slowed_down(scene: Scene) -> None:
    scene.task("a")
    scene.park("rate limit: 429")
    scene.store.accounts.note_strikes("demo", "", strikes=1)
