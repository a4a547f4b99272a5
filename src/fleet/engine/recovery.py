"""After a restart: agents that live are adopted, those that ended are settled, those that vanished go back."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import TYPE_CHECKING

from fleet.core.errors import ClaimLost, FleetError, TaskNotFound
from fleet.core.filter import Filter
from fleet.engine.folder import TaskFolder
from fleet.engine.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from fleet.core.run import Run
    from fleet.core.task import Claim, Task
    from fleet.engine.office import Office

log = logging.getLogger(__name__)


class Recovery:
    """What an earlier supervisor of this owner left behind."""

    def __init__(self, office: Office) -> None:
        self._office = office

    async def runs(self) -> list[tuple[Runner, Coroutine[Any, Any, None]]]:
        """Every run to go on with, each with the work to do; tasks claimed but never started are given back."""
        office = self._office
        live = await office.ask(office.history.live, office.owner)
        found = []
        for run in live:
            claim = await office.ask(self._claim_again, run)
            if claim is None:
                continue
            runner = Runner(office, claim)
            try:
                agent = await office.launcher.find(TaskFolder(office.home, run.task_id).run_folder(run.number))
            except (FleetError, OSError) as error:  # one shim that does not answer must not keep the others waiting
                log.warning("%s lives but cannot be reached; its claim is left to expire: %s", run.id, error)
                continue
            log.info("%s %s", "adopted" if agent else "found ended:", run.id)
            found.append((runner, runner.adopt(run.replace(epoch=claim.epoch), agent)))
        await office.ask(self._give_back_unstarted, {run.task_id for run in live})
        return found

    def reap(self) -> list[Task]:
        """Give back expired claims, but not of agents that still live here."""
        return self._office.queue.reap(spare=self._alive())

    def _alive(self) -> list[str]:
        office = self._office
        return [
            run.task_id
            for run in office.history.live()
            if office.launcher.is_alive(TaskFolder(office.home, run.task_id).run_folder(run.number))
        ]

    def _claim_again(self, run: Run) -> Claim | None:
        office = self._office
        ttl = timedelta(seconds=office.settings.supervisor.claim_seconds)
        try:
            task = office.queue.get(run.task_id)
            if task.run_id != run.id:  # claimed again since, and not yet begun: that claim is not this run's
                raise ClaimLost(run.task_id, run.epoch)
            return office.queue.adopt(run.task_id, office.owner, epoch=task.epoch, ttl=ttl)
        except (ClaimLost, TaskNotFound):
            office.history.end(run.replace(ended_at=office.now(), ending="lost", reason="its claim was lost"))
            return None

    def _give_back_unstarted(self, known: set[str]) -> None:
        office = self._office
        for task in office.queue.find(Filter(statuses=("in_progress",), assignee=office.owner), sort="id"):
            if task.claim_owner == office.owner and task.id not in known and task.is_supervised:
                with office.queue.atomic():
                    office.queue.save(office.queue.get(task.id).freed(office.now()))
                log.info("gave back %s: it was claimed but never started", task.id)
