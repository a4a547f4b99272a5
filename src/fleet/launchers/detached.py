"""Programs that are started detached: nobody's child, in a session of their own, with next to nothing of ours."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = str(Path(__file__).parents[2])
# What the shim needs of our environment: to find the interpreter's libraries. The agent could read the rest.
_KEPT = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
# A module, because Python keeps only modules compiled; a script would be compiled at each start.
_PROGRAM = "import sys; sys.path.append(sys.argv[1]); from fleet.launchers.shim.{} import main; main()"


def shim_command(module: str, *words: str) -> list[str]:
    """The command line of a program of the shim's."""
    return [sys.executable, "-I", "-S", "-c", _PROGRAM.format(module), ROOT, *words]


def start_detached(argv: list[str], *, stdout: int, pass_fds: tuple[int, ...]) -> None:
    """Start a program; a short-lived shell stands between, so that it is nobody's child. Raises OSError."""
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
