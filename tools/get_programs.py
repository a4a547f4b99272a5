"""Install programs that the tests need: `python3 -m tools.get_programs git tmux …`.

The programs come from Debian's packages. Without root or apt, the command to type is printed instead. A program that
cannot be installed is a failure with CI=true. Otherwise the tests that need it are skipped by name. This module uses
only the standard library, because it runs before the environment exists.
"""

import glob
import os
import shutil
import sys

from tools.venv import run_step, say

#: The package of each program whose package has another name.
PACKAGES = {
    "postgres": "postgresql",
    "gcc": "build-essential",
    "ip": "iproute2",
    "setpriv": "util-linux",
    "mkfs.btrfs": "btrfs-progs",
    "mkfs.ext4": "e2fsprogs",
    "systemd-analyze": "systemd",
}  # type: dict[str, str]
#: The path of programs that Debian keeps off the PATH.
ELSEWHERE = {"postgres": "/usr/lib/postgresql/*/bin/postgres"}  # type: dict[str, str]


def main(names: "list[str]") -> int:
    """Install those of these programs that are missing, or with `--package` these packages."""
    if names[:1] == ["--package"]:
        return 0 if install(names[1:]) else 1
    missing = [name for name in names if not is_there(name)]
    if missing:
        install([PACKAGES.get(name, name) for name in missing])
    absent = [name for name in missing if not is_there(name)]
    for name in absent:
        say(f"not on this machine: {name}")
    return 1 if absent and os.environ.get("CI") == "true" else 0


def is_there(name: str) -> bool:
    """Return True if a program is on this machine."""
    return bool(shutil.which(name) or glob.glob(ELSEWHERE.get(name, "")))  # noqa: PTH207


def install(packages: "list[str]") -> bool:
    """Install packages, or print how. Return True if they were installed."""
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        say(f"hint:  sudo {' '.join(command)}")
        return False
    env = ["env", "DEBIAN_FRONTEND=noninteractive"]
    # The package list may be missing or old on a fresh machine. A failure to update it need not be fatal.
    run_step("updating the list of packages", [*env, "apt-get", "update"], is_needed=False)
    return run_step(f"installing {' '.join(packages)}", [*env, *command], is_needed=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
