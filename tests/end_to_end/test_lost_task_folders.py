"""A home whose tasks folder is missing or not a folder: tasks wait uncounted, and run once the folder is back."""

from collections.abc import Callable
from pathlib import Path

import pytest

from supervised import Supervised, home, wait_for

__all__ = ["home"]


def lose_all(home: Supervised, key: str) -> tuple[Path, Path]:
    """Move the folder of all tasks away. Return the places to move between."""
    place = home.fleet.home / "tasks"
    return place.rename(home.fleet.user / "tasks"), place


def put_file(home: Supervised, key: str) -> tuple[Path, Path]:
    """Replace a task's folder by a file. Return the places to move between."""
    place, aside = home.fleet.home / "tasks" / key, home.fleet.user / "folder"
    if place.exists():
        place.rename(aside)
    else:
        aside.mkdir(mode=0o700)
    place.touch()
    return aside, place


@pytest.mark.parametrize("lose", [lose_all, put_file])
def test_task_waits_uncounted_when_its_folder_cannot_be_created(
    home: Supervised, lose: Callable[[Supervised, str], tuple[Path, Path]]
) -> None:
    home.set("limits.retry_limit=1")
    key = home.create("ok")
    aside, place = lose(home, key)
    home.start()
    wait_for(lambda: "could not be started" in home.task(key)["reason"], "the cause", home.describe)
    waiting = home.task(key)
    assert (waiting["status"], waiting["failures"]) == ("open", 0) and "[Errno" not in waiting["reason"]
    assert key in home.fleet("doctor").out
    if place.is_file():
        place.unlink()
    aside.rename(place)
    home.wait_status(key, "closed")
    assert home.task(key)["failures"] == 0
