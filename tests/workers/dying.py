"""Is the program `fleet`, and kills itself with -9 at the n-th time that a function of its begins, or ends.

python dying.py MODULE:FUNCTION before|after N WORDS…
"""

import os
import signal
import sys
from types import FrameType
from typing import Any

from fleet.__main__ import main

EVENTS = {"before": "call", "after": "return"}


def die_at(point: str, when: str, number: int) -> None:
    """Kill this process at the chosen call."""
    module, _, function = point.partition(":")
    left = number

    def look(frame: FrameType, event: str, _: Any) -> None:
        nonlocal left
        if event == EVENTS[when] and frame.f_code.co_name == function and frame.f_globals["__name__"] == module:
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(look)


if __name__ == "__main__":
    die_at(sys.argv[1], sys.argv[2], int(sys.argv[3]))
    sys.argv[1:4] = []
    main()
