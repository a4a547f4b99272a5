"""Relocation of a home to another path or host id: pure updates of its records."""

from __future__ import annotations

from fleet.core.jsontext import encode
from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.core.run import Run
    from fleet.core.task import Task
    from fleet.core.workspace import Workspace


class Relocation(Record):
    """The old and new path of a home, and the old and new id of its host."""

    before: tuple[str, ...]  # as it was named, and with all links resolved
    after: str
    owner_before: str
    owner: str

    def path(self, path: str) -> str:
        """Return the new path of a file of the home. A path outside the home does not change."""
        for before in self.before:
            if path == before or path.startswith(f"{before}/"):
                return self.after + path[len(before) :]
        return path

    def workspace(self, space: Workspace) -> Workspace:
        """Return a workspace with its new paths and host. A workspace on another host does not change."""
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
        """Return a run with its new owner and home.

        Its directory does not change, because coders find their sessions by it.
        """
        return run.replace(owner=self.owner, home=self.path(run.home))

    def task(self, task: Task) -> Task:
        """Return a task with its new claim and directory."""
        held = task.claim_owner == self.owner_before
        owner = self.owner if held else task.claim_owner
        assignee = self.owner if held and task.assignee == self.owner_before else task.assignee
        return task.replace(claim_owner=owner, assignee=assignee, cwd=self.path(task.cwd))
