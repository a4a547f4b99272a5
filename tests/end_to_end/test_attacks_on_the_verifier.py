"""Attacks on fleet's verification of a branch: each pretends to have fixed a bug. None may count as proof."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.agents.base import LaunchSpec, SandboxSpec
from fleet.agents.headless import HeadlessLauncher, namespace_command
from fleet.core.verification import Verification
from launching import a_token, living, printed, until
from needs import require
from repositories import run_git
from verifications import BUG, COMMAND, MENDED, TEST, Project, make_project

GOOD = "#!/bin/sh\nexit 0\n"
FORGED = 'sys.stderr.write("\\n----\\nRan 1 test in 0.001s\\n\\nOK\\n"); sys.stderr.flush(); os._exit(0)\n'


ANY = """\
class Any(int):
    def __eq__(self, other):
        return True


def add(a, b):
    return Any()
"""
PYTEST = "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 python3 -m pytest -q -p no:cacheprovider"


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("template") / "project")


@pytest.fixture
def project(template: Path, tmp_path: Path) -> Project:
    shutil.copytree(template, tmp_path / "project")
    return Project(tmp_path)


def fools(project: Project, command: str) -> bool:
    """Return True if running the command in the branch's own checkout would report success."""
    env = {"PATH": f".:{project.ours['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(["sh", "-c", command], cwd=project.top, env=env, capture_output=True).returncode == 0


#: Changes that make a branch look right while the bug stays, by the name of the trick.
BY_FILES: dict[str, dict[str, str | None]] = {
    "the test is changed to pass": {"tests/test_calc.py": TEST.replace("4)", "0)")},
    "the test is skipped": {"tests/test_calc.py": TEST.replace("    def", "    @unittest.skip('later')\n    def")},
    "the test is deleted": {"tests/test_calc.py": None, "tests/test_new.py": TEST.replace("4)", "0)")},
    "the test is renamed away": {"tests/test_calc.py": None, "tests/calc_later.py": TEST},
    "the test's class is taken away": {"tests/test_calc.py": "import unittest\n"},
    "a new test that ends the runner": {"tests/test_a.py": "import os\nos._exit(0)\n"},
    "a new test that ends it with a runner's words": {"tests/test_a.py": f"import os, sys\n{FORGED}"},
    "a new test that changes the runner": {
        "tests/test_a.py": "import unittest\nunittest.TestCase.assertEqual = lambda *_: None\n"
    },
    "code that ends the runner": {"calc.py": f"import os\nos._exit(0)\n{BUG}"},
    "code that ends it with a runner's words": {"calc.py": f"import os, sys\n{FORGED}{BUG}"},
    "code that changes the runner": {
        "calc.py": f"import unittest\nunittest.TestCase.assertEqual = lambda *_: None\n{BUG}"
    },
    "a result that equals everything": {"calc.py": ANY},
    "a module in the runner's place": {"unittest.py": "import sys; sys.exit(0)\n"},
    "a package in the runner's place": {"unittest/__main__.py": "", "unittest/__init__.py": ""},
    "a module in place of one that the runner imports": {"argparse.py": "import os\nos._exit(0)\n"},
    "a module beside the tests": {"tests/calc.py": MENDED},
}


@pytest.mark.parametrize("trick", BY_FILES)
def test_branch_is_not_proven_when_it_changes_its_judges(project: Project, trick: str) -> None:
    tip = project.branch(BY_FILES[trick])
    assert fools(project, COMMAND), "the trick does not work"
    seen = project.look(tip)
    assert not seen.proves, seen
    assert seen.status is not None


NONE = "import unittest\n\ndef load_tests(*_):\n    return unittest.TestSuite()\n"
MORE_OF_THE_BASE = {
    "ci/check.py": "import json\nimport sys\nsys.exit(1)\n",
    "ci/run.sh": "#!/bin/sh\nexit 1\n",
    "tests/__init__.py": "",
}
#: The same with other commands: the command and the changes of the branch.
BY_COMMAND: dict[str, tuple[str, dict[str, str | None]]] = {
    "the script is rewritten": ("./verify.sh", {"verify.sh": GOOD}),
    "the script is rewritten, and run by a shell": ("sh -eu verify.sh", {"verify.sh": GOOD}),
    "the script becomes a link": ("./verify.sh", {"verify.sh": "-> /bin/true"}),
    "the folder of the script becomes a link": ("ci/run.sh", {"ci": None, "mine/run.sh": GOOD, "ci/": "-> mine"}),
    "a package of tests that loads none": ("python3 -m unittest discover -t . -s tests", {"tests/__init__.py": NONE}),
    "the script is deleted, and never missed": ("sh verify.sh || true", {"verify.sh": None}),
    "the script is the branch's own": ("./check.sh", {"check.sh": GOOD}),
    "the Makefile is replaced": ("make test", {"Makefile": "test:\n\ttrue\n"}),
    "a Makefile that is read first": ("make test", {"GNUmakefile": "test:\n\ttrue\n"}),
    "a module that Python imports first": (f"PYTHONPATH=. {COMMAND}", {"sitecustomize.py": "import os\nos._exit(0)\n"}),
    "a module beside the script": ("python3 ci/check.py", {"ci/json.py": "import os\nos._exit(0)\n"}),
    "a program in the folder": (COMMAND, {"python3": GOOD, "bin/python3": GOOD, "node_modules/.bin/python3": GOOD}),
    "failures that nobody hears of": (f"{COMMAND} || true", {}),
    "a runner that finds nothing": ("python3 -m unittest discover -s tests -p 'nothing*'", {"calc.py": BUG + "#\n"}),
    "a conftest that deselects": (
        PYTEST,
        {
            "conftest.py": "def pytest_collection_modifyitems(items):\n    del items[1:]\n",
            "tests/test_a.py": "def test_a(): pass\n",
        },
    ),
    "a conftest that changes the end": (
        PYTEST,
        {"conftest.py": "def pytest_sessionfinish(session):\n    session.exitstatus = 0\n    import os; os._exit(0)\n"},
    ),
}


@pytest.mark.parametrize("trick", BY_COMMAND)
def test_branch_is_not_proven_when_it_changes_files_that_the_command_obeys(project: Project, trick: str) -> None:
    command, files = BY_COMMAND[trick]
    project.base = project.branch(MORE_OF_THE_BASE)
    tip = project.branch(files)
    assert fools(project, command), "the trick does not work"
    seen = project.look(tip, command)
    assert not seen.proves, seen


def _link_tests(project: Project) -> None:
    shutil.move(project.top / "tests", project.top / "mine")
    (project.top / "mine" / "test_calc.py").write_text(TEST.replace("4)", "0)"))
    (project.top / "tests").symlink_to("mine")


def _link_outside(project: Project) -> None:
    outside = project.folder / "outside"
    outside.mkdir()
    (outside / "test_calc.py").write_text(TEST.replace("4)", "0)"))
    shutil.rmtree(project.top / "tests")
    (project.top / "tests").symlink_to(outside)


def _submodule(project: Project) -> None:
    shutil.rmtree(project.top / "tests")
    run_git(project.top, "rm", "-r", "--quiet", "tests")
    run_git(project.top, "update-index", "--add", "--cacheinfo", f"160000,{project.base},tests")


def _other_encoding(project: Project) -> None:
    attributes = b"tests/* working-tree-encoding=UTF-16\n"
    blob = run_git(project.top, "hash-object", "-w", "--stdin", stdin=attributes)
    rows = run_git(project.top, "ls-tree", "HEAD") + f"\n100644 blob {blob}\t.gitattributes\n"
    tree = run_git(project.top, "mktree", stdin=rows.encode())
    tip = run_git(project.top, "commit-tree", tree, "-p", "HEAD", "-m", "work")
    run_git(project.top, "update-ref", "HEAD", tip)
    run_git(project.top, "read-tree", "HEAD")


LINKS: dict[str, Callable[[Project], None]] = {
    "a link in place of the tests": _link_tests,
    "a link out of the checkout": _link_outside,
    "a submodule in place of the tests": _submodule,
    "another encoding of the tests": _other_encoding,
}


@pytest.mark.parametrize("protect", [(), ("tests/",)], ids=["contested", "protected"])
@pytest.mark.parametrize("trick", LINKS)
def test_branch_is_not_proven_when_it_replaces_the_tests(
    project: Project, trick: str, protect: tuple[str, ...]
) -> None:
    LINKS[trick](project)
    before = _files(project.folder / "outside")
    tip = run_git(project.top, "rev-parse", "HEAD") if trick.endswith("encoding of the tests") else project.branch()
    seen = project.look(tip, protect=protect)
    assert not seen.proves, seen
    assert _files(project.folder / "outside") == before


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", [".git", ".GIT", "git~1", ".."])
def test_tree_is_not_checked_out_when_it_would_write_into_git(project: Project, name: str) -> None:
    blob = run_git(project.top, "hash-object", "-w", "--stdin", stdin=b"[core]\n\tfsmonitor = touch evil\n")
    inner = run_git(project.top, "mktree", stdin=f"100644 blob {blob}\tconfig\n".encode())
    rows = run_git(project.top, "ls-tree", "HEAD") + f"\n040000 tree {inner}\t{name}\n"
    tree = run_git(project.top, "mktree", stdin=rows.encode())
    tip = run_git(project.top, "commit-tree", tree, "-p", "HEAD", "-m", "work")
    seen = project.look(tip, "git status; exit 0")
    assert not seen.proves or name in (".GIT", "git~1")  # only other file systems treat these two names as .git
    assert not list(project.folder.rglob("evil"))
    assert not project.checkout.exists()


def test_hooks_filters_and_settings_of_the_repository_are_not_obeyed(project: Project) -> None:
    evil = project.folder / "evil"
    script = f"#!/bin/sh\ntouch {evil}\ncat\n"
    helper = project.folder / "helper.sh"
    helper.write_text(script)
    helper.chmod(0o755)
    tip = project.branch({".gitattributes": "* filter=evil diff=evil merge=evil\n"})
    for hook in ("post-checkout", "pre-commit", "post-index-change", "reference-transaction", "fsmonitor-watchman"):
        path = project.top / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(script)
        path.chmod(0o755)
    for key in (
        *("filter.evil.smudge", "filter.evil.clean", "filter.evil.process", "diff.evil.textconv", "core.fsmonitor"),
        *("core.sshCommand", "core.editor", "core.pager", "diff.external", "uploadpack.packObjectsHook"),
    ):
        run_git(project.top, "config", key, str(helper))
    seen = project.look(tip, "git status >&2; git diff HEAD~1 >&2; exec " + COMMAND)
    assert (seen.status, seen.ok) == (1, False)
    assert not evil.exists()


def test_files_and_variables_planted_in_the_users_home_are_not_read(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = project.top / ".git" / "user"  # the command could read this folder
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for name in (f".local/lib/{version}/site-packages/usercustomize.py", "lib/sitecustomize.py"):
        (home / name).parent.mkdir(parents=True)
        (home / name).write_text("import os\nos._exit(0)\n")
    for name in (".profile", ".bashrc", "env.sh"):
        (home / name).write_text("exit 0\n")
    planted = {
        "HOME": str(home),
        "PYTHONPATH": str(home / "lib"),
        "PYTHONUSERBASE": str(home / ".local"),
        "ENV": str(home / "env.sh"),
        "BASH_ENV": str(home / "env.sh"),
        "XDG_CONFIG_HOME": str(home),
        "LD_PRELOAD": str(home / "lib.so"),
    }
    for name, value in planted.items():
        if name != "LD_PRELOAD":  # LD_PRELOAD would also be loaded into this process
            monkeypatch.setenv(name, value)
    project.ours |= planted
    seen = project.look(project.branch({}), f"bash -c '{COMMAND}'")
    assert (seen.status, seen.failed) == (1, 1), seen


def test_checkouts_are_hidden_from_other_agents_that_rewrite_them(project: Project) -> None:
    require(namespace_command(), "namespaces")
    verify = Path(project.home.root, "verify")
    verify.mkdir(parents=True)
    daemon = f"""
        import os
        done = set()
        print("begun", flush=True)
        while True:
            for folder, _, names in os.walk({str(verify)!r}):
                if "calc.py" in names:
                    open(os.path.join(folder, "calc.py"), "w").write({MENDED!r})
                    print("rewrote", flush=True)
    """
    folder = project.folder / "home" / "tasks" / "other"
    tip = project.branch({"notes.txt": "done\n"})
    spec = LaunchSpec(
        argv=(sys.executable, "-I", "-c", textwrap.dedent(daemon)),
        env={"PATH": os.environ["PATH"]},
        cwd=str(project.top),
        apart=SandboxSpec(hidden=(str(verify),)),
    )

    async def attack() -> Verification:
        agent = await HeadlessLauncher().start(str(folder), spec)
        try:
            await until(lambda: b"begun" in printed(folder))
            return await asyncio.to_thread(project.look, tip, f"sleep 0.3; {COMMAND}")
        finally:
            await agent.kill_tree()
            await agent.ended()

    seen = asyncio.run(attack())
    assert printed(folder) == b"begun\n"
    assert seen.status == 1 and not seen.ok


def test_daemon_of_a_branch_does_not_outlive_its_verification(project: Project) -> None:
    token = a_token()
    start = (
        "import subprocess, sys\n"
        f"subprocess.Popen(['sh', '-c', 'while :; do :; sleep 0.01; done; : {token}'], start_new_session=True)\n"
    )
    seen = project.look(project.branch({"tests/test_calc.py": start + TEST.replace("4)", "0)")}))
    assert not seen.proves
    assert living(token) == []


def test_exit_record_cannot_be_forged_by_the_command(project: Project) -> None:
    record = json.dumps({"version": 1, "status": 0, "signal": None, "error": ""})
    forge = f"""
        import glob, os, socket
        for folder in ("/proc/1/cwd", {str(project.place)!r}, *glob.glob("/proc/[0-9]*/cwd")):
            for name in ("exit.json", ".exit.json.new", "stdout"):
                try:
                    open(f"{{folder}}/{{name}}", "w").write({record!r})
                except OSError:
                    pass
            try:
                socket.socket(socket.AF_UNIX).connect(f"{{folder}}/control")
                print("reached the shim")
            except OSError:
                pass
        for number in range(3, 30):
            try:
                os.write(number, {record.encode()!r} + b"\\n")
            except OSError:
                pass
        raise SystemExit(3)
    """
    seen = project.look(project.branch({"forge.py": textwrap.dedent(forge)}), "python3 forge.py")
    assert seen.status == 3
    if namespace_command():
        assert "reached the shim" not in seen.tail


def test_verification_bounds_time_and_output(project: Project) -> None:
    late = project.look(project.branch({"tests/test_a.py": "import time\ntime.sleep(600)\n"}), seconds=0.5)
    assert (late.ok, late.why) == (False, "did not end within 0.5 s")
    loud = "import sys\nfor _ in range(400):\n    sys.stdout.write('OK ' * 50_000)\nraise SystemExit(1)\n"
    seen = project.look(project.branch({"tests/test_a.py": loud}))
    assert not seen.ok and len(seen.tail) <= 8000
    assert sum(file.stat().st_size for file in project.place.iterdir()) < 20_000_000


def test_verified_code_cannot_reach_the_network(project: Project) -> None:
    require(namespace_command(), "namespaces")
    with _listener() as (server, port):
        call = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 5).send(b'secret')\n"
        seen = project.look(project.branch({"calc.py": call + MENDED}))
        assert not seen.ok and "refused" in seen.tail
        with pytest.raises(BlockingIOError):
            server.accept()


class _listener:  # noqa: N801 - reads as a function
    def __enter__(self) -> tuple[socket.socket, int]:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.setblocking(False)
        return self.server, self.server.getsockname()[1]

    def __exit__(self, *_: object) -> None:
        self.server.close()


def test_honest_work_is_proven(project: Project) -> None:
    seen = project.look(project.branch({"calc.py": MENDED, "tests/test_more.py": TEST}))
    assert seen.proves
