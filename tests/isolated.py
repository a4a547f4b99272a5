"""Isolation of the tests from the developer's settings, sessions and coding agents."""

import atexit
import os
import re
import shutil
import tempfile
import time
from pathlib import Path

from fleet.coders import CODERS

#: The variables of the environment that tests keep.
KEPT = re.compile(
    r"PATH|TMPDIR|TMUX_TMPDIR|CI|LD_LIBRARY_PATH|PYTHON(DONTWRITEBYTECODE|PYCACHEPREFIX)|FLEET_(TEST_\w+|SEED|SOAK)|PYTEST_\w+"
)
#: Programs that fleet looks for: a test that needs one puts its own on PATH.
HIDDEN = frozenset(CODERS) | {"bd", "gh"}


def isolate() -> None:
    """Give this process, and all that it starts, the same environment on every machine."""
    base = Path(tempfile.mkdtemp(prefix="fleet-test-env-"))
    atexit.register(shutil.rmtree, base, ignore_errors=True)
    base.chmod(0o755)  # for programs that tests start as other users
    (base / "home").mkdir(mode=0o700)
    kept = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name)}
    folders = (Path(folder) for folder in kept.get("PATH", os.defpath).split(os.pathsep))
    kept["PATH"] = os.pathsep.join(str(without_hidden(folder, base)) for folder in folders)
    os.environ.clear()
    os.environ.update(kept, HOME=str(base / "home"), LANG="C.UTF-8", TZ="UTC")
    os.environ.update(GIT_CONFIG_GLOBAL=os.devnull, GIT_CONFIG_NOSYSTEM="1")
    os.umask(0o022)
    time.tzset()


def without_hidden(folder: Path, base: Path) -> Path:
    """Return the folder if it has no hidden program, else a folder with links to all its others."""
    if not any(shutil.which(name, path=str(folder)) for name in HIDDEN):
        return folder
    links = Path(tempfile.mkdtemp(prefix="bin-", dir=base))
    links.chmod(0o755)
    for program in folder.iterdir():
        if program.name not in HIDDEN:
            (links / program.name).symlink_to(program.absolute())
    return links
