"""How quick and how small the shim is: `make bench`."""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from fleet.launchers.base import LaunchSpec
from fleet.launchers.headless import HeadlessLauncher

ROUNDS = 50
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
        """Whether the bar is met."""
        return self.value <= self.bar

    def __str__(self) -> str:
        value, bar = f"{self.value:.2f} {self.unit}", f"≤ {self.bar:g} {self.unit}"
        return f"{self.what:<58} {value:>10} {bar:>9}  {'pass' if self.passes else 'SHORT'}   {self.detail}"


def spec() -> LaunchSpec:
    """The lightest agent: it makes a file, which is its first instruction, and then only waits."""
    return LaunchSpec(argv=("/bin/sh", "-c", ": > began; exec sleep 1000"), env={"PATH": os.environ["PATH"]}, cwd="/")


async def start_times(launcher: HeadlessLauncher, base: Path) -> list[float]:
    """Milliseconds from the call of start() to the agent's first instruction, one after the other."""
    times = []
    for number in range(ROUNDS):
        folder = base / f"run{number}"
        await asyncio.to_thread(folder.mkdir)
        begin = time.time()
        agent = await launcher.start(str(folder), spec().replace(cwd=str(folder)))
        while not os.path.exists(f"{folder}/began"):  # noqa: ASYNC110, ASYNC240, PTH110
            await asyncio.sleep(0.001)
        times.append((os.stat(f"{folder}/began").st_mtime - begin) * 1_000)  # noqa: PTH116
        await agent.kill_tree()
        await agent.ended()
    return times


def bare_times() -> list[float]:
    """Milliseconds that the same interpreter needs to do nothing."""
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-S", "-c", "pass"], check=True)
        times.append((time.perf_counter() - begin) * 1_000)
    return times


async def memory(launcher: HeadlessLauncher, base: Path) -> tuple[list[float], float]:
    """Resident mebibytes of shims side by side, then their fair share of what they share with each other."""
    begin = time.perf_counter()
    folders = [base / f"at-once{number}" for number in range(AT_ONCE)]
    agents = await asyncio.gather(*(launcher.start(str(folder), spec().replace(cwd="/tmp")) for folder in folders))
    print(f"started {AT_ONCE} agents at once in {time.perf_counter() - begin:.2f} s")
    resident = [_field(agent.shim_pid, "status", "VmRSS") for agent in agents]
    share = statistics.mean(_field(agent.shim_pid, "smaps_rollup", "Pss") for agent in agents)
    await asyncio.gather(*(agent.kill_tree() for agent in agents))
    await asyncio.gather(*(agent.ended() for agent in agents))
    return resident, share


def _field(pid: int | None, file: str, name: str) -> float:
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{name}:"))


async def measure(base: Path) -> list[Measured]:
    """All the measurements, in the order of the table."""
    launcher = HeadlessLauncher()
    times = await start_times(launcher, base)
    resident, share = await memory(launcher, base)
    bare = statistics.median(bare_times())
    times_bare = f"{statistics.median(times) / bare:.1f} × a bare python ({bare:.1f} ms)"
    spread = f"{min(times):.1f}–{max(times):.1f} ms in {ROUNDS} starts; {times_bare}; {launcher.containment}"
    most = f"{AT_ONCE} shims side by side; each one's share of the shared pages counted once: {share:.1f} MiB"
    return [
        Measured("start() to the agent's first instruction, median", statistics.median(times), "ms", 60, spread),
        Measured("resident memory of a shim, the largest", max(resident), "MiB", 14, most),
    ]


def main() -> None:
    """Print the table; exit 1 when a bar is missed."""
    if sys.platform != "linux":
        sys.exit("the shim is measured on Linux")
    with tempfile.TemporaryDirectory() as base:
        results = asyncio.run(measure(Path(base)))
    print(*results, sep="\n")
    sys.exit(not all(result.passes for result in results))


if __name__ == "__main__":
    main()
