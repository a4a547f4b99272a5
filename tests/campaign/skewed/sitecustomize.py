"""For programs under faketime: it breaks the call of the kernel that Python sleeps by, so they wait in another way."""

import select
import time
from typing import SupportsIndex


def _sleep(seconds: float | SupportsIndex) -> None:
    span = float(seconds)
    if span < 0:
        raise ValueError("sleep length must be non-negative")
    select.select([], [], [], span)


time.sleep = _sleep
