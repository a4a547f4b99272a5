"""A run of the tests that leaves something behind: it names the leftovers, removes them, and fails."""

import os
import subprocess
import sys
from pathlib import Path

from supervised import wait_for

TESTS = Path(__file__).parent
#: A test that leaves a file, a mount, and a process without parent and environment.
UNTIDY = """
import os
import subprocess
from pathlib import Path

def test_untidy(tmp_path):
    folder = Path(__file__).parent
    (folder / ".fleet").mkdir()
    (tmp_path / "mount").mkdir()
    if os.geteuid() == 0:
        subprocess.run(["mount", "-t", "tmpfs", "none", tmp_path / "mount"], check=True)
    with (folder / "pid").open("w") as pid:
        subprocess.run(["sh", "-c", "env -i sleep 600 & echo $!"], stdout=pid, cwd=tmp_path, check=True)
"""
#: A test beside which another program makes a file.
TIDY = """
import os
import subprocess
from pathlib import Path

def test_tidy(tmp_path):
    folder = Path(__file__).parent
    (folder / "notes" / "folder").write_text(str(tmp_path))
    if os.geteuid() == 0:
        subprocess.run(["touch", folder / "fleet-of-others"], group=0, check=True)
"""


def run_tests(folder: Path, text: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run this text as `make test` runs the tests, with another folder for temporary files."""
    (folder / "test_it.py").write_text(text)
    argv = [sys.executable, "-m", "pytest", "-p", "conftest", "-c", "/dev/null", "--rootdir", str(folder), *words]
    env = os.environ | {"TMPDIR": str(folder), "PYTHONPATH": str(TESTS)}
    return subprocess.run([*argv, str(folder)], cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_run_fails_when_a_test_leaves_something_behind(tmp_path: Path) -> None:
    done = run_tests(tmp_path, UNTIDY, "-n", "2")
    pid = int((tmp_path / "pid").read_text())
    assert done.returncode == 1, done.stdout
    assert f"process {pid}: sleep 600 (folder test_untidy0)" in done.stdout
    assert f"file {tmp_path}/.fleet" in done.stdout
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), "the process to end")
    if os.geteuid() == 0:
        assert "/test_untidy0/mount\n" in done.stdout
        assert "test_untidy0" not in Path("/proc/self/mountinfo").read_text()


def test_run_removes_its_folder_when_nothing_is_left_behind(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    done = run_tests(tmp_path, TIDY, "-n", "0")
    assert done.returncode == 0, done.stdout
    assert not Path((tmp_path / "notes" / "folder").read_text()).parents[1].exists()
