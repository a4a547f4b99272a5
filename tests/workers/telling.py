"""A coder for tests, named in settings by its import string. Its agents run lines in a shell and report each one.

Run as a program it is such an agent: it runs the lines of its prompt that begin with `do: `, says so in the demo
coder's stream as a real one does, hands in and closes its task; `do: exit 3` ends it before that.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fleet.coders.base import Command, Order


def coder() -> type:
    """Return the coder class. Built on demand, because the agent does not import fleet."""
    from fleet.coders.base import Command
    from fleet.coders.demo.adapter import DemoCoder

    class TellingCoder(DemoCoder):
        """A coder with the demo coder's stream."""

        name = "workers.telling:TellingCoder"
        stop_steps = (signal.SIGTERM,)

        def command(self, order: "Order") -> "Command":
            """Return the command of the agent; the prompt is on stdin."""
            return Command(argv=(sys.executable, "-I", "-S", str(Path(__file__))), stdin=order.prompt)

    return TellingCoder


def say(what: str, **fields: object) -> None:
    """Print one line of the stream."""
    sys.stdout.write(json.dumps({"type": what, **fields}) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Run the lines."""
    steps = [line[4:] for line in sys.stdin.read().splitlines() if line.startswith("do: ")]
    say("init", session=f"s-{os.getpid()}")
    for number, step in enumerate(steps):
        say("tool_use", id=str(number), tool="Bash", input={"command": step})
        done = subprocess.run(["sh", "-c", step], capture_output=True, check=False)
        if step.startswith("exit "):
            sys.exit(done.returncode)
        text = (done.stdout + done.stderr).decode(errors="replace")
        say("tool_result", id=str(number), tool="Bash", ok=not done.returncode, text=text)
    subprocess.run(["bd", "close", os.environ["FLEET_TASK_ID"], "--reason", "done"], stdout=2, check=False)
    say("result", ok=True, text="all done")


if __name__ == "__main__":
    main()
else:
    TellingCoder = coder()
