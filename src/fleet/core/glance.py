"""The data that a supervisor needs when it looks for work."""

from __future__ import annotations

from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.core.host import Host
    from fleet.core.run import Account


class Glance(Record):
    """The result of one query of the store, as a single snapshot."""

    coders: Sequence[str] = ()  # coders that claimable tasks name; "" stands for tasks that name none
    accounts: Sequence[Account] = ()
    setting: str | None = None  # the requested setting of the queue
    host: Host | None = None  # the stored record of the host that asks
