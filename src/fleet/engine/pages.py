"""The Q&A.md files of blocked tasks, watched for answers that users write into them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.filter import Filter
from fleet.core.task import Status
from fleet.engine.answers import take_answers
from fleet.engine.folder import TaskFolder

if TYPE_CHECKING:
    from fleet.core.redaction import Redactor
    from fleet.home import Home
    from fleet.store.base import Store

Stamp = tuple[int, int, int]


class Pages:
    """The state of each file at the last call, and whether it was read since it changed."""

    def __init__(self, store: Store, home: Home, redactor: Redactor) -> None:
        self._store, self._home, self._redactor = store, home, redactor
        self._seen: dict[str, tuple[Stamp, bool]] = {}

    def take_answers(self) -> None:
        """Take the answers from every file that changed before the last call.

        A later change means that a user may still be typing.
        """
        store, seen = self._store, self._seen
        self._seen = {}
        asking = tuple({each.task_id for each in store.questions.find(unanswered=True)})
        if not asking:
            return
        for task in store.tasks.find(Filter(statuses=(Status.BLOCKED,), ids=asking), sort="id"):
            folder = TaskFolder(self._home, task.id, redactor=self._redactor, now=store.now)
            stamp = None if task.is_supervised else folder.questions_stamp()
            if stamp is None:
                continue
            before, was_read = seen.get(task.id, (None, False))
            if stamp == before and not was_read:
                take_answers(store, folder)
            self._seen[task.id] = (stamp, stamp == before)
