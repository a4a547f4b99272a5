"""`fleet update`: real installers, real environments, and a directory of wheels that stands for an index."""

import json
import shutil
import subprocess
import sys
import sysconfig
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import needs
from fleet.actions.updates import PIP, PIPX, PLACE, SOURCE, UV, UV_TOOL, is_newer, judge
from fleet.core.task import Caller
from live_runs import Store, store
from program import Program

__all__ = ["store"]

ROOT = Path(__file__).parents[2]
OLD, NEW = "8.0.1", "8.0.2"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with fleet in two versions."""
    folder = tmp_path_factory.mktemp("wheels")
    for version in (OLD, NEW):
        source = tmp_path_factory.mktemp("source")
        shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("README.md", "LICENSE"):
            shutil.copy(ROOT / name, source)
        # What it needs is there already: see `environment`.
        head, _, rest = (ROOT / "pyproject.toml").read_text("utf-8").partition("dependencies = [")
        (source / "pyproject.toml").write_text(f"{head}dependencies = []{rest.partition(chr(10) + ']')[2]}", "utf-8")
        (source / "src" / "fleet" / "__init__.py").write_text(f'"""Fleet."""\n\n__version__ = "{version}"\n')
        build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
        subprocess.run(build, cwd=source, check=True, capture_output=True)
    return folder


class Installed:
    """A fleet that was installed into an environment of its own, and can be had in a newer version."""

    def __init__(self, fleet: Program, wheels: Path, base: Path) -> None:
        self.fleet, self.wheels, self.shop = fleet, wheels, base / "shop"
        self.venv = base / "venv"
        self.shop.mkdir()
        self.offer(OLD)
        for name in ("PIP_NO_INDEX", "UV_NO_INDEX", "UV_OFFLINE"):
            fleet.env[name] = "1"
        fleet.env |= {"PIP_FIND_LINKS": str(self.shop), "UV_FIND_LINKS": str(self.shop)}
        fleet.env |= {"UV_CACHE_DIR": str(base / "cache"), "PIP_CACHE_DIR": str(base / "pip")}

    def offer(self, version: str) -> None:
        [wheel] = self.wheels.glob(f"fleet-{version}-*.whl")
        shutil.copy(wheel, self.shop)

    def make(self, *installing: str) -> None:
        """An environment that finds what fleet needs, and pip, where these tests have it."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(self.venv)], check=True)
        self.lend(self.venv)
        python = str(self.venv / "bin" / "python")
        self.run(*(python if word == "PYTHON" else word for word in installing))
        self.fleet.argv = [str(self.venv / "bin" / "fleet")]

    def lend(self, venv: Path) -> None:
        [site] = venv.glob("lib/*/site-packages")
        (site / "lent.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")

    def run(self, *words: str) -> None:
        done = subprocess.run(words, env=self.fleet.env, capture_output=True, cwd=self.shop)
        assert done.returncode == 0, done


@pytest.fixture
def installed(fleet: Program, wheels: Path, tmp_path: Path) -> Installed:
    return Installed(fleet, wheels, tmp_path)


def with_uv(fleet: Program) -> str:
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    needs.require(uv is not None, "uv")
    assert uv is not None
    fleet.env["PATH"] = f"{Path(uv).parent}:{fleet.env['PATH']}"
    return uv


# Where these tests are run, there is a fleet already.
PIP_INSTALL = ("PYTHON", "-m", "pip", "install", "--quiet", "--ignore-installed", "fleet")


def test_pip_installs_the_newer_version(installed: Installed) -> None:
    installed.make(*PIP_INSTALL)
    fleet = installed.fleet
    fleet.ok("init", "--home")
    assert fleet.ok("update") == f"fleet {OLD} is the newest version\n"
    installed.offer(NEW)
    assert fleet.ok("update") == f"fleet {OLD} is the newest version\n", "an answer holds for a day"
    assert fleet.ok("update", "--check", "--force") == (
        f"fleet {NEW} can be had; this is {OLD}. `fleet update` installs it\n"
    )
    assert fleet.ok("--version") == f"fleet {OLD}\n", "--check changes nothing"
    done = fleet("update")
    assert (done.code, done.out) == (0, f"fleet {OLD} was updated to {NEW}\n"), done
    assert "`fleet run`" in done.err
    assert fleet.ok("--version") == f"fleet {NEW}\n"
    assert fleet.ok("update", "--check") == f"fleet {NEW} is the newest version\n", "the old answer is not this one's"


def test_uv_updates_what_uv_installed(installed: Installed) -> None:
    uv = with_uv(installed.fleet)
    installed.make(uv, "pip", "install", "--quiet", "--python", "PYTHON", "fleet")
    installed.offer(NEW)
    assert f"fleet {NEW} can be had" in installed.fleet.ok("update", "--check")
    assert installed.fleet.ok("update") == f"fleet {OLD} was updated to {NEW}\n"
    assert installed.fleet.ok("update") == f"fleet {NEW} is the newest version\n"


def test_uv_updates_its_tools(installed: Installed, tmp_path: Path) -> None:
    uv, fleet = with_uv(installed.fleet), installed.fleet
    fleet.env |= {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    installed.run(uv, "tool", "install", "--quiet", "--python", sys.executable, "fleet")
    installed.lend(tmp_path / "tools" / "fleet")
    fleet.argv = [str(tmp_path / "bin" / "fleet")]
    installed.offer(NEW)
    done = fleet("update")
    assert (done.code, done.out) == (0, f"fleet {OLD} was updated to {NEW}\n"), done
    assert "with uv tool" in done.err


def nothing_to_be_had(installed: Installed) -> None:
    for wheel in installed.shop.iterdir():
        wheel.unlink()


def test_pip_that_reaches_no_index_does_not_make_this_the_newest(installed: Installed) -> None:
    installed.make(*PIP_INSTALL)
    nothing_to_be_had(installed)
    for args in ([], ["--check"]):
        done = installed.fleet("update", *args)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("error: pip could not tell the newest version: ") and "online?" in done.err


def test_uv_that_reaches_no_index_does_not_make_this_the_newest(installed: Installed) -> None:
    uv = with_uv(installed.fleet)
    installed.make(uv, "pip", "install", "--quiet", "--python", "PYTHON", "fleet")
    nothing_to_be_had(installed)
    done = installed.fleet("update", "--check")
    assert (done.code, done.out) == (1, "") and done.err.startswith("error: uv could not tell the newest version: ")
    done = installed.fleet("update", "--check", PATH=str(installed.venv))
    assert done.code == 1 and "uv, which is not on PATH" in done.err


def test_an_answer_is_asked_for_again_after_a_day_and_when_it_cannot_be_read(installed: Installed) -> None:
    installed.make(*PIP_INSTALL)
    fleet = installed.fleet
    fleet.ok("init", "--home")
    fleet.ok("update", "--check")
    kept = fleet.home / "newest.json"
    answer = json.loads(kept.read_text())
    assert answer["newer"] is None and kept.stat().st_mode & 0o777 == 0o600
    installed.offer(NEW)

    def asked_at(moment: datetime) -> str:
        return json.dumps(answer | {"asked_at": moment.isoformat()})

    now, hour = datetime.now(UTC), timedelta(hours=1)
    kept.write_text(asked_at(now - 23 * hour))
    assert "(asked 23 h ago; --force asks anew)" in fleet.ok("update", "--check")
    for text in (asked_at(now - 25 * hour), asked_at(now + 5 * hour), "[]"):
        kept.write_text(text)
        assert f"fleet {NEW} can be had" in fleet.ok("update", "--check"), text


def test_files_of_the_current_directory_are_not_obeyed(installed: Installed) -> None:
    installed.make(*PIP_INSTALL)
    cwd = installed.fleet.cwd
    for name in ("pip.py", "json.py", "subprocess.py", "sitecustomize.py"):
        (cwd / name).write_text("import pathlib; pathlib.Path(__file__).with_name('obeyed').touch()\n")
    installed.offer(NEW)
    assert NEW in installed.fleet.ok("update", "--check")
    assert not (cwd / "obeyed").exists()


def test_a_checkout_is_left_alone_and_the_way_is_told(fleet: Program) -> None:
    for args in ([], ["--check"]):
        out = fleet.ok("update", *args)
        assert f"runs from a checkout of its source {ROOT}" in out and f"git -C {ROOT} pull" in out
    assert not fleet.home.exists()


def test_an_agent_may_not_update_fleet(installed: Installed, store: Store) -> None:
    installed.make(*PIP_INSTALL)
    installed.offer(NEW)
    task = store.create("a task")
    claim, run = store.begin(task)
    token = store.queue.admit(claim, Caller(task_id=task, run_id=run.id, epoch=claim.epoch))
    done = installed.fleet("update", FLEET_RUN_TOKEN=token)
    assert done.code == 1 and "an agent may not update fleet" in done.err
    assert installed.fleet.ok("--version") == f"fleet {OLD}\n"


@pytest.mark.parametrize(
    ("origin", "installer", "in_prefix", "by", "where"),
    [
        ("", "pip\n", ["bin", "lib"], PIP, ""),
        ("", "uv\n", ["bin", "lib"], UV, ""),
        ("", "pip\n", ["bin", "pipx_metadata.json"], PIPX, ""),
        ("", "uv\n", ["bin", "uv-receipt.toml"], UV_TOOL, ""),
        ("", "", [], PIP, ""),
        ('{"url": "file:///a%20b", "dir_info": {"editable": true}}', "pip", [], SOURCE, "/a b"),
        ('{"url": "file:///a%20b", "dir_info": {}}', "uv", ["uv-receipt.toml"], PLACE, "/a b"),
        ('{"url": "file:///f.whl", "archive_info": {}}', "pip", [], PLACE, "/f.whl"),
        ('{"url": "https://host.invalid/f", "vcs_info": {}}', "pip", [], PLACE, "https://host.invalid/f"),
    ],
)
def test_an_installation_is_known_by_the_marks_it_left(
    origin: str, installer: str, in_prefix: list[str], by: str, where: str
) -> None:
    found = judge(origin, installer, in_prefix)
    assert found == (by, where)
    assert found.has_index == (not origin), "by its name alone, somebody else's package could be meant"


@pytest.mark.parametrize(
    ("version", "than", "newer"),
    [
        ("0.2.0", "0.1.9", True),
        ("0.10.0", "0.9.0", True),
        ("1.0", "1.0.0", False),
        ("1.0.0", "1.0.0rc1", True),
        ("1.0.0rc1", "1.0.0", False),
        ("0.1.0", "0.2.0", False),
        ("1.0.1.dev3", "1.0.0", True),
        ("", "0.1.0", False),
        ("nonsense", "0.1.0", False),
    ],
)
def test_a_version_is_newer_by_its_numbers(version: str, than: str, newer: bool) -> None:
    assert is_newer(version, than) is newer
