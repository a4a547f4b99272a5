"""The start time and memory of the shim, started alone, forked, and in a terminal: `make bench`."""

import asyncio
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from fleet.agents.base import LaunchSpec
from fleet.agents.headless import HeadlessLauncher
from fleet.agents.shim_client import ShimAgent
from fleet.agents.tmux import TmuxLauncher
from fleet.agents.tmux_command import call, has_tmux

ROUNDS = 50
TERMINALS = 20
AT_ONCE = 100


class Measured(NamedTuple):
    """One line of the table."""

    what: str
    value: float
    unit: str
    bar: float
    detail: str

    @property
    def passes(self) -> bool:
        """Return True if the bar is met."""
        return self.value <= self.bar

    def __str__(self) -> str:
        value, bar = f"{self.value:.2f} {self.unit}", f"≤ {self.bar:g} {self.unit}"
        return f"{self.what:<58} {value:>10} {bar:>9}  {'pass' if self.passes else 'SHORT'}   {self.detail}"


def spec() -> LaunchSpec:
    """Return the lightest agent: it creates a file as its first instruction, and then waits."""
    return LaunchSpec(argv=("/bin/sh", "-c", ": > began; exec sleep 1000"), env={"PATH": os.environ["PATH"]}, cwd="/")


async def start_times(*launchers: HeadlessLauncher, base: Path) -> list[list[float]]:
    """Return the milliseconds from start() to the agent's first instruction, per launcher. The launchers take turns."""
    times: list[list[float]] = [[] for _ in launchers]
    for number in range(ROUNDS):
        for launcher, found in zip(launchers, times, strict=True):
            folder = base / f"run{number}-{id(launcher)}"
            await asyncio.to_thread(folder.mkdir)
            found.append(await start_time(launcher, folder))
    return times


async def start_time(launcher: HeadlessLauncher | TmuxLauncher, folder: Path) -> float:
    """Return the milliseconds from start() to the agent's first instruction."""
    begin = time.time()
    agent: ShimAgent = await launcher.start(str(folder), spec().replace(cwd=str(folder), session=secrets.token_hex(8)))
    while not os.path.exists(f"{folder}/began"):  # noqa: ASYNC110, ASYNC240, PTH110
        await asyncio.sleep(0.001)
    took = (os.stat(f"{folder}/began").st_mtime - begin) * 1_000  # noqa: PTH116
    await agent.kill_tree()
    await agent.ended()
    return took


async def terminal_times(base: Path) -> list[float]:
    """Return the milliseconds that agents take to start in terminals."""
    socket = f"fleet-bench-{secrets.token_hex(4)}"
    launcher, found = TmuxLauncher(socket), []
    try:
        for number in range(TERMINALS):
            folder = base / f"terminal{number}"
            await asyncio.to_thread(folder.mkdir)
            found.append(await start_time(launcher, folder))
    finally:
        await asyncio.to_thread(call, socket, "kill-server")
    return found


def bare_times() -> list[float]:
    """Return the milliseconds that the same interpreter takes to do nothing."""
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
        times.append((time.perf_counter() - begin) * 1_000)
    return times


async def drained(folder: Path) -> float:
    """Return the seconds from the start of an agent that prints a gigabyte to its end."""
    words = ("/bin/sh", "-c", "head -c 1073741824 /dev/zero")
    begin = time.perf_counter()
    agent = await HeadlessLauncher().start(str(folder), spec().replace(argv=words, stdout_cap=8 * 1024**2))
    await agent.ended()
    return time.perf_counter() - begin


async def memory(launcher: HeadlessLauncher, base: Path) -> tuple[list[float], float, float]:
    """Return the resident MiB of concurrent shims, their proportional share in MiB, and the seconds to start them."""
    begin = time.perf_counter()
    folders = [base / f"at-once{number}" for number in range(AT_ONCE)]
    agents = await asyncio.gather(*(launcher.start(str(folder), spec().replace(cwd="/tmp")) for folder in folders))
    seconds = time.perf_counter() - begin
    resident = [_field(agent.shim_pid, "status", "VmRSS") for agent in agents]
    share = statistics.mean(_field(agent.shim_pid, "smaps_rollup", "Pss") for agent in agents)
    await asyncio.gather(*(agent.kill_tree() for agent in agents))
    await asyncio.gather(*(agent.ended() for agent in agents))
    return resident, share, seconds


def _field(pid: int | None, file: str, name: str) -> float:
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))


async def measure(base: Path) -> list[Measured]:
    """Return all measurements in the order of the table."""
    launcher, lasting = HeadlessLauncher(), HeadlessLauncher(lasting=True)
    times, forked = await start_times(launcher, lasting, base=base)
    resident, share, started = await memory(launcher, base / "alone")
    forked_resident, forked_share, forked_started = await memory(lasting, base / "forked")
    bare = statistics.median(bare_times())
    times_bare = f"{statistics.median(times) / bare:.1f} × a bare python ({bare:.1f} ms)"
    spread = f"{min(times):.1f}–{max(times):.1f} ms in {ROUNDS} starts; {times_bare}; {launcher.containment}"
    most = f"{AT_ONCE} shims side by side; each one's share of the shared pages counted once: {share:.1f} MiB"
    quicker = f"{statistics.median(times) / statistics.median(forked):.1f} times as quick as alone"
    found = [
        Measured("start() to the agent's first instruction, median", statistics.median(times), "ms", 60, spread),
        Measured("the same by way of the starter", statistics.median(forked), "ms", 30, quicker),
        Measured(f"{AT_ONCE} starts at once", started, "s", 25, ""),
        Measured("the same by way of the starter", forked_started, "s", 25, ""),
        Measured("a gigabyte of output, drained", await drained(base / "drained"), "s", 30, ""),
        Measured("resident memory of a shim, the largest", max(resident), "MiB", 14, most),
        Measured("the same by way of the starter", max(forked_resident), "MiB", 14, f"share: {forked_share:.1f} MiB"),
    ]
    if has_tmux():
        terminals = await terminal_times(base)
        found.append(
            Measured("start() in a terminal, median", statistics.median(terminals), "ms", 120, f"{TERMINALS} starts")
        )
    return found


def main() -> None:
    """Print the table. Exit with 1 if a bar is missed."""
    if sys.platform != "linux":
        sys.exit("the shim is measured on Linux")
    with tempfile.TemporaryDirectory() as base:
        results = asyncio.run(measure(Path(base)))
    print(*results, sep="\n")
    sys.exit(not all(result.passes for result in results))


if __name__ == "__main__":
    main()
