"""What a supervisor goes by when it looks for work."""

from __future__ import annotations

from fleet.core.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fleet.core.host import Host
    from fleet.core.run import Account


class Glance(Record):
    """What one look at the store shows, all of it of one moment."""

    coders: Sequence[str] = ()  # that claimable tasks name; "" stands for those that name none
    accounts: Sequence[Account] = ()
    setting: str | None = None  # the one of the queue's own that was asked for
    host: Host | None = None  # what the host that looks has told of itself
