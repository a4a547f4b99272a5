"""Files of fleet's home belong to the user alone, whatever umask its commands and its supervisor have."""

import os
import stat
from pathlib import Path

from terminals import Terminals
from terminals import home as at_home

__all__ = ["at_home"]


def open_to_others(root: Path) -> list[str]:
    """Return paths of a home that other users could read or write, except files of agents and of git."""
    found = []
    for place, folders, files in os.walk(root):
        for path in (Path(place, name) for name in [*folders, *files]):
            mode = path.lstat().st_mode
            if not stat.S_ISLNK(mode) and mode & 0o077:
                found.append(f"{stat.S_IMODE(mode):04o} {path.relative_to(root)}")
        here = Path(place).relative_to(root).parts
        if here[-1:] == ("artifacts",) or (here[:1] == ("worktrees",) and len(here) == 3):
            folders.clear()
            found = [line for line in found if "/artifacts/" not in line and str(Path(*here)) + "/" not in line]
    return found


def test_everything_in_the_home_is_private_with_an_open_umask(at_home: Terminals) -> None:
    home = at_home
    script = home.fleet.user / "story"
    script.write_text(
        f"""
        set -e
        umask 000
        fleet init
        fleet config set --project verify.command=true
        fleet trust --yes
        fleet run start
        fleet create one -p "demo: steps=1" --headless
        fleet create two
        fleet bd create plain -d "demo: steps=1" --cwd {home.fleet.user}
        """
    )
    home.typed(f"sh {script}")
    assert stat.S_IMODE((home.repo / ".fleet").stat().st_mode) == 0o755, "no other user can write project files either"
    home.wait_listed("one", "finished")
    home.typed("umask 000; set -e; fleet merge one; fleet backup ../b.zip; fleet kill two --yes; fleet run stop")
    assert open_to_others(home.fleet.home) == []


def test_home_works_with_the_strictest_umask(at_home: Terminals) -> None:
    at_home.typed("umask 077; FLEET_HOME=$HOME/new fleet init --home --permissions user")
    made = at_home.fleet.user / "new"
    assert open_to_others(made) == []
    assert at_home.typed(f"{made}/bin/bd list --json").strip() == "[]"
