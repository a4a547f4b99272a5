"""Before a task is there: what is looked at for each agent is looked at while its maker still writes it down."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.engine.scope.primary import expect_mark
from fleet.engine.spares import SPARES
from fleet.workspaces.repository import find_repository
from fleet.workspaces.view import View

if TYPE_CHECKING:
    from fleet.engine.office import Office


async def expect(office: Office, directory: str) -> None:
    """An agent is about to be asked for in a directory. Who says so may be anybody: only where agents work already."""
    with contextlib.suppress(FleetError, OSError, ValueError):
        repository = await office.look(find_repository, directory)
        spare = SPARES.next_of(repository)
        if spare is not None:
            mark = office.look(expect_mark, View(office.home, repository))
            await asyncio.gather(mark, office.look(spare.expect))
