"""Workers over MCP beside codefleet from PyPI: `python tests/bench/bench_mcp.py [rounds]`.

In each round both servers create 1, 20 and 100 workers in repositories of 20 and of 2,000 files. The servers take
turns, each after a pause, with the same client and the same stub agent. The time of a worker is from the call until it
is recorded as finished. A worker that never is, is stuck.
"""

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.codefleet import BIG, Codefleet, Fleet, Server

# Creating files is much of the work, and a disk's time for it varies tenfold. Memory is equal for both servers.
MEMORY = Path("/dev/shm")
ROUNDS = 3
#: The numbers of concurrent workers.
COUNTS = (1, 20, 100)
#: The required speed relative to codefleet.
FASTER = 1.0
#: The number of workers checked for stuck ones.
LOOKED_AT = 500
#: Seconds before each measurement, so that the later work of one server does not slow down the other.
REST = 3.0

Times = dict[tuple[str, int, int], list[float]]


async def main(folder: Path) -> int:
    """Measure, print the results and compare them with the bars. Return the exit code."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    servers: list[Server] = []
    times: Times = {}
    lost = {"codefleet": [0, 0], "fleet": [0, 0]}
    try:
        servers = [Codefleet(folder / "codefleet"), Fleet(folder / "fleet")]
        async with servers[0].serving() as theirs, servers[1].serving() as ours:
            clients = {servers[0].name: theirs, servers[1].name: ours}
            for server in servers:
                await server.finish(clients[server.name], 20, 1)  # the first worker creates files that the others find
            for _ in range(rounds):
                for files in (20, BIG):
                    for count in COUNTS:
                        for server in servers:
                            await asyncio.sleep(REST)
                            taken, stuck = await server.finish(clients[server.name], files, count)
                            times.setdefault((server.name, files, count), []).append(taken)
                            lost[server.name][0] += stuck
                            lost[server.name][1] += count
            while lost["fleet"][1] < LOOKED_AT:
                _, stuck = await servers[1].finish(ours, 20, 100)
                lost["fleet"][0] += stuck
                lost["fleet"][1] += 100
    finally:
        for server in servers:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return told(times, lost)


def told(times: Times, lost: dict[str, list[int]]) -> int:
    """Print the table. Return 1 if a bar is missed."""
    missed = False
    print("\ncreate_worker → on record as finished, seconds (median)")
    print(f"{'workers':>8} {'files':>6} {'codefleet':>10} {'fleet':>8} {'faster':>8}   bar")
    for files in (20, BIG):
        for count in COUNTS:
            theirs, ours = (median(times[name, files, count]) for name in ("codefleet", "fleet"))
            ok = theirs / ours >= FASTER
            missed |= not ok
            word = "ok" if ok else "MISSED"
            print(f"{count:>8} {files:>6} {theirs:>10.3f} {ours:>8.3f} {theirs / ours:>7.1f}×   ≥ {FASTER:g}×  {word}")
    for name, (stuck, made) in lost.items():
        print(f"{name}: {stuck} of {made} workers not finished")
    return int(missed or lost["fleet"][0] > 0)


if __name__ == "__main__":
    sys.exit(asyncio.run(main(Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None)))))
