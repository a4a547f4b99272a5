"""`fleet update`: real installers, real environments, and a folder of wheels instead of an index."""

import os
import pty
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

import needs
from fleet.actions.control.update import PIP, PIPX, UV, UV_TOOL, Installation, commands, installed_extras, judge
from fleet.core.errors import FleetError
from fleet.core.task import Caller
from live_runs import Records, records
from program import Program

__all__ = ["records"]

ROOT = Path(__file__).parents[2]
OLD, NEW = "8.0.1", "8.0.2"


def write_source(folder: Path, version: str) -> None:
    """Write fleet's source with this version and without dependencies: see `Installed.make`."""
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    for name in ("README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    head, _, rest = (ROOT / "pyproject.toml").read_text("utf-8").partition("dependencies = [")
    rest = rest.partition("[project.scripts]")[2]
    (folder / "pyproject.toml").write_text(f"{head}dependencies = []\n\n[project.scripts]{rest}", "utf-8")
    (folder / "src" / "fleet" / "__init__.py").write_text(f'"""Fleet."""\n\n__version__ = "{version}"\n')


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two versions of fleet."""
    folder = tmp_path_factory.mktemp("wheels")
    for version in (OLD, NEW):
        source = tmp_path_factory.mktemp("source")
        write_source(source, version)
        build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
        subprocess.run(build, cwd=source, check=True, capture_output=True)
    return folder


class Installed:
    """A fleet installed into its own environment, and a newer version to update to."""

    def __init__(self, fleet: Program, wheels: Path, base: Path) -> None:
        self.fleet, self.wheels, self.shop = fleet, wheels, base / "shop"
        self.venv = base / "venv"
        self.shop.mkdir()
        self.offer(OLD)
        for name in ("PIP_NO_INDEX", "UV_NO_INDEX", "UV_OFFLINE"):
            fleet.env[name] = "1"
        fleet.env |= {"PIP_FIND_LINKS": str(self.shop), "UV_FIND_LINKS": str(self.shop)}
        fleet.env["UV_NO_BUILD_ISOLATION"] = "1"
        fleet.env |= {"UV_CACHE_DIR": str(base / "cache"), "PIP_CACHE_DIR": str(base / "pip")}

    def offer(self, version: str) -> None:
        [wheel] = self.wheels.glob(f"fleet_agents-{version}-*.whl")
        shutil.copy(wheel, self.shop)

    def make(self, *installing: str) -> None:
        """Create an environment that finds fleet's dependencies and pip where these tests have them."""
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


@pytest.fixture
def by_uv(installed: Installed) -> Installed:
    """Install the older version with uv into a venv, and offer the newer one."""
    installed.make(with_uv(installed.fleet), "pip", "install", "--quiet", "--python", "PYTHON", "fleet-agents")
    installed.offer(NEW)
    return installed


def test_update_shows_the_command_of_uv_and_runs_it_when_confirmed(by_uv: Installed, records: Records) -> None:
    fleet = by_uv.fleet
    for name in ("pip.py", "json.py", "subprocess.py", "sitecustomize.py", "uv.toml"):
        (fleet.cwd / name).write_text("import pathlib; pathlib.Path(__file__).with_name('obeyed').touch()\n")
    for name in ("fleet", "flt"):
        command = by_uv.venv / "bin" / name
        done = subprocess.run([command, "--version"], env=fleet.env, capture_output=True, text=True, check=True)
        assert done.stdout == f"fleet {OLD}\n"
    shown = fleet.ok("update", "--check")
    assert shown.startswith(f"fleet {OLD} was installed by uv:\n  uv pip install ")
    assert shown.endswith(" --upgrade-package fleet-agents fleet-agents\n")
    refused = fleet("update")
    assert (refused.code, refused.out) == (1, shown) and "no terminal to ask on" in refused.err
    assert asked(fleet, "n") == 130
    task = records.create("a task")
    claim, run = records.begin(task)
    token = records.store.tokens.issue(claim, Caller(task_id=task, run_id=run.id, epoch=claim.epoch))
    by_agent = fleet("update", "--yes", FLEET_RUN_TOKEN=token)
    assert by_agent.code == 1 and "an agent may not update fleet" in by_agent.err
    assert fleet.ok("--version") == f"fleet {OLD}\n"

    assert asked(fleet, "y") == 0
    assert fleet.ok("--version") == f"fleet {NEW}\n"
    assert fleet.ok("update", "--yes").endswith(f"fleet is unchanged: {NEW}\n")
    assert not (fleet.cwd / "obeyed").exists()
    failed = fleet("update", "--yes", UV_OFFLINE="neither")
    assert failed.code == 1 and "error: cannot update: uv failed with exit code" in failed.err
    lacking = fleet("update", "--yes", PATH=str(by_uv.venv))
    assert lacking.code == 1 and "uv is not on PATH" in lacking.err


def asked(fleet: Program, answer: str) -> int:
    """Run `fleet update` on a terminal and answer its question. Return the exit code."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "wb"), os.fdopen(theirs, "rb"):
        os.write(ours, f"{answer}\n".encode())
        done = subprocess.run(
            [*fleet.argv, "update"],
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            cwd=fleet.cwd,
            env=fleet.env,
        )
    return done.returncode


def test_update_refuses_when_the_distribution_is_not_fleets_own(by_uv: Installed) -> None:
    fleet = by_uv.fleet
    [info] = by_uv.venv.glob("lib/*/site-packages/fleet_agents-*.dist-info")
    [package] = by_uv.venv.glob("lib/*/site-packages/fleet")
    scripts = (info / "entry_points.txt").read_text()
    (info / "entry_points.txt").write_text("[console_scripts]\nfleet = fleet.cli:main\n")
    foreign = fleet("update", "--yes")
    (info / "entry_points.txt").write_text(scripts)
    beside = package.rename(by_uv.venv / "fleet")
    elsewhere = fleet("update", "--yes", PYTHONPATH=str(by_uv.venv))
    beside.rename(package)
    shutil.move(info, info.with_name(f"fleet-{OLD}.dist-info"))
    (info.with_name(f"fleet-{OLD}.dist-info") / "METADATA").write_text(f"Name: fleet\nVersion: {OLD}\n")
    other = fleet("update", "--yes", PYTHONPATH="")
    said = [each.err.splitlines()[0] for each in (foreign, elsewhere)]
    assert said[0] == "error: cannot update: the commands of the distribution fleet-agents do not belong to fleet"
    assert said[1].startswith("error: cannot update: the running fleet is in ")
    # The tests' own installation of fleet is also on this environment's path.
    assert other.err.startswith("error: cannot update: ")
    assert [each.code for each in (foreign, elsewhere, other)] == [1, 1, 1]
    assert fleet.ok("--version") == f"fleet {OLD}\n"


def test_update_by_pip_installs_the_newer_version(installed: Installed) -> None:
    # Another fleet is installed in the environment of these tests.
    installed.make("PYTHON", "-m", "pip", "install", "--quiet", "--ignore-installed", "fleet-agents")
    installed.offer(NEW)
    done = installed.fleet("update", "--yes")
    assert done.code == 0 and done.out.endswith(f"fleet {OLD} was updated to {NEW}\n"), done
    assert "-P -m pip install --upgrade fleet-agents\n" in done.out and "`fleet run restart`" in done.err


def test_update_by_uv_updates_its_tools(installed: Installed, tmp_path: Path) -> None:
    uv, fleet = with_uv(installed.fleet), installed.fleet
    fleet.env |= {"UV_TOOL_DIR": str(tmp_path / "tools"), "UV_TOOL_BIN_DIR": str(tmp_path / "bin")}
    installed.run(uv, "tool", "install", "--quiet", "--python", sys.executable, "fleet-agents")
    installed.lend(tmp_path / "tools" / "fleet-agents")
    fleet.argv = [str(tmp_path / "bin" / "flt")]
    installed.offer(NEW)
    done = fleet("update", "--yes")
    assert done.code == 0 and done.out.endswith(f"fleet {OLD} was updated to {NEW}\n"), done
    assert "  uv tool upgrade fleet-agents\n" in done.out


def test_update_of_a_clone_pulls_and_installs_again(installed: Installed, tmp_path: Path) -> None:
    upstream, clone = tmp_path / "upstream", tmp_path / "clone"

    def git(*words: str) -> None:
        who = ("-c", "user.name=t", "-c", "user.email=t@example.invalid")
        subprocess.run(["git", *who, *words], cwd=upstream, check=True, capture_output=True)

    upstream.mkdir()
    git("init", "--quiet")
    for version in (OLD, NEW):
        write_source(upstream, version)
        git("add", "--all")
        git("commit", "--quiet", "--message", version)
        if version == OLD:
            git("clone", "--quiet", str(upstream), str(clone))
    uv, fleet = with_uv(installed.fleet), installed.fleet
    installed.make(uv, "pip", "install", "--quiet", "--python", "PYTHON", "--editable", str(clone))
    done = fleet("update", "--yes")
    assert done.code == 0 and done.out.endswith(f"fleet {OLD} was updated to {NEW}\n"), done
    assert f"by uv from {clone}:\n  git -C {clone} pull --ff-only\n  uv pip install " in done.out
    shutil.rmtree(clone / ".git")
    assert "which is not a clone" in fleet("update", "--yes").err


def test_update_refuses_an_environment_of_another_program(by_uv: Installed) -> None:
    (by_uv.venv / "uv-receipt.toml").touch()
    done = by_uv.fleet("update", "--yes")
    assert done.code == 1 and f"uv tool environment {by_uv.venv}of another program" in done.err


@pytest.mark.parametrize(
    ("origin", "installer", "in_prefix", "found"),
    [
        ("", "pip\n", ["bin", "lib"], Installation(PIP)),
        ("", "uv\n", ["bin", "lib"], Installation(UV)),
        ("", "pip\n", ["bin", "pipx_metadata.json"], Installation(PIPX)),
        ("", "uv\n", ["bin", "uv-receipt.toml"], Installation(UV_TOOL)),
        ("", "", [], Installation(PIP)),
        ('{"url": "file:///a%20b", "dir_info": {"editable": true}}', "pip", [], Installation(PIP, "/a b", True)),
        ('{"url": "file:///a%20b", "dir_info": {}}', "uv", ["uv-receipt.toml"], Installation(UV_TOOL, "/a b")),
        (
            '{"url": "https://host.invalid/f", "vcs_info": {"vcs": "git", "requested_revision": "v1"}}',
            "pip",
            [],
            Installation(PIP, source="git+https://host.invalid/f@v1"),
        ),
    ],
)
def test_installation_is_recognized_by_the_marks_it_left(
    origin: str, installer: str, in_prefix: list[str], found: Installation
) -> None:
    assert judge(origin, installer, in_prefix) == found


def test_wheel_from_a_file_has_no_newer_version() -> None:
    with pytest.raises(FleetError, match="installed from the file"):
        judge('{"url": "file:///f.whl", "archive_info": {}}', "pip", [])


def test_same_extras_are_installed_again(tmp_path: Path) -> None:
    wanted = ("click>=8 ; extra == 'one'", "nonesuch; extra == 'two'", "click[x]<9 ; extra == 'two'", "click>=8")
    lines = "".join(f"Requires-Dist: {each}\n" for each in wanted)
    (tmp_path / "METADATA").write_text(f"Metadata-Version: 2.3\nName: fleet-agents\nVersion: 1\n{lines}")
    extras = installed_extras(PathDistribution(tmp_path))
    assert extras == ("one",)
    (tmp_path / ".git").mkdir()
    [pull, again] = commands(Installation(UV, str(tmp_path), True, extras=extras))
    assert pull == ["git", "-C", str(tmp_path), "pull", "--ff-only"]
    assert again[-2:] == ["--editable", f"{tmp_path}[one]"]
    remote = commands(Installation(PIP, source="git+https://host.invalid/f", extras=extras))
    assert remote[0][-1] == "fleet-agents[one] @ git+https://host.invalid/f"
    assert commands(Installation(UV_TOOL, str(tmp_path)))[1:] == [
        ["uv", "tool", "upgrade", "--reinstall-package", "fleet-agents", "fleet-agents"]
    ]
