"""Install the real coding agents for the tests once into the cache: `python3 -m tools.get_clis` prints the folder.

Their programs are in its `bin`. The versions and hashes are in tests/real/clis/package-lock.json. npm's own settings
choose the download source. To change a version, edit package.json beside the lock. Then run `python3 -m tools.get_clis
--lock`. This module uses only the standard library.
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tools.venv import ROOT, cache, named_lock, run_step, say

PINS = ROOT / "tests" / "real" / "clis"

#: Where each program is, with the one for this machine first. claude and opencode are binaries, which their installers
#: would link into place. This module links them without running scripts of the packages.
PROGRAMS = {
    "claude": "@anthropic-ai/claude-code-*/claude",
    "codex": "@openai/codex/bin/codex.js",
    "copilot": "@github/copilot/npm-loader.js",
    "gemini": "@google/gemini-cli/bundle/gemini.js",
    "opencode": "opencode-*/bin/opencode",
    "pi": "@mariozechner/pi-coding-agent/dist/cli.js",
    "qwen": "@qwen-code/qwen-code/cli.js",
}


def main() -> None:
    """Install missing programs and print their folder."""
    if not shutil.which("npm"):
        sys.exit("error: npm is not on this machine\nhint:  sudo apt-get install nodejs npm")
    if sys.argv[1:] == ["--lock"]:
        return relock()
    lock = (PINS / "package-lock.json").read_bytes()
    place = cache() / f"clis-{hashlib.sha256(lock).hexdigest()[:16]}"
    with named_lock(place):
        if not (place / "complete").is_file():
            install(place)
    return print(place)


def install(place: Path) -> None:
    """Fill the folder from the lock. npm checks the hashes."""
    shutil.rmtree(place, ignore_errors=True)
    (place / "bin").mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PINS / name, place)
    npm("ci", place)
    for name, pattern in PROGRAMS.items():
        link(place, name, pattern)
    (place / "complete").touch()


def relock() -> None:
    """Rewrite the lock from package.json."""
    (PINS / "package-lock.json").unlink(missing_ok=True)
    npm("install", PINS, "--package-lock-only")
    lock = json.loads((PINS / "package-lock.json").read_text("utf-8"))
    (PINS / "package-lock.json").write_text(json.dumps(tidy(lock), indent=2) + "\n", "utf-8")


def tidy(lock: "dict[str, Any]") -> "dict[str, Any]":
    """Return a lock without download URLs. `npm ci` accepts it even if a registry lacks packages for other machines."""
    packages = lock["packages"]
    present = {path.rpartition("node_modules/")[2] for path in packages}
    for path, package in packages.items():
        for name in ("resolved", "funding"):
            package.pop(name, None)
        if path and "optionalDependencies" in package:
            wanted = package["optionalDependencies"].items()
            package["optionalDependencies"] = {name: pin for name, pin in wanted if name in present}
    return lock


def npm(verb: str, place: Path, *options: str) -> None:
    """Run npm in a folder, without the scripts of packages."""
    words = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=http", *options]
    argv = ["npm", verb, "--prefix", str(place), *words]
    run_step(f"installing coding agents into {place}", argv, "npm http (cache|fetch)", " packages")


def link(place: Path, name: str, pattern: str) -> None:
    """Link one program into `bin`, or print why this machine cannot have it."""
    found = sorted((place / "node_modules").glob(pattern))
    if not found:
        return say(f"{name} is not made for this machine")
    if found[0].suffix == ".js" and node_version() < wanted_node(found[0]):
        return say(f"{name} needs node {wanted_node(found[0])} or newer, and here it is {node_version()}")
    return (place / "bin" / name).symlink_to(found[0])


def wanted_node(program: Path) -> int:
    """Return the oldest major version of node that the package of a program supports."""
    manifests = (folder / "package.json" for folder in program.parents)
    manifest = json.loads(next(file for file in manifests if file.is_file()).read_text("utf-8"))
    return first_number(manifest.get("engines", {}).get("node", ""))


def node_version() -> int:
    """Return the major version of node, or 0 if node is missing."""
    if not shutil.which("node"):
        return 0
    return first_number(subprocess.run(["node", "--version"], capture_output=True, text=True).stdout)


def first_number(text: str) -> int:
    """Return the first whole number in a text, or 0."""
    found = re.search(r"\d+", text)
    return int(found[0]) if found else 0


if __name__ == "__main__":
    main()
