"""An agent that reads messages and follows a line `do: WORD key=value …` in its prompt.

It imports nothing of fleet. What it hears goes as JSON lines into $AUDIT.heard: the prompt it began with, each message,
each order to stop, and the end of its stdin. `until` names a file that the test makes when the agent shall go on.
"""

import json
import os
import queue
import signal
import sys
import threading
import time

RUN = os.environ["FLEET_RUN_ID"]
PAUSE = 0.02


def heard(what: str, **more: object) -> None:
    """Append one whole line to the file of received messages."""
    line = json.dumps({"what": what, "run": RUN, "account": os.environ.get("ACCOUNT", ""), **more}) + "\n"
    file = os.open(os.environ["AUDIT"] + ".heard", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, line.encode())
    os.close(file)


def say(what: str, **fields: object) -> None:
    """Print one line of the stream."""
    sys.stdout.write(json.dumps({"type": what, **fields}) + "\n")
    sys.stdout.flush()


def work() -> None:
    """Print a tool call."""
    say("tool_use", id="1", tool="Write", input={"path": "x"})
    say("tool_result", id="1", tool="Write", ok=True, text="written")
    say("usage", tokens={"input": 1200, "output": 80}, cost_usd=0.25, context=3456, window=128_000)


class Ears:
    """The messages to a working agent; none without `listen`."""

    def __init__(self, listen: bool) -> None:
        self._said: queue.SimpleQueue[dict[str, str] | None] = queue.SimpleQueue()
        self.open = listen

    def listen(self) -> None:
        """Start reading."""
        if self.open:
            threading.Thread(target=self._read, daemon=True).start()

    def take(self) -> bool:
        """Read pending messages. Return True if one arrived."""
        got = False
        while self.open and not self._said.empty():
            line = self._said.get()
            if line is None:
                self.open = False
                heard("end")
            elif "stop" in line:
                heard("stop")
            else:
                heard("message", text=line["say"])
                say("delivered", text=line["say"])
                say("text", text=f"I heard: {line['say']}"[:200])
                got = True
        return got

    def _read(self) -> None:
        for line in sys.stdin:
            self._said.put(json.loads(line))
        self._said.put(None)


def main() -> None:
    """Read the prompt, work, and wait for more messages after the final event."""
    options = dict(word.removeprefix("--").partition("=")[::2] for word in sys.argv[1:])
    ears = Ears("listen" in options)
    prompt = json.loads(sys.stdin.readline())["say"] if ears.open else sys.stdin.read()
    heard("prompt", text=prompt, session=options.get("session", ""))
    order = next((line[4:] for line in prompt.splitlines() if line.startswith("do: ")), "ok")
    word, *pairs = order.split()
    said = dict(pair.split("=", 1) for pair in pairs)
    if said.get("stops") == "slowly":
        signal.signal(signal.SIGTERM, stop_slowly)
    say("init", session=options.get("session") or f"s-{os.getpid()}")
    behave(word, said, ears)
    say("result", ok=True, text="all done")
    while ears.open:
        if ears.take():
            work()
            say("result", ok=True, text="done again")
        time.sleep(PAUSE)
    wait(said.get("linger", ""))


def stop_slowly(*_: object) -> None:
    """Tidy up before the end."""
    time.sleep(1)
    os._exit(0)


def behave(word: str, said: dict[str, str], ears: Ears) -> None:
    """Dispatch a word to a behavior."""
    match word:
        case "wait":  # hears what it is told meanwhile
            ears.listen()
            work()
            wait(said["until"], ears)
        case "deaf" if not os.path.exists(said["until"]):  # noqa: PTH110 - is at a tool, and hears only after it
            work()
            wait(said["until"])
            ears.listen()
            while ears.open and not ears.take():
                time.sleep(PAUSE)
        case "limited":  # so often, and only with one account
            if os.environ.get("ACCOUNT") == said["account"] and times() <= int(said.get("times", "1000")):
                at = float(said["at"]) if "at" in said else None
                say("limit", kind=said["kind"], text="come back later", **({"resets_at": at} if at else {}))
                sys.exit(1)
            ears.listen()
            work()
        case "ok" | "deaf":
            ears.listen()
            work()
        case _:
            sys.exit(f"unknown behaviour {word}")


def times() -> int:
    """Return the number of agents that this task has had."""
    task = RUN.partition("/")[0]
    with open(os.environ["AUDIT"] + ".heard") as file:  # noqa: PTH123
        lines = [json.loads(line) for line in file]
    return sum(line["what"] == "prompt" and line["run"].partition("/")[0] == task for line in lines)


def wait(until: str, ears: Ears | None = None) -> None:
    """Wait for a file."""
    while until and not os.path.exists(until):  # noqa: PTH110
        if ears:
            ears.take()
        time.sleep(PAUSE)


if __name__ == "__main__":
    main()
