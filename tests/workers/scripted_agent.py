"""An agent that does what its prompt says in a line `do: WORD key=value …`, and notes its life in $AUDIT.

It imports nothing of fleet. The note has one line per start and end: what, task, run, pid, time.
"""

import json
import os
import signal
import sys
import time

TASK, RUN = os.environ["FLEET_TASK_ID"], os.environ["FLEET_RUN_ID"]


def note(what: str) -> None:
    """Append one line to the audit file, whole."""
    line = f"{what} {TASK} {RUN} {os.getpid()} {time.time():.6f}\n".encode()
    file = os.open(os.environ["AUDIT"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, line)
    os.close(file)


def say(what: str, **fields: object) -> None:
    """One line of the stream."""
    sys.stdout.write(json.dumps({"type": what, **fields}) + "\n")
    sys.stdout.flush()


def work() -> None:
    """Something that counts as having used a tool."""
    say("tool_use", id="1", tool="Write", input={"path": "x"})
    say("tool_result", id="1", tool="Write", ok=True, text="written")


def done(text: str = "all done") -> None:
    """The coder's last word."""
    say("result", ok=True, text=text)


def daemon(scrub: bool) -> None:
    """A grandchild in a session of its own that outlives everything it can."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            if scrub:
                os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", "import time; time.sleep(300)"], {})
            time.sleep(300)
        os._exit(0)


def sleep(seconds: float) -> None:
    """Wait, in small steps, so that a signal ends it."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.02)


def main() -> None:
    """Do it."""
    prompt = sys.stdin.read()
    order = next((line[4:] for line in prompt.splitlines() if line.startswith("do: ")), "ok")
    word, *pairs = order.split()
    options = dict(pair.split("=", 1) for pair in pairs)
    seconds = float(options.get("seconds", "0"))
    note("start")
    if word == "ignore_term":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if word != "hang_start":
        say("init", session=f"s-{os.getpid()}")
    behave(word, seconds, options)
    note("end")


def behave(word: str, seconds: float, options: dict[str, str]) -> None:  # noqa: C901, PLR0915 - a table of behaviours
    """One behaviour each."""
    match word:
        case "ok":
            work()
            sleep(seconds)
            done()
        case "talk":
            pause, began = 1 / float(options["rate"]), time.monotonic()
            for number in range(int(seconds * float(options["rate"]))):
                time.sleep(max(0.0, began + number * pause - time.monotonic()))
                say("text", text=f"line {number} of what it has to say, which is about as long as such lines are")
            work()
            done()
        case "nothing":
            done("nothing to do")
        case "exit0":
            pass
        case "fail":
            sys.stderr.write("it broke\n")
            note("end")
            os._exit(int(options.get("code", "3")))
        case "error":
            say("result", ok=False, text="the model refused")
        case "hang_start" | "hang" | "ignore_term":
            sleep(seconds or 300)
        case "silent_work":
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                sum(range(10_000))
            work()
            done()
        case "hang_after_result":
            work()
            done()
            sleep(300)
        case "daemons":
            daemon(scrub=False)
            daemon(scrub=True)
            work()
            done()
        case "hold_stdout":
            if os.fork() == 0:
                time.sleep(300)
                os._exit(0)
            work()
            done()
        case "limit":
            say("limit", kind="rate", resets_at=time.time() + float(options.get("in", "3600")), text="come back later")
            note("end")
            os._exit(1)
        case "context":
            work()
            say("usage", tokens={"input": 10}, context=95, window=100)
            sleep(seconds or 300)
        case "garbage":
            sys.stdout.buffer.write(b"\xff\xfe\x00\x00 not json\n{half\n" + b"\x00" * 1000 + b"\n")
            sys.stdout.flush()
            work()
            done()
        case "long_line":
            chunk = "x" * (1 << 20)
            sys.stdout.write('{"type": "text", "text": "')
            for _ in range(int(options.get("megabytes", "100"))):
                sys.stdout.write(chunk)
            sys.stdout.write('"}\n')
            sys.stdout.flush()
            work()
            done()
        case "lines":
            for number in range(int(options["count"])):
                sys.stdout.write(f'{{"type": "text", "text": "{number}"}}\n')
            work()
            done()
        case "ask":
            page = f"{os.environ['FLEET_ARTIFACT_DIR']}/Q&A.md"
            file = os.open(page, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            if b"## A:" in os.pread(file, 65536, 0):
                work()
                done("thanks for the answer")
                return
            os.write(file, b"\n## Q: which colour?\n\n")
            done("I asked")
        case _:
            sys.exit(f"unknown behaviour {word}")


if __name__ == "__main__":
    main()
