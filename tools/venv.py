"""Create the environment of the Makefile: a venv in a cache outside of the checkout, filled from the lock.

`venv.py` creates the environment unless it exists. `venv.py --path` prints its path. `venv.py --program NAME LOCK`
creates a separate one for a program and prints the path of the program. This module uses only the standard library. It
has no syntax that an old Python cannot parse, so that it can report an old Python.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

OLDEST = (3, 11)
ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
# The editable install copies the entry points from this file.
PROJECT = ROOT / "pyproject.toml"


def main() -> None:
    """Create the environment, or print its path."""
    if sys.version_info < OLDEST:
        sys.exit(
            f"error: {sys.executable} is Python {sys.version.split()[0]}; fleet needs 3.11 or newer\n"
            "hint:  name a newer one: make PYTHON=python3.12 …"
        )
    if sys.argv[1:] == ["--path"]:
        print(place())
    elif sys.argv[1:2] == ["--program"]:
        print(program(*sys.argv[2:]))
    else:
        make(place())


def place() -> Path:
    """Return the path of the environment for this checkout, Python and lock."""
    # The package is installed as a link to the checkout, so two checkouts cannot share an environment.
    parts = (LOCK.read_text("utf-8"), sys.version, os.path.realpath(sys.executable), str(ROOT))
    return cache() / ("venv-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16])


def cache() -> Path:
    """Return the folder of everything that is fetched for development."""
    named = os.environ.get("FLEET_CACHE")
    if named:
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "fleet-dev"


def make(venv: Path) -> None:
    """Fill the environment unless its stamp shows that this was done."""
    stamp, wanted = venv / "complete", hashlib.sha256(PROJECT.read_bytes()).hexdigest()
    if stamp.is_file() and stamp.read_text("utf-8") == wanted:
        return
    need_ensurepip()
    with named_lock(venv):
        if stamp.is_file() and stamp.read_text("utf-8") == wanted:
            return
        filled = venv / "filled"
        if not filled.is_file():
            forget_others(venv)
            create(venv)
            (venv / "checkout").write_text(f"{ROOT}\n{sys.executable}", "utf-8")
            install(venv, LOCK)
            # Python 3.11 installs setuptools unasked, with a hook that runs at every start of the interpreter.
            if list(venv.glob("lib/*/site-packages/setuptools")):
                run([*pip(venv), "--quiet", "uninstall", "--yes", "setuptools"])
            filled.touch()
        # Use uv, as users are told to: the `fleet` that pip 23 writes imports a regex engine before it begins.
        uv = [str(venv / "bin" / "uv"), "pip", "install", "--quiet", "--offline", "--python", str(venv)]
        run_step("installing fleet", [*uv, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)])
        stamp.write_text(wanted, "utf-8")


def program(name: str, lock: str) -> Path:
    """Return a foreign program in a separate environment, because it may pin other versions than fleet does."""
    pins = ROOT / lock
    key = hashlib.sha256((pins.read_text("utf-8") + sys.version).encode()).hexdigest()[:16]
    venv = cache() / f"{name}-{key}"
    with named_lock(venv):
        if not (venv / "complete").is_file():
            create(venv)
            install(venv, pins)
            (venv / "complete").touch()
    return venv / "bin" / name


def create(venv: Path) -> None:
    """Create an empty venv that has pip."""
    shutil.rmtree(venv, ignore_errors=True)
    run_step(f"creating {venv}", [sys.executable, "-m", "venv", str(venv)])


def pip(venv: Path) -> "list[str]":
    """Return the first words of a pip command in a venv."""
    return [str(venv / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]


def install(venv: Path, lock: Path) -> None:
    """Install the packages of a lock."""
    total = len(re.findall("^[^ ]+==", lock.read_text("utf-8"), re.MULTILINE))
    argv = [*pip(venv), "install", "--no-deps", "--require-hashes", "-r", str(lock)]
    run_step(f"installing {lock.stem}", argv, r"Collecting |Ignoring ", f" of {total} packages")


@contextlib.contextmanager
def named_lock(venv: Path) -> "Iterator[None]":
    """Hold a lock, so that the second of two runs of make waits and finds the work done."""
    venv.parent.mkdir(parents=True, exist_ok=True)
    with Path(f"{venv}.lock").open("w", encoding="utf-8") as turn:
        try:
            fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that has {turn.name}")
            fcntl.flock(turn, fcntl.LOCK_EX)
        yield


def need_ensurepip() -> None:
    """Exit or install a package if Python cannot create a venv. Debian keeps ensurepip in a separate package."""
    look = [sys.executable, "-c", "import ensurepip"]
    if subprocess.run(look, stderr=subprocess.DEVNULL).returncode == 0:
        return
    package = f"python{sys.version_info[0]}.{sys.version_info[1]}-venv"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        sys.exit(f"error: {sys.executable} cannot make a venv\nhint:  sudo apt-get install {package}")
    say(f"Python needs {package} to create a venv")
    run([sys.executable, "-m", "tools.get_programs", "--package", package])
    run(look)
    # The package may bring a newer Python, and the path of the environment depends on the version.
    os.execv(sys.executable, [sys.executable, *sys.argv])


def forget_others(venv: Path) -> None:
    """Remove environments of earlier locks and of deleted checkouts from the cache."""
    for note in venv.parent.glob("venv-*/checkout"):
        checkout, _, python = note.read_text("utf-8").partition("\n")
        is_older = (checkout, python) == (str(ROOT), sys.executable)
        if note.parent != venv and (is_older or not Path(checkout).is_dir()):
            shutil.rmtree(note.parent, ignore_errors=True)
            Path(f"{note.parent}.lock").unlink(missing_ok=True)


def run(argv: "list[str]") -> None:
    """Run a program, and exit if it fails."""
    code = subprocess.run(argv, stdin=subprocess.DEVNULL, cwd=ROOT).returncode
    if code != 0:
        sys.exit(f"error: exit code {code} from: {' '.join(argv)}")


def run_step(text: str, argv: "list[str]", counted: str = "", unit: str = "", *, is_needed: bool = True) -> bool:
    """Run a program. Print its progress and duration on stderr, live if stderr is a terminal.

    Lines of its output that match the pattern `counted` are counted. The others are printed if the program fails.
    Return True if it succeeds. Exit if it fails and is needed.
    """
    count, others = 0, []  # type: int, list[str]
    began, is_over, is_live = time.monotonic(), threading.Event(), sys.stderr.isatty()

    def show(state: str, end: str) -> None:
        line = f"{text}: {state} {time.monotonic() - began:.0f} s"
        print(f"\r\033[K{line}" if is_live else line, end=end, file=sys.stderr, flush=True)

    def show_progress() -> None:
        while not is_over.wait(0.5 if is_live else 5):
            show(f"{count}{unit}," if count else "", "" if is_live else "\n")

    if not is_live:
        say(text)
    shower = threading.Thread(target=show_progress, daemon=True)
    shower.start()
    with subprocess.Popen(
        argv,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as program:
        for line in program.stdout or ():
            if counted and re.match(counted, line):
                count += 1
            else:
                others.append(line)
    is_over.set()
    shower.join()
    show("failed after" if program.returncode else "done in", "\n")
    if program.returncode != 0:
        say(f"{''.join(others)}error: exit code {program.returncode} from: {' '.join(argv)}")
        if is_needed:
            sys.exit(1)
    return program.returncode == 0


def say(text: str) -> None:
    """Print a line on stderr; stdout is for results."""
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
