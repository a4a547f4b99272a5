"""The Q&A.md files of blocked tasks, watched for answers that people write into them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.filter import Filter
from fleet.core.task import Status
from fleet.engine.answers import take_answers
from fleet.engine.folder import TaskFolder

if TYPE_CHECKING:
    from fleet.engine.context import Context

Stamp = tuple[int, int, int]


class Pages:
    """Remembers how each file was at the last look, and whether it was read since it changed."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._seen: dict[str, tuple[Stamp, bool]] = {}

    def take_answers(self) -> None:
        """Take the answers from every file that changed, and stayed as it is since the last look: nobody types now."""
        context, seen = self._context, self._seen
        store = context.store
        self._seen = {}
        asking = tuple({each.task_id for each in store.questions.find(unanswered=True)})
        if not asking:
            return
        for task in store.tasks.find(Filter(statuses=(Status.BLOCKED,), ids=asking), sort="id"):
            folder = TaskFolder(context.home, task.id, redactor=context.redactor, now=context.now)
            stamp = None if task.is_supervised else folder.questions_stamp()
            if stamp is None:
                continue
            before, was_read = seen.get(task.id, (None, False))
            if stamp == before and not was_read:
                take_answers(store.ports, folder)
            self._seen[task.id] = (stamp, stamp == before)
