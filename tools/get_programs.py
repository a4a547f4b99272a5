"""Sees that programs the tests need are on this machine: `get_programs.py git tmux …`.

What is missing is installed from Debian's packages when this is root on Debian; else the command to type is printed.
With CI=true a program that cannot be had is a failure; otherwise the tests that need it say what they left out.
Only the standard library: it runs before the environment exists.
"""

import glob
import os
import shutil
import subprocess
import sys

#: The package that has a program, where it is not called the same.
PACKAGES = {
    "postgres": "postgresql",
    "gcc": "build-essential",
    "ip": "iproute2",
    "setpriv": "util-linux",
    "mkfs.ext4": "e2fsprogs",
    "systemd-analyze": "systemd",
}  # type: dict[str, str]
#: Where a program lies that Debian keeps off the PATH.
ELSEWHERE = {"postgres": "/usr/lib/postgresql/*/bin/postgres"}  # type: dict[str, str]


def main(names: "list[str]") -> int:
    """Get what is missing of these programs, or with `--package` these packages, wherever their files go."""
    if names[:1] == ["--package"]:
        return 0 if install(names[1:]) else 1
    missing = [name for name in names if not is_there(name)]
    if missing:
        install([PACKAGES.get(name, name) for name in missing])
    absent = [name for name in missing if not is_there(name)]
    for name in absent:
        print(f"not on this machine: {name}", file=sys.stderr)
    return 1 if absent and os.environ.get("CI") == "true" else 0


def is_there(name: str) -> bool:
    """Whether a program is on this machine."""
    return bool(shutil.which(name) or glob.glob(ELSEWHERE.get(name, "")))  # noqa: PTH207


def install(packages: "list[str]") -> bool:
    """Install packages, or say how; whether it was done."""
    command = f"apt-get install {' '.join(packages)}"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        print(f"hint:  sudo {command}", file=sys.stderr)
        return False
    print(command, file=sys.stderr, flush=True)
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # The list of packages may be absent or old on a fresh machine; a failure to renew it need not be fatal.
    subprocess.run(["apt-get", "update", "--quiet"], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    argv = ["apt-get", "install", "--yes", "--quiet", "--no-install-recommends", *packages]
    return subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
