"""An agent that follows a line `do: WORD key=value …` in its prompt and records its life in $AUDIT.

It imports nothing of fleet. The note has one line per start and end: what, task, run, pid, time.
"""

import json
import os
import signal
import sys
import time

TASK, RUN = os.environ["FLEET_TASK_ID"], os.environ["FLEET_RUN_ID"]


def note(what: str) -> None:
    """Append one whole line to the audit file."""
    line = f"{what} {TASK} {RUN} {os.getpid()} {time.time():.6f}\n".encode()
    file = os.open(os.environ["AUDIT"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(file, line)
    os.close(file)


def say(what: str, **fields: object) -> None:
    """Print one line of the stream."""
    sys.stdout.write(json.dumps({"type": what, **fields}) + "\n")
    sys.stdout.flush()


def work() -> None:
    """Print a tool call."""
    say("tool_use", id="1", tool="Write", input={"path": "x"})
    say("tool_result", id="1", tool="Write", ok=True, text="written")


def done(text: str = "all done") -> None:
    """Print the final event."""
    say("result", ok=True, text=text)


def daemon(scrub: bool) -> None:
    """Start a grandchild in a separate session that survives its parents. Its command names the audit file."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            argv = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(300)", os.environ["AUDIT"]]
            os.execve(sys.executable, argv, {} if scrub else os.environ)
        os._exit(0)


def sleep(seconds: float, until: str = "") -> None:
    """Wait for this time, or until a file exists, in small steps that a signal can end."""
    end = time.monotonic() + seconds
    while time.monotonic() < end or (until and not os.path.exists(until)):  # noqa: PTH110
        time.sleep(0.02)


def put(*parts: bytes) -> None:
    """Write raw bytes to stdout."""
    sys.stdout.flush()
    for part in parts:
        sys.stdout.buffer.write(part)
    sys.stdout.buffer.flush()


def end(status: int) -> None:
    """Exit immediately."""
    note("end")
    os._exit(status)


def bd(*words: str) -> None:
    """Call the `bd` on the PATH from a directory unrelated to the queue."""
    pid = os.fork()
    if pid == 0:
        os.chdir("/")
        os.dup2(2, 1)
        os.execvp("bd", ["bd", *words])
    if os.waitpid(pid, 0)[1]:
        end(9)


def main() -> None:
    prompt = sys.stdin.read()
    order = next((line[4:] for line in prompt.splitlines() if line.startswith("do: ")), "ok")
    word, *pairs = order.split()
    options = dict(pair.split("=", 1) for pair in pairs)
    seconds = float(options.get("seconds", "0"))
    note("start")
    if "keep" in options:  # what it was told
        with open(f"{os.environ['FLEET_ARTIFACT_DIR']}/told-{RUN.rpartition('/')[2]}", "w") as file:  # noqa: PTH123
            file.write(prompt)
    if word == "ignore_term":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if word != "hang_start":
        say("init", session=f"s-{os.getpid()}")
    behave(word, seconds, options)
    note("end")


def behave(word: str, seconds: float, options: dict[str, str]) -> None:
    """Dispatch a word to a behavior: honest work, odd ends, silence, noise, protocol, malice."""
    for kind in (works, ends_oddly, is_silent, is_noisy, follows_the_protocol, is_hostile):
        if kind(word, seconds, options):
            return
    sys.exit(f"unknown behaviour {word}")


def works(word: str, seconds: float, options: dict[str, str]) -> bool:
    """Do some work and report it."""
    match word:
        case "ok":
            work()
            sleep(seconds, options.get("until", ""))
            done()
        case "talk":
            pause, began = 1 / float(options["rate"]), time.monotonic()
            for number in range(int(seconds * float(options["rate"]))):
                time.sleep(max(0.0, began + number * pause - time.monotonic()))
                say("text", text=f"line {number} of what it has to say, which is about as long as such lines are")
            work()
            done()
        case "turn":  # several things said at once, the tool inside
            use = {"type": "tool_use", "id": "1", "tool": "Write", "input": {"path": "x"}}
            result = {"type": "tool_result", "id": "1", "tool": "Write", "ok": True, "text": "written"}
            say("turn", parts=[{"type": "text", "text": "I write"}, use, result])
            done()
        case "write":  # into its directory, and looks who else wrote there
            with open("mine", "x") as file:  # noqa: PTH123
                file.write(TASK)
            work()
            sleep(seconds)
            done(" ".join(sorted(os.listdir("."))))  # noqa: PTH208
        case "silent_work":
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                sum(range(10_000))
            work()
            done()
        case _:
            return waits(word, seconds, options)
    return True


def waits(word: str, seconds: float, options: dict[str, str]) -> bool:
    """Wait for an external event without using the processor, then work."""
    match word:
        case "until":  # somebody makes a file
            while not os.path.exists(options["file"]):  # noqa: PTH110
                time.sleep(0.02)
        case "pause":
            time.sleep(seconds)
        case _:
            return False
    work()
    done()
    return True


def ends_oddly(word: str, seconds: float, options: dict[str, str]) -> bool:  # noqa: C901 - a table of behaviours
    """End abnormally."""
    match word:
        case "nothing":
            done("nothing to do")
        case "exit0":
            pass
        case "fail":
            sys.stderr.write("it broke\n")
            end(int(options.get("code", "3")))
        case "crash":
            note("end")
            os.kill(os.getpid(), int(options.get("signal", "11")))
        case "error":
            say("result", ok=False, text="the model refused")
        case "done_exit1":  # some programs end so although all went well
            work()
            done()
            end(1)
        case "limit":
            until = options.get("in", "3600")
            told = {} if until == "unknown" else {"resets_at": time.time() + float(until)}
            say("limit", kind="rate", text="come back later", **told)
            end(1)
        case "daemons":
            daemon(scrub=False)
            daemon(scrub=True)
            work()
            sleep(seconds, options.get("until", ""))
            done()
        case "hold_stdout":
            if os.fork() == 0:
                time.sleep(300)
                os._exit(0)
            work()
            done()
        case _:
            return False
    return True


def is_silent(word: str, seconds: float, options: dict[str, str]) -> bool:
    """Never exit."""
    match word:
        case "hang_start" | "hang" | "ignore_term":
            sleep(seconds or 300)
        case "ignore_term_with_child":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            daemon(scrub=True)
            if os.fork() == 0:
                time.sleep(300)
            say("text", text="I have children")
            sleep(300)
        case "hang_after_result":
            work()
            done()
            sleep(300)
        case "context":
            work()
            say("usage", tokens={"input": 10}, context=95, window=100)
            sleep(seconds or 300)
        case "spend":
            work()
            say("usage", tokens={"input": int(options.get("tokens", "0"))}, cost_usd=float(options.get("usd", "0")))
            sleep(300)
        case "chatter":  # never silent, never done
            while True:
                say("text", text="still at it")
                time.sleep(0.1)
        case _:
            return False
    return True


def is_noisy(word: str, seconds: float, options: dict[str, str]) -> bool:  # noqa: C901 - a table of behaviours
    """Print noise, then end normally. Lines before and after the noise must be read."""
    megabytes = int(options.get("megabytes", "100"))
    match word:
        case "long_line":
            put(b'{"type": "text", "text": "', *[b"x" * (1 << 20)] * megabytes, b'"}\n')
        case "flood":
            line = b'{"type": "text", "text": "%s"}\n' % (b"x" * 994)
            put(*[line * 1024] * megabytes)
        case "lines":
            for number in range(int(options["count"])):
                sys.stdout.write(f'{{"type": "text", "text": "{number}"}}\n')
        case "stderr":
            for _ in range(megabytes):
                os.write(2, b"it went on and on, and complained\n" * 30_840)
            os.write(2, b"the last complaint\n")
        case "garbage":
            put(b"\xff\xfe\x00\x00 not json\n{half\n" + b"\x00" * 1000 + b"\n")
        case "nuls":
            put(b"\0" * (1 << 20), b'\n{"type": "text", "text": "b\0etween"}\n\0\n')
        case "utf8":
            put(b'{"type": "text", "text": "\xff\xc3( \xed\xa0\x80"}\n\x80\x81\xfe\n')
        case "ansi":
            put(b'\x1b[2J\x1b]0;owned\x07{"type": "text", "text": "\\u001b[31mred"}\r\n\x1b[2J\n')
            say("text", text="\x1b]0;owned\x07")
        case "half_json":
            put(b'{"type": "text", "te\n{"type": "tool_use", "id": "2", "tool": "Write", "inp\n[[[[{"a":\n')
            work()
            put(b'{"type": "result", "ok": true, "text": "without an end of line"}')
            return True
        case _:
            return False
    work()
    done()
    return True


def follows_the_protocol(word: str, seconds: float, options: dict[str, str]) -> bool:
    """Talk to the queue and to people."""
    page, result = (f"{os.environ['FLEET_ARTIFACT_DIR']}/{name}" for name in ("Q&A.md", "result.json"))
    match word:
        case "hand_in":
            work()
            bd("close", TASK, "--reason", "handed in")
            done()
        case "result_file":
            work()
            with open(result, "w") as file:  # noqa: PTH123
                json.dump({"summary": "did it", "status": "completed"}, file)
            done("see result.json")
        case "ask_bd":
            bd("update", TASK, "--status", "blocked", "--notes", "QUESTION: which size?")
            sleep(seconds, options.get("until", ""))
            done("I asked")
        case "ask_twice":  # the same, in one run; it goes on with an answer to any of the two
            if os.path.exists(page):  # noqa: PTH110
                work()
                bd("close", TASK, "--reason", "answered")
                done("thanks for the answer")
            else:
                with open(page, "w") as file:  # noqa: PTH123
                    file.write("## Q: which colour?\n\nRed?\n\n## Q: which  colour?\n\nOr blue?\n")
                bd("update", TASK, "--status", "blocked", "--notes", "QUESTION: which colour?")
                done("I asked")
        case "ask_again":  # with the same words, whatever was answered, until there are so many answers
            text = open(page).read() if os.path.exists(page) else ""  # noqa: PTH110, PTH123, SIM115
            if text.count("## A:") >= int(options["answers"]):
                work()
                bd("close", TASK, "--reason", "answered")
                done("thanks for the answer")
            else:
                with open(page, "a") as file:  # noqa: PTH123
                    file.write("\n## Q: which colour?\n")
                done("I asked")
        case "ask":
            handle = os.open(page, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            if b"## A:" in os.pread(handle, 65536, 0):
                work()
                done("thanks for the answer")
            else:
                os.write(handle, b"\n## Q: which colour?\n\n")
                done("I asked")
        case _:
            return False
    return True


def is_hostile(word: str, seconds: float, options: dict[str, str]) -> bool:
    """Attack fleet through files that fleet reads."""
    folder = os.environ["FLEET_TASK_DIR"]
    match word:
        case "swap_stdout":  # whoever reads its output finds a pipe that nobody writes to
            output = f"{folder}/runs/{RUN.rpartition('/')[2]}/stdout"
            os.rename(output, f"{output}.gone")  # noqa: PTH104
            os.mkfifo(output)
            say("text", text="come and read")
            sleep(seconds)
        case "edit_task_json":  # what it wants to be next; a folder or a pipe in place of the file
            path = f"{folder}/task.json"
            os.unlink(path)  # noqa: PTH108
            match options["kind"]:
                case "folder":
                    os.mkdir(path)  # noqa: PTH102
                case "pipe":
                    os.mkfifo(path)
                case _:
                    with open(path, "w") as file:  # noqa: PTH123
                        json.dump({"cwd": "/", "coder": "claude", "model": "evil"}, file)
            if options["kind"] == "read-only":
                os.chmod(folder, 0o500)  # noqa: PTH101
            work()
        case "leak":
            secret = options["secret"]
            say("tool_use", id="1", tool="Bash", input={"argv": [["deep", {"list": [secret]}]], "plain": secret})
            say("tool_result", id="1", tool="Bash", ok=True, text=f"key={secret}")
            sys.stderr.write(f"with {secret}\n")
            done(f"I used {secret}")
        case _:
            return False
    return True


if __name__ == "__main__":
    main()
