"""Judges outside of a branch: the receipt names them, and a change of one during the run voids the proof."""

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corpus.case import MEND, Case, bash, commit, honest, step
from corpus.playing import Stage
from fleet.proof.verify import reach
from fleet.proof.verify.reach import VerifyInputs
from program import Result

PYTEST = "#!/bin/sh\necho '1 passed in 0.1s'\n"


def write(path: Path, text: str = "x\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    path.chmod(0o755)
    return path


def told(asked: VerifyInputs, before: str) -> str:
    return "; ".join(reach.changed(asked, before, began(asked)).doubts)


def began(asked: VerifyInputs) -> float:
    """Return a time just before the newest file that a test wrote."""
    return max(each.stat().st_ctime for each in Path(asked.directory).rglob("*")) - 0.001


def test_planted_programs_and_files_are_named(tmp_path: Path) -> None:
    top, tools = tmp_path / "top", tmp_path / "tools"
    for name in ("node_modules/a/index.js", ".venv/bin/pytest", ".venv/pyvenv.cfg", ".venv/lib/x.py", "src/a.py"):
        write(top / name, PYTEST)
    write(tools / "check", f"#!{sys.executable}\n")
    path = f"{tools}:{top}/.venv/bin:/usr/bin:/bin"
    asked = VerifyInputs("X=1 timeout 5 check && pytest -q", path, str(top), str(tmp_path / "home" / "verify"))
    plants: tuple[Callable[[], Path], ...] = (
        lambda: write(top / ".venv/bin/pytest", "#!/bin/sh\ntrue\n"),
        lambda: write(top / ".venv/lib/new.pth"),
        lambda: write(top / "node_modules/a/index.js", "evil"),
        lambda: write(tools / "check", "#!/bin/sh\n"),
        lambda: write(tmp_path / "pytest.ini", "[pytest]\naddopts = -p evil\n"),
        lambda: write(tmp_path / ".cargo/config.toml", "[target]\n"),
    )
    for plant in plants:
        before = reach.mark(asked)
        assert told(asked, before) == ""
        planted = plant()
        assert planted.name in told(asked, before), planted
    before = reach.mark(asked)
    seen = (top / ".venv/lib/x.py").stat()
    write(top / ".venv/lib/x.py", PYTEST.replace("1", "2"))
    os.utime(top / ".venv/lib/x.py", ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert "x.py" in told(asked, before), "its size and mtime are as they were"
    before = reach.mark(asked)
    (top / "node_modules/a/index.js").unlink()
    assert "node_modules" in told(asked, before)
    before = reach.mark(asked)
    assert write(tools / "env").name in told(asked, before), "it is run in place of another that has this name"
    before = reach.mark(asked)
    assert reach.changed(asked._replace(path="/bin"), before, began(asked)) == reach.InputDifferences(), (
        "of another supervisor"
    )
    new = write(tools / "pytest", PYTEST)
    assert f"is {new} now" in told(asked, before)


def test_ordinary_changes_beside_a_run_cause_no_doubt(tmp_path: Path) -> None:
    top, tools = tmp_path / "top", tmp_path / "tools"
    for name in (".venv/pyvenv.cfg", ".venv/lib/x.py", "node_modules/a/index.js", "src/a.py"):
        write(top / name)
    store = write(tmp_path / "store" / "shared.py")
    os.link(store, top / ".venv/lib/shared.py")
    write(tools / "check")
    asked = VerifyInputs("check > /tmp/x.log", f"{tools}:/usr/bin:/bin", str(top), str(tmp_path / "home" / "verify"))
    before = reach.mark(asked)
    write(top / "src/a.py", "the user's own work")
    write(top / "target/debug/x")
    write(top / "node_modules/.cache/x")
    write(tools / "another")
    os.link(store, tmp_path / "worktree-shared.py")
    for again in range(2):  # tools that create links to programs recreate all of them
        (tools / "sh").unlink(missing_ok=True)
        (tools / "sh").symlink_to("/bin/sh")
        before = reach.mark(asked) if again == 0 else before
    assert reach.changed(asked, before, 0) == reach.InputDifferences()
    write(top / ".venv/lib/__pycache__/x.cpython-311.pyc")
    assert reach.changed(asked, before, 0) == reach.InputDifferences(bytecode=True)
    assert reach.changed(asked._replace(command="check -I"), reach.mark(asked), 0).doubts == ()


def test_folder_with_too_many_files_is_reported_as_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach, "MOST_FILES", 3)
    for number in range(5):
        write(tmp_path / "top/node_modules" / str(number))
    asked = VerifyInputs("true", "/usr/bin:/bin", str(tmp_path / "top"), str(tmp_path / "home" / "verify"))
    found = reach.changed(asked, reach.mark(asked), 0)
    assert not found.doubts and "too many files" in found.notes[0]
    for number in range(3):
        (tmp_path / "top/node_modules" / str(number)).unlink()
    before = reach.mark(asked)
    for number in range(9):
        write(tmp_path / "top/node_modules" / str(number))
    assert "node_modules" in str(reach.changed(asked, before, 0).doubts), "more files hide nothing"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("stage"))
    try:
        yield made
    finally:
        made.stop()


def test_receipt_names_its_judges_and_planted_programs_prove_nothing(stage: Stage) -> None:
    top = stage.projects / "calc"
    tests = write(top / ".venv/bin/run-tests", "#!/bin/sh\nexec python3 -S -m unittest discover -s tests\n")
    other = stage.projects / "own" / "plants" / ".venv/bin/run-tests"
    script = "plant.py", f"open('{other}', 'w').write('#!/bin/sh\\n:\\n')\n"
    plant = step("write", *script), bash("python3 plant.py && rm plant.py")
    cases: list[Case] = [
        honest("honest", MEND, commit(), verify=str(tests)),
        honest("plants", MEND, commit(), *plant, own=True, verify=str(other)),
    ]
    first, second = stage.play(cases)
    words = stage.fleet.ok("receipt", first.task)
    assert (first.status, first.finding) == ("closed", "verified"), (first, words)
    assert f"{tests} (" in words and "/bin/sh (" in words, words
    shown: Result = stage.fleet("receipt", second.task)
    assert (second.status, second.finding) == ("closed", "unverified"), shown.out
    assert "run-tests" in second.shown
