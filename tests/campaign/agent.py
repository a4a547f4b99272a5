"""An agent of the campaign: it takes steps, commits half of its work and then all of it, and notes every step.

It has a process beside it, as one that serves or watches would be, which never ends by itself. `do: steps=N` in its
prompt says how many steps, for a first run; later ones take far fewer. The notes go to $AUDIT, a line each: what, task,
run, seconds of the machine's clock, and of a commit its name. It imports nothing of fleet. Time that it stands still is
no step.
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
    """Work."""
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
    """Start a daemon that takes steps for ever."""
    if os.fork() == 0:
        os.setsid()
        while True:
            note("beside")
            time.sleep(2 * PAUSE_SECONDS)


def write(number: int) -> None:
    """Write something; where there is a repository, commit it."""
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
    """What git prints."""
    done = subprocess.run(["git", *words], env=os.environ | IDENTITY, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"git {words[0]}: {done.stderr}")
    return done.stdout.strip()


def note(what: str, more: str = "-") -> None:
    """Append one line, whole."""
    line = f"{what} {TASK} {RUN} {time.clock_gettime(time.CLOCK_BOOTTIME):.6f} {more}\n".encode()
    file = os.open(os.environ["AUDIT"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, line)
    os.close(file)


def say(what: str, **fields: object) -> None:
    """One line of the stream."""
    sys.stdout.write(json.dumps({"type": what, **fields}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
