"""The supervisor's log: JSON lines, one file per day, limited in size, without secrets."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from fleet.core.clock import now
from fleet.core.jsontext import encode
from fleet.files import append_whole

if TYPE_CHECKING:
    from fleet.core.redaction import Redactor
    from fleet.home import Home

LARGEST = 50 * 1024 * 1024
KEPT = 14


class DailyLog(logging.Handler):
    """A handler that appends each record to `logging/fleet-<date>.jsonl`. A full disk costs log lines, never work."""

    def __init__(self, home: Home, redactor: Redactor) -> None:
        super().__init__()
        self._folder = home.logging
        self._redactor = redactor

    def emit(self, record: logging.LogRecord) -> None:
        moment = now()
        line = {
            "ts": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": self._redactor.redact(record.getMessage()),
            "source": record.name,
        }
        if record.exc_info:
            line["traceback"] = self._redactor.redact(logging.Formatter().formatException(record.exc_info))
        try:
            self._append(f"{self._folder}/fleet-{moment:%Y-%m-%d}.jsonl", encode(line) + "\n")
        except OSError:
            self.handleError(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name in logging
        """Print nothing: no other place to report the error exists."""

    def _append(self, path: str, line: str) -> None:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            size = os.fstat(file).st_size
            append_whole(file, line.encode(errors="backslashreplace"))
        finally:
            os.close(file)
        if size == 0:
            self._forget_old()
        elif size > LARGEST:
            os.replace(path, path + ".1")  # noqa: PTH105

    def _forget_old(self) -> None:
        names = sorted(name for name in os.listdir(self._folder) if name.startswith("fleet-"))  # noqa: PTH208
        for name in names[:-KEPT]:
            os.unlink(f"{self._folder}/{name}")  # noqa: PTH108


def set_up(home: Home, redactor: Redactor, *, to_terminal: bool) -> None:
    """Send the supervisor's log to the daily file, and to the terminal if `to_terminal`."""
    root = logging.getLogger("fleet")
    root.setLevel(logging.INFO)
    root.addHandler(DailyLog(home, redactor))
    if to_terminal:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
        root.addHandler(handler)
