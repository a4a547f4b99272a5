"""What stands for a real bd that was asked the same before: it may never hide what bd would have done."""

import shutil
from contextlib import closing
from pathlib import Path

import beads
from builders import FakeClock, a_task
from remembered_bd import RememberedBd


def folders(base: Path, *names: str) -> list[str]:
    """So many copies of one home's folder."""
    beads.queue_in(base / "first", beads.NEW, FakeClock()).close()
    return [str(shutil.copytree(base / "first" / ".beads", base / name / ".beads")) for name in names]


def written(folder: str) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def test_what_bd_did_is_done_again_and_anything_else_is_asked_of_bd_itself(tmp_path: Path) -> None:
    first, second, other = folders(tmp_path, "a", "b", "c")
    words = ("create", "one", "--json")
    told = RememberedBd(beads.program(), first).run(*words)
    assert RememberedBd(beads.program(), second).run(*words) == told and written(second) == written(first)
    assert RememberedBd(beads.program(), second).run(*words) != told  # bd has one like it now, and makes another
    assert RememberedBd(beads.program(), other).run(*words, actor="ada") != told
    assert '"title": "one"' in RememberedBd(beads.program(), second).run("list", "--json")


def test_what_is_found_in_a_folder_was_written_there_by_bd(tmp_path: Path, clock: FakeClock) -> None:
    for name in ("a", "b"):
        with closing(beads.remembered_queue_in(tmp_path / name, beads.NEW, clock)) as queue:
            queue.add(a_task(id="fleet-1", title="the same"))
    with closing(beads.queue_in(tmp_path / "c", beads.NEW, clock)) as plain:
        shutil.rmtree(plain.folder)
        shutil.copytree(tmp_path / "b" / ".beads", plain.folder)
        assert plain.get("fleet-1").title == "the same"
