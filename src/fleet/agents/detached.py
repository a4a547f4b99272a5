"""Start of detached programs: reparented to init, with a separate session and a minimal environment."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = str(Path(__file__).parents[2])
# The shim needs these to find the interpreter and its libraries. The agent could read any others.
_KEPT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
# A module, because Python caches bytecode only for modules; a script would be compiled at each start.
_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from fleet.agents.shim.{} import main; main()"


def shim_command(module: str, *words: str) -> list[str]:
    """Return the command line of one of the shim's programs."""
    return [sys.executable, "-I", "-S", "-c", _PROGRAM.format(module), ROOT, *words]


def start_detached(argv: list[str], *, stdout: int, pass_fds: tuple[int, ...]) -> None:
    """Start a program through a short-lived shell, so that init becomes its parent. Raises OSError."""
    try:
        subprocess.run(
            ["/bin/sh", "-c", '"$@" &', "fleet-shim", *argv],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stdout,
            env={name: os.environ[name] for name in _KEPT if name in os.environ},
            cwd="/",
            start_new_session=True,
            pass_fds=pass_fds,
            check=True,
        )
    except subprocess.CalledProcessError as error:
        raise OSError(0, f"the shell ended with {error.returncode}") from error
