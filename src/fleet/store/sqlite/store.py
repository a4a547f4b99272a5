"""The embedded store: SQLite in write-ahead mode, shared by all processes of one host."""

from __future__ import annotations

from fleet.core import clock
from fleet.store.base import Store
from fleet.store.sql.search import SqlSearch
from fleet.store.sqlite.connection import SqliteConnection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from fleet.core.clock import Clock
    from fleet.core.filter import Filter
    from fleet.core.health import HealthCheck

#: Filters that Python functions evaluate.
_TEXTS = ("label_glob", "label_regex", "text", "title_has", "description_has", "notes_has")


class SqliteStore(Store):
    """Everything in one SQLite file. Claims use the host's clock because only one host uses the file."""

    is_shared = False
    connection: SqliteConnection

    def __init__(
        self,
        path: str,
        *,
        make: bool = False,
        migrate: bool = False,
        check_new: Callable[[], None] = lambda: None,
        now: Clock = clock.now,
    ) -> None:
        file = SqliteConnection(path, make=make, migrate=migrate, check_new=check_new)
        super().__init__(file, now, search_in(file, now))

    def confirm(self) -> None:
        self.connection.confirm()

    def health(self) -> list[HealthCheck]:
        from fleet.store.sqlite.checks import health  # only `fleet doctor` needs it

        return health(self.connection)

    def listening(self, call: Callable[[], None]) -> AbstractContextManager[None]:
        from contextlib import nullcontext  # only supervisors need it

        return nullcontext()  # writers wake the supervisor through the home's pipe


def search_in(file: SqliteConnection, now: Clock) -> SqlSearch:
    """Return a search in a file. Python functions are added to the file when a filter needs them."""

    def prepare(where: Filter) -> None:
        if any(getattr(where, name) is not None for name in _TEXTS):
            from fleet.core import matching  # imports a regex engine, so only for text searches

            for call in (matching.fold_text, matching.matches_label_glob, matching.matches_label_regex):
                file.add_function(call.__name__, call)

    return SqlSearch(file, now, prepare)
