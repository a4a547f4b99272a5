"""Loaded by Python at the start of every program of a test: ends it at the n-th thing it does, as kill -9 would.

CUT_AT=n ends `fleet merge` at the n-th file that it writes, moves or removes, or program that it starts, once it is its
turn, and `fleet list --repair` from its start. What it came to is written to CUT_COUNT. Without these nothing happens,
and nothing of this is in fleet itself.
"""

import atexit
import os
import signal
import sys
from pathlib import Path
from typing import Any

STEPS = ("os.rename", "os.remove", "os.utime", "os.link", "os.symlink", "subprocess.Popen")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def install(last: int, report: str) -> None:
    """Count from the moment that the queue is entered."""
    seen = {"count": 0, "turn": "--repair" in sys.orig_argv}

    def step(event: str, args: tuple[Any, ...]) -> None:
        writes = event == "open" and isinstance(args[2], int) and args[2] & WRITES
        if writes and "/locks/merge-" in str(args[0]):
            seen["turn"] = True
        if not seen["turn"] or not (writes or event in STEPS):
            return
        seen["count"] += 1
        if seen["count"] == last:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(step)
    if report:
        atexit.register(lambda: Path(report).write_text(str(seen["count"])))


if "CUT_AT" in os.environ and {"merge", "--repair"} & set(sys.orig_argv):
    install(int(os.environ.pop("CUT_AT")), os.environ.pop("CUT_COUNT", ""))
