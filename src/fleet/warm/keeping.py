"""The supervisor's part: a warm process is there while the supervisor is, and another when it went."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from typing import TYPE_CHECKING

from fleet.warm.asking import is_off

if TYPE_CHECKING:
    from fleet.home import Home

log = logging.getLogger(__name__)

PROGRAM = "from fleet.__main__ import serve_warm; serve_warm()"
#: Between two starts: short after one that lived, for an upgrade ends it; longer and longer after ones that did not.
SHORTEST_PAUSE, LONGEST_PAUSE = 0.2, 60.0
LIVED_SECONDS = 5.0
END_SECONDS = 2.0


async def keep_warm(home: Home) -> None:
    """Keep a warm process for a home until cancelled. Whatever becomes of it, commands run without one too."""
    if sys.platform != "linux" or is_off():
        return
    pause, loop = SHORTEST_PAUSE, asyncio.get_running_loop()
    while True:
        began = loop.time()
        try:
            await _live(home)
        except OSError as error:
            log.warning("no warm commands: %s", error.strerror)
        pause = SHORTEST_PAUSE if loop.time() - began >= LIVED_SECONDS else min(LONGEST_PAUSE, pause * 2)
        await asyncio.sleep(pause)


async def _live(home: Home) -> None:
    """One process from its start to its end; it goes when nobody holds its stdin, also when we are killed."""
    path = os.path.join(home.logging, "warm.out")  # noqa: PTH118
    out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", PROGRAM, home.root),
            stdin=asyncio.subprocess.PIPE,
            stdout=out,
            stderr=out,
            cwd="/",
            start_new_session=True,
        )
    finally:
        os.close(out)
    try:
        await process.wait()
    finally:
        await asyncio.shield(_end(process))


async def _end(process: asyncio.subprocess.Process) -> None:
    """Let go of its stdin, which ends it; kill it where it does not go."""
    assert process.stdin is not None
    process.stdin.close()
    try:
        async with asyncio.timeout(END_SECONDS):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
