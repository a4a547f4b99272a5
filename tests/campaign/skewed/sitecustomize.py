"""A replacement of `time.sleep` for programs under faketime, which breaks the kernel call of the original."""

import select
import time
from typing import SupportsIndex


def _sleep(seconds: float | SupportsIndex) -> None:
    span = float(seconds)
    if span < 0:
        raise ValueError("sleep length must be non-negative")
    select.select([], [], [], span)


time.sleep = _sleep
