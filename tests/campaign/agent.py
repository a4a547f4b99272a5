"""An agent of the campaign: it takes steps, commits half of its work and then all of it, and records every step.

A second process beside it never ends by itself, like a server or a watcher. `do: steps=N` in the prompt sets the number
of steps of a first run; later runs take far fewer. Each line of $AUDIT holds: what, task, run, seconds of the machine's
clock, and the id of a commit. The agent imports nothing of fleet. Time while it is frozen is not a step.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

TASK, RUN = os.environ["FLEET_TASK_ID"], os.environ["FLEET_RUN_ID"]
PAUSE_SECONDS = 0.02
IDENTITY = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "An Agent"), ("EMAIL", "agent@example.invalid"))
}


def main() -> None:
    """Do the work."""
    prompt = sys.stdin.read()
    order = next(line for line in prompt.splitlines() if line.startswith("do: steps="))
    steps = int(order.removeprefix("do: steps=")) // int(RUN.rpartition("/")[2]) ** 2
    note("start")
    serve_beside()
    say("init", session=f"s-{os.getpid()}")
    for number in range(steps):
        note("step")
        time.sleep(PAUSE_SECONDS)
        if number in (steps // 2, steps - 1):
            write(number)
    note("end")
    say("result", ok=True, text="all done")


def serve_beside() -> None:
    """Start a daemon that takes steps forever."""
    if os.fork() == 0:
        os.setsid()
        while True:
            note("beside")
            time.sleep(2 * PAUSE_SECONDS)


def write(number: int) -> None:
    """Write something, and commit it if a repository exists."""
    say("tool_use", id=str(number), tool="Write", input={"path": f"{TASK}.txt"})
    with Path(f"{TASK}.txt").open("a") as file:
        file.write(f"{RUN} {number}\n")
    say("tool_result", id=str(number), tool="Write", ok=True, text="written")
    if not Path(".git").exists():
        return
    git("add", "--", f"{TASK}.txt")
    git("commit", "--quiet", f"--message={TASK}: step {number}")
    note("commit", git("rev-parse", "HEAD"))


def git(*words: str) -> str:
    """Return git's output."""
    done = subprocess.run(["git", *words], env=os.environ | IDENTITY, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"git {words[0]}: {done.stderr}")
    return done.stdout.strip()


def note(what: str, more: str = "-") -> None:
    """Append one line in a single write."""
    line = f"{what} {TASK} {RUN} {time.clock_gettime(time.CLOCK_BOOTTIME):.6f} {more}\n".encode()
    file = os.open(os.environ["AUDIT"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, line)
    os.close(file)


def say(what: str, **fields: object) -> None:
    """Print one line of the stream."""
    sys.stdout.write(json.dumps({"type": what, **fields}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
