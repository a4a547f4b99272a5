"""A scripted agent: `agent.py <behavior> [argument…]`. Its children have the last argument in their command line."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

LONG = "86400"


def end(code: str) -> None:
    """End with this exit code."""
    sys.exit(int(code))


def crash(number: str) -> None:
    """End by a signal."""
    if int(number) == signal.SIGPIPE:  # which Python ignores
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), int(number))


def lines(count: str) -> None:
    """Print numbered lines."""
    for number in range(int(count)):
        sys.stdout.write(f'{{"line": {number}}}\n')
    sys.stdout.flush()


def forever(*_: str) -> None:
    """Print without end."""
    while True:
        os.write(1, b"again and again\n" * 1000)


def flood(mebibytes: str, newline: str = "no") -> None:
    """Print this many bytes as fast as possible, in one line or in many, then a last line."""
    block = (b"x" * 1023 + b"\n") * 1024 if newline == "lines" else b"x" * 1024 * 1024
    for _ in range(int(mebibytes)):
        put(block)
    put(b'\n{"last": true}\n')


def put(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def noise(*_: str) -> None:
    """Print NULs, every byte, broken UTF-8, half a JSON object and escapes, and something on stderr."""
    put(b"\0\0" + bytes(range(256)) * 100 + b'\xff\xfe\xc3(\n{"half": \n\x1b[2J\x1b]0;title\x07\n')
    os.write(2, b"\x80\x81\n")


def stubborn(*_: str) -> None:
    """Ignore every signal that can be ignored, and print a line."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    put(b"ignoring\n")
    time.sleep(int(LONG))


def polite(*_: str) -> None:
    """End with 42 on SIGTERM."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(42))
    put(b"waiting\n")
    while True:
        time.sleep(0.1)  # not pause(): a signal that comes just before it would never be noticed


def hostile(then: str, token: str) -> None:
    """Start a child and two daemons, one with a scrubbed environment; then end or stay."""
    sleeper = [sys.executable, "-I", "-S", "-c", f"import time; time.sleep({LONG})", token]
    subprocess.Popen(sleeper)
    daemon(sleeper, dict(os.environ))
    daemon(sleeper, {})
    put(b"started\n")
    if then == "stay":
        time.sleep(int(LONG))


def daemon(command: list[str], env: dict[str, str]) -> None:
    """Start a daemon: two forks and a separate session."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve(command[0], command, env)
        os._exit(0)
    os.wait()


def crowd(count: str, token: str) -> None:
    """Start many children that start one each, and stay."""
    sleeper = [sys.executable, "-I", "-S", "-c", f"import time; time.sleep({LONG})", token]
    for _ in range(int(count)):
        if os.fork() == 0:
            os.setsid()
            subprocess.Popen(sleeper)
            time.sleep(int(LONG))
    put(b"started\n")
    time.sleep(int(LONG))


def holder(token: str) -> None:
    """End, and leave a child behind that holds stdout and stderr."""
    subprocess.Popen([sys.executable, "-I", "-S", "-c", f"import time; time.sleep({LONG})", token])
    put(b"done\n")


def echo(*_: str) -> None:
    """Print stdin until it ends."""
    while data := os.read(0, 65536):
        put(data)


def sleep(seconds: str, *_: str) -> None:
    """Print a line, then nothing more."""
    put(b"sleeping\n")
    time.sleep(float(seconds))


def busy(seconds: str, *_: str) -> None:
    """Use the processor in a grandchild and print nothing."""
    work = f"import time\nwhile time.process_time() < {seconds}: pass"
    subprocess.run(["/bin/sh", "-c", '"$@"; true', "sh", sys.executable, "-I", "-S", "-c", work], check=True)
    time.sleep(int(LONG))


def ticking(*_: str) -> None:
    """Print progress lines forever."""
    while True:
        put(b"tick\n")
        time.sleep(0.02)


def forking(*_: str) -> None:
    """Start one short-lived child after the other, each of which starts another."""
    put(b"forking\n")
    while True:
        if os.fork() == 0:
            if os.fork() == 0:
                time.sleep(0.05)
            os._exit(0)
        os.wait()
        time.sleep(0.002)


def halting(token: str) -> None:
    """Start a child and stop it; then wait."""
    child = subprocess.Popen([sys.executable, "-I", "-S", "-c", f"import time; time.sleep({LONG})", "still", token])
    child.send_signal(signal.SIGSTOP)
    os.waitpid(child.pid, os.WUNTRACED)
    put(b"halted\n")
    time.sleep(int(LONG))


def attack(*_: str) -> None:
    """Try to kill the shim, then end well."""
    os.kill(os.getppid(), signal.SIGTERM)
    os.kill(os.getppid(), signal.SIGKILL)
    put(b"still here\n")


def look(*_: str) -> None:
    """Print the arguments, environment and working directory."""
    handles = [number for number in range(3, 1024) if is_open(number)]
    ignored = [line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "SigIgn" in line]
    mask = os.umask(0)
    found = {
        "env": dict(os.environ),
        "cwd": str(Path.cwd()),
        "handles": handles,
        "ignored": int(ignored[0], 16),
        "umask": mask,
        "leader": os.getsid(0) == os.getpid() == os.getpgid(0),
        "terminal": os.isatty(0),
    }
    put(json.dumps(found).encode() + b"\n")


def is_open(number: int) -> bool:
    """Return True if the descriptor is open."""
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
