"""Database queries of an idle supervisor, which must still hear of new work."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from builders import a_task
from contract.postgres.holding import SECOND
from contract.store_builders import a_claim, a_run, a_workspace
from fleet.actions.control.main import make_context
from fleet.assembly import Fleet
from fleet.core.jsontext import encode
from fleet.core.run import Ending
from fleet.core.task import Status, Verdict
from fleet.core.workspace import SENT
from fleet.files import atomic_write
from fleet.home import Home
from fleet.hosts.push import PushQueue
from fleet.store.postgres.link import PostgresLink
from fleet.store.postgres.store import PostgresStore
from fleet.supervisor.host import Said
from fleet.supervisor.loop import Supervisor
from launching import asynchronous, until

#: Seconds between two polls for work, and between two heartbeats, which also reap expired claims.
POLL, BEAT = 0.5, 1.0
SETTINGS = f"""
[supervisor]
poll_seconds = {{poll}}
claim_seconds = {3 * BEAT:.0f}
"""


@pytest.fixture
def fleet(url: str, tmp_path: Path) -> Iterator[Fleet]:
    home = Home(str(tmp_path / "home"))
    home.make()
    store = PostgresStore(url, lease=3 * SECOND)
    with Fleet(home, store) as made:
        yield made


@asynccontextmanager
async def served(fleet: Fleet, poll: float) -> AsyncIterator[None]:
    """Run the supervisor of a home inside the block. It has registered and done its initial cleanup."""
    atomic_write(fleet.home.settings, SETTINGS.format(poll=poll).encode())
    context = make_context(fleet, Said(name="a"))
    supervisor = Supervisor(context)
    serving = asyncio.create_task(supervisor.serve())
    await asyncio.sleep(3 * BEAT)
    yield
    supervisor.stop(stop_agents=True)
    await serving
    context.close()


@contextmanager
def noted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Yield a list that collects each script sent to a server inside the block."""
    sent: list[str] = []
    execute = PostgresLink.execute

    def noting(self: PostgresLink, query: Any, *args: Any, **named: Any) -> Any:
        sent.append(str(query))
        return execute(self, query, *args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(PostgresLink, "execute", noting)
        yield sent


@asynchronous
async def test_idle_host_sends_one_query_per_poll_and_notifies_no_other_host(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(fleet, POLL):
        with noted(monkeypatch) as sent:
            began = time.monotonic()
            await asyncio.sleep(8 * BEAT)
            taken = time.monotonic() - began
    looks = [each for each in sent if "waiting" in each]
    assert 0 < len(looks) <= taken / POLL + 2
    # A heartbeat takes four queries, of which two begin and end the transaction. One more looks for expired claims, and
    # one for old data.
    assert len(sent) - len(looks) <= 6 * (taken / BEAT + 1)
    # A slow start may still notify once when the host registers. A heartbeat must not notify.
    assert len([each for each in sent if "notify" in each]) <= 1


@asynchronous
async def test_host_hears_of_new_work_at_once_when_it_polls_once_an_hour(fleet: Fleet, url: str) -> None:
    with closing(PostgresStore(url)) as other:
        async with served(fleet, poll=3600):
            task = a_task()
            other.tasks.add(task)
            await until(lambda: other.tasks.get(task.id).epoch > 0)


@asynchronous
async def test_push_queue_sends_as_many_queries_for_thirty_worktrees_as_for_one(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = make_context(fleet, Said(name="a"))
    asked = []
    for count in (1, 30):
        for _ in range(count):
            worked_in(fleet, context.owner)
        with noted(monkeypatch) as sent:
            assert await PushQueue(context).push_due() == pytest.approx(60, abs=1)  # nothing is to be sent
        asked.append(len(sent))
    context.close()
    assert asked[0] == asked[1] <= 4


def worked_in(fleet: Fleet, owner: str) -> None:
    """Add a worktree in which a run has ended and whose branch was sent."""
    store = fleet.store
    claim = a_claim(store, owner=owner)
    run = store.runs.begin(claim, a_run())
    notes = encode({"host": owner, "remote": "r", SENT: run.id})
    store.workspaces.lease(a_workspace(claim.task.id, notes=notes))
    with store.atomic():
        store.runs.end(run.replace(ending=Ending.FINISHED))
        store.claims.settle(claim, Verdict(status=Status.CLOSED, reason="done"))
