"""The one place where an error becomes text on stderr and an exit code."""

# On the path of every `bd` call: nothing heavy is imported until something goes wrong.
from __future__ import annotations

import errno
import os
import sys

from fleet.core.errors import WARNINGS, FleetError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

INTERRUPTED = 130  # 128 + SIGINT, as a shell reports it
BROKEN_PIPE = 141  # 128 + SIGPIPE
OUTPUT_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def run(call: Callable[[], int]) -> int:
    """Call, and turn whatever it raises into a message and an exit code."""
    _open_closed_streams()
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(
            errors="backslashreplace"
        )  # a terminal that cannot show a character is no reason to stop
    try:
        code = call()
        _tell_warnings()
        _flush()
    except FleetError as error:
        return _flushed(tell(str(error), error.hint, error.exit_code))
    except KeyboardInterrupt:
        return _flushed(INTERRUPTED)
    except BrokenPipeError:
        return _abandon_output(BROKEN_PIPE)
    except OSError as error:
        if error.errno not in OUTPUT_FAULTS or error.filename is not None:
            return _flushed(tell_bug(error))
        return _abandon_output(tell(f"cannot write the output: {error.strerror}"))
    except Exception as error:  # noqa: BLE001 — the outermost bulkhead: a bug is kept for its report, not shown
        return _flushed(tell_bug(error))
    return code


def _tell_warnings() -> None:
    for text in WARNINGS.values():
        sys.stderr.write(f"warning: {_safe(text)}\n")


def tell(message: str, hint: str = "", code: int = 1) -> int:
    """Print an error and its hint, and return the exit code."""
    sys.stderr.write(f"error: {_safe(message)}\n" + (f"hint:  {_safe(hint)}\n" if hint else ""))
    return code


def _safe(text: str) -> str:
    """Return the lines of a text that may quote somebody, without anything that drives a terminal."""
    if text.isprintable():
        return text
    from fleet.cli.bd.text import shown

    return shown(text)


def debugging() -> bool:
    """Whether the user asked fleet to talk about what it does."""
    values = (os.environ.get(name, "") for name in ("FLEET_DEBUG", "AI_FLEET_DEBUG"))
    return any(value.lower() not in ("", "0", "false", "no", "off") for value in values)


def tell_bug(error: Exception) -> int:
    """Print one line about an error nobody foresaw, and put the traceback where it can be found."""
    import traceback

    text = "".join(traceback.format_exception(error))
    if debugging():
        sys.stderr.write(text)
        hint = ""
    elif path := _keep(text):
        hint = f"the details are in {path}; please report them."
    else:
        hint = "run it again with FLEET_DEBUG=1 to see the details."
    first = (str(error).splitlines() or [""])[0]
    return tell(f"this is a bug in fleet: {type(error).__name__}: {first}", hint)


def _keep(text: str) -> str:
    """Write a crash report into the home, if there is one; where it lies."""
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
    """Open /dev/null where the caller closed stdin, stdout or stderr.

    Without that, printing fails after the work is done, and the next file to be opened gets the number of a stream.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            stream = open(os.devnull, "w" if number else "r", encoding="utf-8")  # noqa: SIM115, PTH123
            os.set_inheritable(stream.fileno(), True)  # the lowest free number: that of the stream
            setattr(sys, name, stream)


def _flush() -> None:
    sys.stdout.flush()


def _flushed(code: int) -> int:
    """What was printed before an error still goes out, as far as it can."""
    try:
        _flush()
    except OSError:
        _abandon_output(code)
    return code


def _abandon_output(code: int) -> int:
    """Let what is still buffered go nowhere, so that the interpreter does not complain about it on its way out."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code
