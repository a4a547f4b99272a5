"""A merge into one branch: select tasks, stack their changes, verify, move the branch, record."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fleet.actions.merge.choice import MergeItem, allowed, look, merged_of
from fleet.actions.merge.conflicts import hand_over, message, title_of, trailers_of
from fleet.actions.merge.proof import Prover
from fleet.actions.merge.records import finish_all, queue_key, record
from fleet.core.errors import FleetError
from fleet.core.ids import new_uuid
from fleet.core.record import Record
from fleet.core.task import ALREADY_MERGED
from fleet.git.commits import FLEET, commits_between, identity, is_ancestor
from fleet.git.merge.branch_move import BranchMove, TargetMoved, move, waiting_at
from fleet.git.merge.stack import pile_up, without_bad
from fleet.git.merge.trial import MERGE, BranchToMerge, Trials
from fleet.git.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence
    from typing import Any

    from fleet.assembly import Fleet
    from fleet.core.task import Task
    from fleet.git.merge.branch_move import MoveResult
    from fleet.git.merge.stack import MergeStack, Proof
    from fleet.git.repository import Repository
    from fleet.settings import Settings


WAIT_SECONDS = 600.0


class MergeOptions(Record):
    """The options of a merge. Missing values come from the settings."""

    into: str = ""
    strategy: str = ""
    conflicts: str = ""
    verify: str = ""  # replaces the verify commands of the tasks and the project
    dry_run: bool = False
    unverified: bool = False  # merges unproven work too, if its task is named exactly
    verify_first: bool = False  # merges such work if the verification of the merge proves it
    wait: float = WAIT_SECONDS


class LandedWork(Record):
    """A task whose work is in the target or waits to be taken."""

    task: str
    branch: str
    title: str
    commit: str
    tip: str


class LeftOutTask(Record):
    """A task whose work was not merged."""

    task: str
    branch: str
    why: str
    files: tuple[str, ...] = ()  # files in conflict
    tail: str = ""  # the end of the verify command's output

    @property
    def is_merged_already(self) -> bool:
        return self.why.startswith(ALREADY_MERGED)


class MergeResult(Record):
    """The result of a merge."""

    repo: str
    target: str
    before: str  # the target's previous commit
    commit: str  # the commit with all merged work; equal to `before` if nothing was merged
    moved: bool = False
    waiting: str = ""  # the ref of a result that waits to be taken
    why_not: str = ""  # why it waits
    merged: tuple[LandedWork, ...] = ()
    left_out: tuple[LeftOutTask, ...] = ()
    handed: bool = False  # True if agents were asked to resolve conflicts
    verifies: int = 0
    notes: tuple[str, ...] = ()
    dry_run: bool = False

    @property
    def command(self) -> str:
        """Return the command that takes the waiting result."""
        return f"git merge --ff-only {self.waiting}" if self.waiting else ""

    @property
    def is_whole(self) -> bool:
        return all(each.is_merged_already for each in self.left_out)

    def view(self) -> dict[str, Any]:
        told = self.as_dict() | {"command": self.command or None, "waiting": self.waiting or None}
        told |= {"merged": [each.as_dict() for each in self.merged], "why_not": self.why_not or None}
        left = [each.as_dict() | {"files": list(each.files)} for each in self.left_out]
        return told | {"left_out": left, "notes": list(self.notes)}


#: Number of attempts if the target moves during the merge.
ATTEMPTS = 3


class MergeRequest(NamedTuple):
    """The user who asks for a merge, and the callback for progress."""

    by: str
    tell: Callable[[str], None]


class Onto(NamedTuple):
    """The target's commit, and the commit to merge onto, which includes work that waits to be taken."""

    old: str
    commit: str


class Job:
    """A merge into one branch, which holds that branch's merge lock."""

    def __init__(
        self,
        fleet: Fleet,
        repository: Repository,
        target: str,
        terms: MergeOptions,
        settings: Settings,
        asked: MergeRequest,
    ) -> None:
        self._fleet, self._target, self._terms, self._settings = fleet, target, terms, settings
        self._by, self._tell = asked.by, asked.tell
        self._view = View(fleet.home, repository)
        self._strategy = terms.strategy or settings.merge.strategy
        self._trials = Trials(self._view, self._strategy, FLEET if terms.dry_run else identity(repository))
        folder = fleet.home.verification(f"merge-{queue_key(repository, target)}")
        self._prover = Prover(fleet, self._view, settings, folder, asked.tell)
        self._prover.command = terms.verify
        self._items: dict[str, MergeItem] = {}
        self._notes: list[str] = []

    def tried(self, tasks: Sequence[Task], exact: Collection[str]) -> MergeResult:
        """Return the result of a dry run. The dry run verifies nothing and writes no ref."""
        onto = self._onto()
        fitting, left = self._sorted(tasks, exact, onto)
        pile = pile_up(self._trials, onto.commit, [self._change(item, onto) for item in fitting])
        return self._told(onto, pile.top, pile, left)

    def done(self, tasks: Sequence[Task], exact: Collection[str]) -> MergeResult:
        for line in finish_all(self._fleet, self._view, self._target):
            self._tell(line)
            self._notes.append(line)
        self._prover.check()
        onto = self._onto()
        fitting, left = self._sorted(tasks, exact, onto)
        told = self._told(onto, onto.commit, None, left)
        size = self._settings.merge.at_once
        try:
            for first in range(0, len(fitting), size):
                told = self._landed(told, fitting[first : first + size])
        finally:
            self._prover.close()
        told = self._handed_over(told)
        return told.replace(verifies=self._prover.count, notes=tuple(dict.fromkeys(self._notes)))

    def _landed(self, told: MergeResult, items: list[MergeItem]) -> MergeResult:
        """Merge these items, verified together, and return the extended result. Raises TargetMoved."""
        for _ in range(ATTEMPTS):
            self._tell(f"merging {len(items)} {'branch' if len(items) == 1 else 'branches'} into {self._target}")
            onto = self._onto()
            pile = self._proven(onto, items)
            if not pile.layers:
                return self._more(told, pile, None)
            try:
                moved = move(self._fleet.home, self._view, self._entry(onto, pile), in_use=self._in_use())
            except TargetMoved:
                self._tell(f"{self._target} moved in the meantime: starting again")
                continue
            record(self._fleet, moved.entry)
            return self._more(told, pile, moved)
        raise TargetMoved(f"{self._target} keeps moving")

    def _proven(self, onto: Onto, items: list[MergeItem]) -> MergeStack:
        changes = [self._change(item, onto) for item in items]
        tasks = {item.task.id: item.task for item in items}
        self._prover.base, self._prover.strict = onto.commit, not self._terms.unverified
        if not self._prover.wanted(tasks):
            self._notes.append("there is no verify command: what was merged is not verified")
            return pile_up(self._trials, onto.commit, changes)

        def prove(commit: str, inside: tuple[BranchToMerge, ...]) -> Proof:
            return self._prover.prove(commit, inside, tasks)

        return without_bad(self._trials, onto.commit, changes, prove)

    def _sorted(
        self, tasks: Sequence[Task], exact: Collection[str], onto: Onto
    ) -> tuple[list[MergeItem], list[LeftOutTask]]:
        items = allowed(
            look(self._fleet, self._view, tasks, onto.commit),
            exact,
            unverified=self._terms.unverified or self._terms.verify_first,
        )
        items = [item.replace(why_not=self._own(item) or item.why_not) for item in items]
        self._items = {item.task.id: item for item in items}
        left = [
            LeftOutTask(task=each.task.id, branch=each.task.branch, why=each.why_not) for each in items if each.why_not
        ]
        return [item for item in items if not item.why_not], left

    def _own(self, item: MergeItem) -> str:
        return "its branch is the target itself" if item.task.branch == self._target else ""

    def _change(self, item: MergeItem, onto: Onto) -> BranchToMerge:
        assert item.tip is not None
        commits = commits_between(self._view, onto.commit, item.tip)
        makers = [commit.author for commit in commits if commit.author.email != FLEET.email]
        fallback = commits[-1].author if commits else FLEET
        subjects = [commit.subject for commit in commits if len(commit.parents) < 2]
        told, merged = merged_of(item.task), ""
        if told.get("commit") and is_known_in(self._view, told["commit"], onto.commit):
            merged = self._view.commit_of(told.get("tip", "")) or ""
        return BranchToMerge(
            name=item.task.id,
            tip=item.tip,
            message=message(item.task, item.receipt, subjects, merges=self._strategy == MERGE),
            trailers=trailers_of(item.task, item.receipt),
            author=makers[-1] if makers else fallback,
            merged=merged,
        )

    def _onto(self) -> Onto:
        old = tip_of(self._view, self._target)
        waits = self._view.commit_of(waiting_at(self._target))
        if waits is None or is_ancestor(self._view, waits, old):
            return Onto(old, old)
        if is_ancestor(self._view, old, waits):
            return Onto(old, waits)
        self._notes.append(
            f"{self._target} went on without what waited at {waiting_at(self._target)} ({waits[:10]}): merge that again"
        )
        return Onto(old, old)

    def _entry(self, onto: Onto, pile: MergeStack) -> BranchMove:
        repository = self._view.repository
        landing = tuple(
            {
                "task": layer.change.name,
                "commit": layer.commit,
                "tip": layer.change.tip,
                "strategy": self._strategy,
                "by": self._by,
            }
            for layer in pile.layers
        )
        return BranchMove(
            token=new_uuid(),
            common=repository.common,
            top=repository.top,
            branch=self._target,
            old=onto.old,
            new=pile.top,
            landing=landing,
        )

    def _in_use(self) -> set[str]:
        live = {run.task_id for run in self._fleet.store.runs.live()}
        spaces = self._fleet.store.workspaces.find(common=self._view.repository.common)
        return {space.path for space in spaces if space.task_id in live}

    def _told(self, onto: Onto, commit: str, pile: MergeStack | None, left: list[LeftOutTask]) -> MergeResult:
        told = MergeResult(
            repo=self._view.repository.top,
            target=self._target,
            before=onto.old,
            commit=commit,
            left_out=tuple(left),
            dry_run=self._terms.dry_run,
            notes=tuple(dict.fromkeys(self._notes)),
        )
        return self._more(told, pile, None) if pile else told

    def _more(self, told: MergeResult, pile: MergeStack, moved: MoveResult | None) -> MergeResult:
        landed = tuple(self._as_landed(layer.change, layer.commit) for layer in pile.layers)
        left = tuple(
            LeftOutTask(
                task=each.change.name,
                branch=self._items[each.change.name].task.branch,
                why=each.why,
                files=each.files,
                tail=each.tail,
            )
            for each in pile.refused
        )
        told = told.replace(merged=(*told.merged, *landed), left_out=(*told.left_out, *left))
        if moved is None:
            return told
        waiting = "" if not moved.why_not else moved.ref
        return told.replace(commit=pile.top, moved=not waiting, waiting=waiting, why_not=moved.why_not)

    def _as_landed(self, change: BranchToMerge, commit: str) -> LandedWork:
        task = self._items[change.name].task
        return LandedWork(task=task.id, branch=task.branch, title=title_of(task), commit=commit, tip=change.tip)

    def _handed_over(self, told: MergeResult) -> MergeResult:
        """Hand each conflicting branch to an agent, if the options ask for it. Return the extended result."""
        wish = self._terms.conflicts or self._settings.merge.conflicts
        if wish != "agent" or not any(each.files for each in told.left_out):
            return told
        target, left = told.waiting or self._target, []
        for each in told.left_out:
            if each.files:
                item = self._items[each.task]
                done = hand_over(self._fleet, self._view, item, each.files, target=target, by=self._by)
                each = each.replace(why=f"{each.why}; {done}")
            left.append(each)
        return told.replace(left_out=tuple(left), handed=True)


def is_known_in(view: View, commit: str, onto: str) -> bool:
    """Return True if a commit exists and is in the history of another commit."""
    found = view.commit_of(commit)
    return found is not None and is_ancestor(view, found, onto)


def tip_of(view: View, target: str) -> str:
    """Return the commit of the target. Raises FleetError."""
    found = view.commit_of(f"refs/heads/{target}")
    if found is None:
        raise FleetError(
            f"cannot merge into {target!r}: no such branch", hint="pass --into BRANCH to choose another target"
        )
    return found
