"""The embedded store: SQLite in write-ahead mode, shared by every process of one host."""

from __future__ import annotations

from fleet.core import clock
from fleet.store.base import Store
from fleet.store.sql.search import SqlSearch
from fleet.store.sqlite_connection import Connection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from fleet.core.clock import Clock
    from fleet.core.filter import Filter
    from fleet.core.health import Vital

#: What is compared by functions of Python.
_TEXTS = ("label_glob", "label_regex", "text", "title_has", "description_has", "notes_has")


class SqliteStore(Store):
    """All of it in one SQLite file. The clock is the host's: there is only one host."""

    is_shared = False
    connection: Connection

    def __init__(
        self,
        path: str,
        *,
        make: bool = False,
        migrate: bool = False,
        check_new: Callable[[], None] = lambda: None,
        now: Clock = clock.now,
    ) -> None:
        file = Connection(path, make=make, migrate=migrate, check_new=check_new)
        super().__init__(file, now, search_in(file, now))

    def confirm(self) -> None:
        self.connection.confirm()

    def health(self) -> list[Vital]:
        from fleet.store.sqlite_health import health  # for `fleet doctor` alone

        return health(self.connection)

    def listening(self, call: Callable[[], None]) -> AbstractContextManager[None]:
        from contextlib import nullcontext  # for supervisors alone

        return nullcontext()  # whoever writes here wakes the supervisor through the home's pipe


def search_in(file: Connection, now: Clock) -> SqlSearch:
    """Return a search in a file, which is given functions of Python where a filter needs them."""

    def prepare(where: Filter) -> None:
        if any(getattr(where, name) is not None for name in _TEXTS):
            from fleet.core import matching  # costs a regex engine: only where text is searched

            for call in (matching.folded, matching.globbed, matching.searched):
                file.add_function(call.__name__, call)

    return SqlSearch(file, now, prepare)
