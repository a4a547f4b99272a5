"""The end of a run whose claim is lost. Only the run's record ends, because another host may have the task."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from functools import partial
from typing import TYPE_CHECKING

from fleet.core.errors import ClaimLost, TaskNotFound
from fleet.core.finding import Finding
from fleet.core.run import Ending
from fleet.supervisor.store_calls import retry_until_stored
from fleet.supervisor.task_folder import folder_of

if TYPE_CHECKING:
    from fleet.agents.base import Agent
    from fleet.core.redaction import Redactor
    from fleet.core.run import Run
    from fleet.core.task import Claim, Task
    from fleet.home import Home
    from fleet.store.base import Store
    from fleet.supervisor.context import Context
    from fleet.supervisor.store_calls import StoreCalls

log = logging.getLogger(__name__)

#: How long a killed agent may take to end.
END_SECONDS = 15.0


async def end_lost_run(context: Context, run: Run, agent: Agent | None) -> None:
    """End the record of a run when its agent has ended, unless another host continues the run.

    If the agent does not end, leave it and the run to the next supervisor.
    """
    try:
        if agent is not None:
            await asyncio.wait_for(agent.ended(), END_SECONDS)
    except TimeoutError:
        log.warning("claim of %s lost, but its agent does not stop", run.id)
        return
    with contextlib.suppress(ClaimLost):
        write = partial(record_loss, context, run)
        await retry_until_stored(context.store.call_once, f"lost claim of {run.task_id}", write)


async def end_run_of(context: Context, claim: Claim) -> None:
    """End the run that began with a claim and was never followed, and its agent if it has one."""
    run = await _read_begun_run(context.store, claim)
    if run is not None and await end_agent(context, run):
        await end_lost_run(context, run, None)


async def end_agent_of(context: Context, claim: Claim) -> bool:
    """End the agent of the run that began with a claim. Return True if no agent is left."""
    run = await _read_begun_run(context.store, claim)
    return run is None or await end_agent(context, run)


async def end_agent(context: Context, run: Run) -> bool:
    """End the agent of a run.

    Return False if the agent does not end: its run is left to the supervisor that finds it.
    """
    folder = folder_of(context.home, run, context.redactor)
    gone = await context.launchers.find(run.launcher).end(folder.run_folder(run.number))
    if not gone:
        log.error("the agent of %s does not stop: its run continues", run.id)
    return gone


def record_loss(context: Context, run: Run) -> None:
    """Record that a run was lost, and why, unless it has ended. Raises ClaimLost if it was adopted."""
    store = context.store.ports
    try:
        end_task_json(context.home, context.redactor, store.tasks.get(run.task_id), run)
        reason = "its claim was lost"
    except TaskNotFound:
        reason = "its task was deleted"
    lost = {"ending": Ending.LOST, "reason": reason, "finding": Finding.INFRA_ERROR}
    store.runs.end(run.replace(ended_at=context.now(), **lost))


def end_task_json(home: Home, redactor: Redactor, task: Task, run: Run) -> None:
    """Replace the agent's changes in the `task.json` of a task whose run has ended."""
    folder = folder_of(home, run, redactor)
    try:
        folder.write_task_json(task, task.coder or run.coder, task.model or run.model)
    except OSError as error:  # the changes were put aside before, which needs no room
        log.warning("task.json of %s cannot be written: %s", task.id, error)


def _find_begun_run(store: Store, claim: Claim) -> Run | None:
    """Return the live run that began with a claim."""
    live = [run for run in store.runs.of_task(claim.task.id) if run.is_live]
    return next((run for run in live if (run.owner, run.epoch) == (claim.owner, claim.epoch)), None)


async def _read_begun_run(store: StoreCalls, claim: Claim) -> Run | None:
    # Not `call`: it would raise ClaimLost again.
    read = partial(_find_begun_run, store.ports, claim)
    return await retry_until_stored(store.call_once, f"lost claim of {claim.task.id}", read)
