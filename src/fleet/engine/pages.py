"""The Q&A.md files of blocked tasks, watched for answers that people write into them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.filter import Filter
from fleet.core.task import Status
from fleet.engine.answers import take_answers
from fleet.engine.folder import TaskFolder

if TYPE_CHECKING:
    from fleet.engine.office import Office

Stamp = tuple[int, int, int]


class Pages:
    """Remembers how each file was at the last look, and whether it was read since it changed."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self._seen: dict[str, tuple[Stamp, bool]] = {}

    def take_answers(self) -> None:
        """Take the answers from every file that changed, and stayed as it is since the last look: nobody types now."""
        office, seen = self._office, self._seen
        self._seen = {}
        asking = tuple({each.task_id for each in office.store.questions.find(unanswered=True)})
        if not asking:
            return
        for task in office.store.tasks.find(Filter(statuses=(Status.BLOCKED,), ids=asking), sort="id"):
            folder = TaskFolder(office.home, task.id, redactor=office.redactor, now=office.now)
            stamp = None if task.is_supervised else folder.questions_stamp()
            if stamp is None:
                continue
            before, was_read = seen.get(task.id, (None, False))
            if stamp == before and not was_read:
                take_answers(office.store, folder)
            self._seen[task.id] = (stamp, stamp == before)
