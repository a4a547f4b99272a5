"""The only place where errors become text on stderr and an exit code."""

# Every `bd` call imports this module, so heavy imports wait until an error occurs.
from __future__ import annotations

import errno
import os
import sys

from fleet.core.errors import WARNINGS, FleetError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TextIO

INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
BROKEN_PIPE = 141  # 128 + SIGPIPE
OUTPUT_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
DISK_FAULTS = (*OUTPUT_FAULTS, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE)
#: The length at which a traced line is cut.
LONGEST_TRACE = 2000
IT_IS_DONE = "check the result before you repeat the command: its work is done"


class SafeStream:
    """Standard output or error that does not raise if a write fails, so that begun work is not left half done."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.fault: OSError | None = None  # why writing failed; later output is discarded

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write, or record why writing failed."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._abandon(error)
            return len(text)

    def flush(self) -> None:
        """Flush, or record why flushing failed."""
        try:
            self._stream.flush()
        except OSError as error:
            self._abandon(error)

    def _abandon(self, error: OSError) -> None:
        self.fault = self.fault or error
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, self._stream.fileno())  # discards buffered output, too
        os.close(nothing)


def heed_reader() -> None:
    """Raise OSError if standard output has failed. For commands that print until they are stopped."""
    fault = getattr(sys.stdout, "fault", None)
    if fault is not None:
        raise fault


def run(call: Callable[[], int]) -> int:
    """Call, and turn every exception into a message and an exit code."""
    _open_closed_streams()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # do not stop because a terminal cannot show a character
    sys.stdout, sys.stderr = SafeStream(sys.stdout), SafeStream(sys.stderr)
    try:
        code = call()
        _tell_warnings()
    except FleetError as error:
        code = tell(str(error), error.hint, error.exit_code)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = BROKEN_PIPE
    except OSError as error:
        code = _tell_fault(error)
    except Exception as error:  # noqa: BLE001 — the last resort: the traceback is saved for a report, not shown
        code = tell_bug(error)
    sys.stdout.flush()
    return code or _unwritten()


def _tell_fault(error: OSError) -> int:
    if error.filename is None:
        return tell(_no_output(error)) if error.errno in OUTPUT_FAULTS else tell_bug(error)
    if error.errno not in DISK_FAULTS:
        return tell_bug(error)
    return tell(f"{error.strerror}: {error.filename}", "check the file, its folder and its disk, then try again")


def _unwritten() -> int:
    """Return the exit code of a command that did its work. Print an error if its output was lost."""
    fault = getattr(sys.stdout, "fault", None)
    if fault is None:
        return 0
    return BROKEN_PIPE if isinstance(fault, BrokenPipeError) else tell(_no_output(fault), IT_IS_DONE)


def _no_output(fault: OSError) -> str:
    return f"cannot write the output: {fault.strerror}"


def _tell_warnings() -> None:
    for text in WARNINGS.values():
        sys.stderr.write(f"warning: {_safe(text)}\n")


def tell(message: str, hint: str = "", code: int = 1) -> int:
    sys.stderr.write(f"error: {_safe(message)}\n" + (f"hint:  {_safe(hint)}\n" if hint else ""))
    return code


def _safe(text: str) -> str:
    """Return an untrusted text's lines without control characters for the terminal."""
    if text.isprintable():
        return text
    from fleet.cli.text import shown

    return shown(text)


def debugging() -> bool:
    """Return True if the user asked for debug output."""
    values = (os.environ.get(name, "") for name in ("FLEET_DEBUG", "AI_FLEET_DEBUG"))
    return any(value.lower() not in ("", "0", "false", "no", "off") for value in values)


def trace_programs() -> None:
    """Print each program that this process starts, with its arguments, on stderr."""

    def heed(event: str, args: tuple[Any, ...]) -> None:
        if event in ("subprocess.Popen", "os.posix_spawn", "os.exec"):
            words = args[1] if isinstance(args[1], list | tuple) else [args[1]]
            line = " ".join(map(str, map(os.fsdecode, words)))
            sys.stderr.write(f"debug: start {_safe(line)[:LONGEST_TRACE]}\n")

    sys.addaudithook(heed)


def tell_bug(error: Exception) -> int:
    """Print one line about an unexpected error, and save the traceback in a file."""
    import traceback

    text = "".join(traceback.format_exception(error))
    if debugging():
        sys.stderr.write(text)
        hint = ""
    elif path := _keep(text):
        hint = f"report the details in {path}"
    else:
        hint = "run the command again with FLEET_DEBUG=1 to see the details"
    first = (str(error).splitlines() or [""])[0]
    return tell(f"this is a bug in fleet: {type(error).__name__}: {first}", hint)


def _keep(text: str) -> str:
    """Write a crash report into the home. Return its path, or "" if it cannot be written."""
    from datetime import UTC, datetime

    from fleet.files import atomic_write
    from fleet.home import find

    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    try:
        path = f"{find().logging}/crash-{moment}.txt"
        atomic_write(path, text.encode(errors="backslashreplace"))
    except (FleetError, OSError):
        return ""
    return path


def _open_closed_streams() -> None:
    """Open /dev/null in place of a closed stdin, stdout or stderr.

    Otherwise printing would fail after the work is done, and the next opened file would get the number of a stream.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, "w" if number else "r", encoding="utf-8")  # noqa: SIM115, PTH123
            os.set_inheritable(stream.fileno(), True)  # the lowest free number, which is the stream's number
            setattr(sys, name, stream)
