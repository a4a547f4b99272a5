"""The errors that callers can meet. Each states a fact, and its hint suggests what to do next."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Warnings to show when a command ends, by the file that each concerns. A later check of the file replaces its warning.
WARNINGS: dict[str, str] = {}


def closest(word: str, known: Iterable[str], *, most: int = 1) -> list[str]:
    """Return the known words of which `word` is probably a misspelling, the most similar first, for a hint."""
    from difflib import get_close_matches  # costs a regex engine

    return get_close_matches(word, list(known), n=most, cutoff=0.75)


class FleetError(Exception):
    """The root of all errors. The command line prints the message and the hint, and exits with `exit_code`."""

    hint = ""
    exit_code = 1

    def __init__(self, message: str = "", *, hint: str = "") -> None:
        super().__init__(message)
        if hint:
            self.hint = hint


class UsageError(FleetError):
    """The command line itself is invalid."""

    exit_code = 2


class BadInput(FleetError):
    """A value was refused before anything was written."""


class TaskNotFound(FleetError):
    """No task has that id."""

    hint = "run `fleet bd list --all` to list the tasks in the queue"

    def __init__(self, task_id: str) -> None:
        super().__init__(f"no task {task_id!r}")
        self.task_id = task_id
        if task_id.startswith("wf_"):
            self.hint = f"run `fleet workflow status {task_id}` to list the tasks of that workflow"


class AmbiguousId(FleetError):
    """Several tasks match a shortened id."""

    def __init__(self, part: str, candidates: list[str]) -> None:
        super().__init__(
            f"ambiguous id {part!r} matches {', '.join(candidates[:5])}{' …' if len(candidates) > 5 else ''}"
        )
        self.candidates = candidates


class TaskExists(FleetError):
    """The requested id is taken."""


class DependencyRefused(FleetError):
    """A dependency that would be a cycle, a self-dependency, or a second edge between two tasks."""


class CycleRefused(DependencyRefused):
    """A dependency that would close a cycle, in which no task could ever start."""


class AlreadyClaimed(FleetError):
    """Another owner holds the task."""


class NotClaimable(FleetError):
    """The task has a status from which it cannot be claimed."""


class ClaimLost(FleetError):
    """The epoch is no longer ours: the task was claimed, reaped or reopened since."""

    def __init__(self, task_id: str, epoch: int) -> None:
        super().__init__(f"the claim on {task_id} with epoch {epoch} is no longer held")


class QuestionNotFound(FleetError):
    """No question has that id."""

    hint = "run `fleet questions` to list open questions"

    def __init__(self, question_id: str) -> None:
        super().__init__(f"no question {question_id!r}")


class WorkflowNotFound(FleetError):
    """No workflow has that id."""

    hint = "run `fleet workflow list` to list the workflows"

    def __init__(self, workflow_id: str) -> None:
        super().__init__(f"no workflow {workflow_id!r}")


class AlreadyAnswered(FleetError):
    """The question was already answered."""


class SupervisorRunning(FleetError):
    """Another supervisor uses this home."""


class HostTaken(FleetError):
    """Another machine already works under the identity of this host."""


class IllegalMove(FleetError):
    """A move that the state machine does not allow."""


class BranchTaken(IllegalMove):
    """Another task works on that branch or in that path."""

    def __init__(self, branch: str, task_id: str, *, path: str = "", hint: str = "") -> None:
        fact = f"{path} is the worktree of {task_id}" if path else f"branch {branch!r} belongs to {task_id}"
        usual = f"run `fleet attach {task_id}` to go to its agent, or choose another branch for another agent"
        super().__init__(fact, hint=hint or usual)
        self.branch = branch
        self.task_id = task_id


class BranchInUse(FleetError):
    """A branch is checked out elsewhere, or already exists although a new one was requested."""


class RepositoryBusy(FleetError):
    """Another git process holds a lock of the repository."""


class WorkspaceNotFound(FleetError):
    """The task has no worktree, or its worktree is gone."""

    hint = "run `fleet list --all` to show all agents and their worktrees"

    def __init__(self, task_id: str) -> None:
        super().__init__(f"{task_id} has no worktree")
        self.task_id = task_id


class HomeMissing(FleetError):
    """No home exists, and a command that only reads does not create one."""

    hint = "run `fleet init` to create it"


class HomeRefused(FleetError):
    """The home is not safe: others can write to it, or its file system cannot lock."""


class HomeReplaced(FleetError):
    """The path of a home leads to a different folder than before, or to none."""

    hint = "put the home back or set FLEET_HOME to its new path, then run `fleet run start`"


class StoreFault(FleetError):
    """The database failed: it is full, locked for too long, or damaged."""


class StoreHindered(StoreFault):
    """The database cannot be written now: its disk is full, read-only or failing, or others hold it."""


class DatabaseReplaced(StoreFault):
    """The path of a database leads to a different file than the open one, or to none."""

    hint = "put the right file back, or run `fleet restore FILE` to restore a backup"

    def __init__(self, path: str, how: str) -> None:
        super().__init__(f"the database was {how} while it was open: {path}")


class DatabaseRefused(StoreFault):
    """A database that would be used in addition to the one that the home's runs or its supervisor know."""


class ForeignDatabase(StoreFault):
    """A database that another program created."""

    def __init__(self, path: str, *, owner: str) -> None:
        hint = "set FLEET_HOME to a separate folder, such as ~/.fleet; nothing was changed"
        super().__init__(f"{path} is a database of {owner}, not of fleet", hint=hint)


class StoreAway(StoreFault):
    """The database is unreachable now: the connection is lost, its server is starting, or it took too long."""


class QueueMoved(StoreFault):
    """The contents of this queue were moved to another one. It can be read but not written."""

    hint = (
        "try again; if the error stays, run `fleet init --home --queue …` to choose another queue "
        "and unset FLEET_QUEUE if it names the old queue"
    )

    def __init__(self) -> None:
        super().__init__("this queue was moved elsewhere and is sealed")


class SchemaMismatch(FleetError):
    """An older or newer fleet wrote the database."""
