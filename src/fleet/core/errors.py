"""What can go wrong for a caller. Each error states a fact; its hint says what to do next."""

#: What a user should hear about when a command is done, by the file it is about. A later look at the file replaces it.
WARNINGS: dict[str, str] = {}


class FleetError(Exception):
    """The root: a face prints the message and the hint, and exits with `exit_code`."""

    hint = ""
    exit_code = 1

    def __init__(self, message: str = "", *, hint: str = "") -> None:
        super().__init__(message)
        if hint:
            self.hint = hint


class Usage(FleetError):
    """The command line itself is wrong."""

    exit_code = 2


class BadInput(FleetError):
    """A value was refused before anything was written."""


class TaskNotFound(FleetError):
    """No task has that id."""

    hint = "`fleet bd list --all` lists the tasks in the queue."

    def __init__(self, task_id: str) -> None:
        super().__init__(f"no task {task_id!r}")
        self.task_id = task_id
        if task_id.startswith("wf_"):
            self.hint = f"that looks like a workflow: `fleet workflow status {task_id}` names the tasks of its stages."


class AmbiguousId(FleetError):
    """Several tasks fit a shortened id."""

    def __init__(self, part: str, candidates: list[str]) -> None:
        super().__init__(f"ambiguous id {part!r} fits {', '.join(candidates[:5])}{' …' if len(candidates) > 5 else ''}")
        self.candidates = candidates


class TaskExists(FleetError):
    """An id that was asked for is taken."""


class DependencyRefused(FleetError):
    """A dependency that would be a cycle, a loop onto itself, or a second edge between two tasks."""


class CycleRefused(DependencyRefused):
    """A dependency that would close a circle, so that nothing in it could ever start."""


class AlreadyClaimed(FleetError):
    """Somebody else holds the task."""


class NotClaimable(FleetError):
    """The task is in a status from which it cannot be claimed."""


class ClaimLost(FleetError):
    """The epoch is no longer ours: somebody claimed, reaped or reopened the task since."""

    def __init__(self, task_id: str, epoch: int) -> None:
        super().__init__(f"the claim on {task_id} with epoch {epoch} is no longer held")


class QuestionNotFound(FleetError):
    """No question has that id."""

    hint = "`fleet questions` lists what agents ask."

    def __init__(self, question_id: str) -> None:
        super().__init__(f"no question {question_id!r}")


class WorkflowNotFound(FleetError):
    """No workflow has that id."""

    hint = "`fleet workflow list` shows those there are."

    def __init__(self, workflow_id: str) -> None:
        super().__init__(f"no workflow {workflow_id!r}")


class AlreadyAnswered(FleetError):
    """Somebody answered first."""


class SupervisorRunning(FleetError):
    """Another supervisor has this home."""


class HostTaken(FleetError):
    """Another machine is at work as the host that this one would be."""


class IllegalMove(FleetError):
    """A move the state machine does not allow."""


class BranchTaken(IllegalMove):
    """Another task works on that branch, or in that place."""

    def __init__(self, branch: str, task_id: str, *, path: str = "", hint: str = "") -> None:
        fact = f"{path} is the worktree of {task_id}" if path else f"branch {branch!r} belongs to {task_id}"
        usual = f"`fleet attach {task_id}` goes to its agent; for another agent choose another branch."
        super().__init__(fact, hint=hint or usual)
        self.branch = branch
        self.task_id = task_id


class BranchInUse(FleetError):
    """A branch is checked out somewhere, or is there already where a new one was wanted."""


class RepositoryBusy(FleetError):
    """Another git holds a lock of the repository."""


class WorkspaceNotFound(FleetError):
    """The task has no worktree, or it is gone."""

    hint = "`fleet list --all` shows every agent and where it works."

    def __init__(self, task_id: str) -> None:
        super().__init__(f"{task_id} has no worktree")
        self.task_id = task_id


class HomeMissing(FleetError):
    """There is no home yet, and a command that only reads will not make one."""

    hint = "`fleet init` makes it; so does the first `fleet bd create`."


class HomeRefused(FleetError):
    """The home cannot be trusted with work: others can write to it, or its file system cannot lock."""


class HomeReplaced(FleetError):
    """The path of a home leads to another folder than before, or to none."""

    hint = "put the home back or set FLEET_HOME to where it is, then `fleet run start`."


class StoreFault(FleetError):
    """The database could not do its work: full, locked for too long, damaged."""


class StoreHindered(StoreFault):
    """The database cannot be written now: its disk is full, read-only or failing, or others hold it."""


class DatabaseReplaced(StoreFault):
    """The path of a database leads to another file than the one that is open, or to none."""

    hint = "if that was not meant, put the right file back; `fleet restore FILE` restores a backup."

    def __init__(self, path: str, how: str) -> None:
        super().__init__(f"the database was {how} while it was open: {path}")


class DatabaseRefused(StoreFault):
    """A database that would be used beside the one that the home's runs or its supervisor know."""


class ForeignDatabase(StoreFault):
    """A database that another program made."""

    def __init__(self, path: str, *, owner: str) -> None:
        hint = "set FLEET_HOME to a folder of fleet's own, such as ~/.fleet; nothing was changed."
        super().__init__(f"{path} is a database of {owner}, not of fleet", hint=hint)


class StoreAway(StoreFault):
    """The database cannot be reached now: the connection is lost, its server starts, or it took too long."""


class QueueMoved(StoreFault):
    """Everything in this queue was moved to another: it can be read, and takes nothing more."""

    hint = (
        "call fleet again; if it stays so, `fleet init --home --queue …` names another queue for this home "
        "(unset FLEET_QUEUE where that names this one)."
    )

    def __init__(self) -> None:
        super().__init__("this queue was moved elsewhere, and takes nothing more")


class SchemaMismatch(FleetError):
    """The database was written by an older or newer fleet."""
