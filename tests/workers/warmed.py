"""A command that tells what it is: `warmed.py serve HOME` keeps it warm, `warmed.py WORD DO…` runs it, warm if it can.

Both ends are fleet's own; only what the command does is this file's.
"""

import contextlib
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

from fleet.cli.errors import run
from fleet.home import Home
from fleet.warm.asking import ask
from fleet.warm.serving import serve

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGCHLD, signal.SIGPIPE, signal.SIGUSR1)


def command() -> int:
    """Do what the second word says."""
    return run(lambda: DEEDS[sys.argv[2] if len(sys.argv) > 2 else "tell"]())


def tell() -> int:
    """Everything that a command could find different elsewhere, as JSON."""
    place = None
    with contextlib.suppress(FileNotFoundError):
        place = str(Path.cwd())
    streams = (sys.stdin, sys.stdout, sys.stderr)
    found = {
        "argv": sys.argv,
        "env": {name.hex(): value.hex() for name, value in os.environb.items()},
        "cwd": place,
        "umask": os.umask(0o077),
        "stdin": sys.stdin.read(),
        "streams": [(each.encoding, each.errors, each.line_buffering, each.fileno()) for each in streams],
        "signals": [str(signal.getsignal(number)) for number in SIGNALS],
        "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
        "limits": [resource.getrlimit(kind) for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_CORE)],
        "inherited": [fd for fd in (int(each.name) for each in Path("/proc/self/fd").iterdir()) if is_inheritable(fd)],
        "zone": time.tzname,
        "parent": os.getppid(),
    }
    sys.stdout.write(json.dumps(found))
    sys.stderr.write("on stderr\n")
    return 7


def is_inheritable(handle: int) -> bool:
    """Whether a program that is started gets it; one that was only there for the listing is not."""
    try:
        return os.get_inheritable(handle)
    except OSError:
        return False


def wait() -> int:
    """Say who we are, tell of a changed window and of the caller's own signal, until told to go."""
    signal.signal(signal.SIGWINCH, lambda *_: say("resized"))
    signal.signal(signal.SIGUSR1, lambda *_: sys.exit(9))
    say(f"{os.getpid()} {os.getppid()}")
    time.sleep(60)
    return 0


def say(words: str) -> None:
    """One line, at once, also in the middle of another."""
    os.write(1, f"{words}\n".encode())


def parent() -> int:
    """Who our parent is."""
    say(str(os.getppid()))
    return 0


def leave() -> int:
    """End in the middle."""
    raise SystemExit("left early")


def fail() -> int:
    """A bug."""
    raise ValueError("nobody foresaw it")


def flood() -> int:
    """More than a reader takes who leaves early."""
    for _ in range(100_000):
        say("x" * 100)
    return 0


DEEDS = {"tell": tell, "wait": wait, "parent": parent, "leave": leave, "fail": fail, "flood": flood}

if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(Home(sys.argv[2]), lambda: command)
    else:
        code = ask(sys.argv[1:])
        if code is not None:
            os._exit(code)
        sys.exit(command())
