"""The embedded queue: SQLite in write-ahead mode, shared by every process of one host."""

from __future__ import annotations

from fleet.core import clock
from fleet.store.sql_queue import SqlQueue
from fleet.store.sqlite_connection import Connection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from typing import Any

    from fleet.core.clock import Clock
    from fleet.core.filter import Filter
    from fleet.core.health import Vital

#: What is compared by functions of Python.
_TEXTS = ("label_glob", "label_regex", "text", "title_has", "description_has", "notes_has")


class SqliteQueue(SqlQueue):
    """Tasks in one SQLite file. The clock is the host's: there is only one host."""

    is_shared = False

    def __init__(
        self,
        path: str,
        *,
        make: bool = False,
        migrate: bool = False,
        check_new: Callable[[], None] = lambda: None,
        now: Clock = clock.now,
    ) -> None:
        self._file = Connection(path, make=make, migrate=migrate, check_new=check_new)
        super().__init__(self._file, now)

    @property
    def connection(self) -> Connection:
        return self._file

    def confirm(self) -> None:
        self._file.confirm()

    @property
    def file(self) -> str:
        """The device and inode of the file that is open."""
        return self._file.id

    @property
    def log(self) -> str:
        """The devices and inodes of its log."""
        return self._file.log

    def take_in_log(self) -> bool:
        """Write a log that was taken away into the file; True if the file has all then."""
        return self._file.take_in_log()

    def rescue(self, path: str) -> None:
        """Copy the file that is open to a new one, wherever its own path leads. Raises StoreFault, OSError."""
        self._file.rescue(path)

    def health(self) -> list[Vital]:
        from fleet.store.sqlite_health import health  # for `fleet doctor` alone

        return health(self._file)

    def listening(self, call: Callable[[], None]) -> AbstractContextManager[None]:
        from contextlib import nullcontext  # for supervisors alone

        return nullcontext()  # whoever writes here wakes the supervisor through the home's pipe

    def _conditions(self, where: Filter) -> tuple[str, dict[str, Any]]:
        if any(getattr(where, name) is not None for name in _TEXTS):
            from fleet.core import matching  # costs a regex engine: only where text is searched

            for call in (matching.folded, matching.globbed, matching.searched):
                self._file.add_function(call.__name__, call)
        return super()._conditions(where)
