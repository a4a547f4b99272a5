"""Merging 20 branches at once, in 2,000 files, with a verify of 1 s: `python tests/bench/bench_merge.py [rounds]`.

The unit is the time of one verify, as measured by `fleet merge` of a single branch. A queue that verified the branches
one by one would take 20.
"""

import math
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from merges import Merges, merged  # noqa: E402
from program import Program  # noqa: E402
from repositories import big_repository  # noqa: E402

ROUNDS = 3
BRANCHES = 20
#: Takes a second, and fails if a branch is broken.
VERIFY = "sleep 1; ! ls | grep -q broken"
BAR = 2 + math.log2(BRANCHES)


def main() -> int:
    """Measure and print. Return 0 if every bar is met."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        home = Merges(Program(Path(folder)), verify=VERIFY, make=big_repository)
        one = median(timed(home, f"one-{number}", 1)[0] for number in range(rounds))
        clean = [timed(home, f"clean-{number}", BRANCHES) for number in range(rounds)]
        broken = timed(home, "mixed", BRANCHES, broken=1)
    print(f"{'merge':<44} {'seconds':>8} {'verifies':>9} {'bar':>14}")
    ok = tell(f"1 branch, median of {rounds}", one, 1, 0)
    ok &= tell(f"{BRANCHES} clean branches, median of {rounds}", median(each[0] for each in clean), clean[0][1], BAR)
    tell(f"{BRANCHES} branches, one of them broken", *broken, 0)
    return 0 if ok else 1


def timed(home: Merges, batch: str, count: int, *, broken: int = 0) -> tuple[float, int]:
    """Return the seconds of a batch and the number of its verifications."""
    for number in range(count):
        bad = number < broken
        name = f"{batch}-{number}"
        home.work(name, {f"{'broken' if bad else 'new'}-{name}.txt": "x\n"}, batch=batch)
    began = time.monotonic()
    told = home.merge(batch)
    taken = time.monotonic() - began
    assert len(merged(told)) == count - broken and told["moved"], told
    return taken, told["verifies"]


def tell(what: str, seconds: float, verifies: int, bar: float) -> bool:
    """Print one line. Return True if its bar is met, in seconds with a verify of 1 s."""
    ok = not bar or seconds <= bar
    words = f"<= {bar:.1f} s" if bar else "none"
    print(f"{what:<44} {seconds:>8.2f} {verifies:>9} {words:>14}  {'pass' if ok else 'SHORT'}", flush=True)
    return ok


if __name__ == "__main__":
    sys.exit(main())
