"""Move a branch as `fleet merge` does, and die by SIGKILL at the n-th write to the disk or call of git.

python mover.py HOME REPOSITORY BRANCH OLD NEW TOKEN N. Not killed, it prints how many such things there were.
"""

import os
import signal
import sys
from typing import Any

from fleet.git.merge.branch_move import BranchMove, drop, move
from fleet.git.repository import find_repository
from fleet.git.view import View
from fleet.home import Home

STEPS = ("os.rename", "os.remove", "os.utime", "os.mkdir", "subprocess.Popen")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


def main() -> None:
    home, top, branch, old, new, token, last = sys.argv[1:]
    repository = find_repository(top)
    count = 0

    def step(event: str, args: tuple[Any, ...]) -> None:
        nonlocal count
        if event not in STEPS and not (event == "open" and isinstance(args[2], int) and args[2] & WRITES):
            return
        count += 1
        if count == int(last):
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(step)
    entry = BranchMove(token=token, common=repository.common, top=repository.top, branch=branch, old=old, new=new)
    done = move(Home(home), View(Home(home), repository), entry)
    assert not done.why_not, done
    drop(Home(home), done.entry)
    sys.stdout.write(f"{count}\n")


if __name__ == "__main__":
    main()
