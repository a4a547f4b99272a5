"""A home that is at another path than before, or whose host has another id: what is on record of it follows. Pure."""

from __future__ import annotations

from fleet.core.jsontext import encode
from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.core.run import Run
    from fleet.core.task import Task
    from fleet.core.workspace import Workspace


class Relocation(Record):
    """From where to where a home was moved, and which id its host has now."""

    before: tuple[str, ...]  # as it was named, and with every link resolved
    after: str
    owner_before: str
    owner: str

    def path(self, path: str) -> str:
        """Return where something of the home is now. A path outside of the home stays as it is."""
        for before in self.before:
            if path == before or path.startswith(f"{before}/"):
                return self.after + path[len(before) :]
        return path

    def workspace(self, space: Workspace) -> Workspace:
        """Return a workspace as it is now. One on another host stays as it is."""
        if not space.lies_on(self.owner_before):
            return space
        notes = dict(space.made)
        notes |= {"admin": self.path(notes["admin"])} if notes.get("admin") else {}
        notes |= {"host": self.owner} if space.host else {}
        return space.replace(
            path=self.path(space.path),
            repo=self.path(space.repo),
            common=self.path(space.common),
            notes=space.notes if notes == space.made else encode(notes),
        )

    def run(self, run: Run) -> Run:
        """Return a run of this home as it is now. Its directory stays: coders know their sessions by it."""
        return run.replace(owner=self.owner, home=self.path(run.home))

    def task(self, task: Task) -> Task:
        """Return a task with its claim and its directory as they are now."""
        held = task.claim_owner == self.owner_before
        owner = self.owner if held else task.claim_owner
        assignee = self.owner if held and task.assignee == self.owner_before else task.assignee
        return task.replace(claim_owner=owner, assignee=assignee, cwd=self.path(task.cwd))
