"""fleet's verification of a commit, with real git, real processes and real test runners."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from builders import a_task
from fleet.agents.headless import WEAK, HeadlessLauncher, namespace_command
from fleet.core.rules import Rules
from fleet.core.verification import Verification, VerifyRequest
from fleet.git.clean_checkout import sweep
from fleet.home import Home
from fleet.proof.verify.commit import VerifyFolders, verify, wanted_by
from fleet.settings import Settings
from fleet.supervisor.run.environment import verify_environment
from launching import a_token, living, until
from needs import require
from repositories import run_git
from verifications import BUG, MENDED, TEST, Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_honest_work_is_proven_and_leaves_nothing_behind(project: Project) -> None:
    seen = project.look(project.branch({"calc.py": MENDED}))
    assert seen.base == project.base and seen.commit != seen.base
    assert (seen.status, seen.why, seen.passed, seen.failed, seen.skipped) == (0, "", 1, 0, 0)
    assert (seen.restored, seen.contested, seen.doubts) == ((), (), ())
    assert seen.ok and seen.proves and "OK" in seen.tail and seen.seconds > 0
    assert not project.checkout.exists()
    assert sweep(project.view) == []
    assert run_git(project.top, "status", "--porcelain") == ""


def test_failing_work_is_not_proven_and_the_reason_is_given(project: Project) -> None:
    seen = project.look(project.branch({"calc.py": BUG + "# looked at\n"}))
    assert (seen.status, seen.failed, seen.ok, seen.proves) == (1, 1, False, False)
    assert "AssertionError: 0 != 4" in seen.tail
    assert seen.in_words == "ended with exit code 1"


MORE = TEST.replace("test_add", "test_more").replace("2, 2), 4", "1, 2), 3")


@pytest.mark.parametrize(
    ("files", "contested"),
    [
        ({"tests/test_more.py": MORE}, ()),
        ({"tests/test_calc.py": TEST + "\n    def test_more(self):\n        self.assertEqual(calc.add(1, 1), 2)\n"}, 1),
        ({"tests/data/numbers.txt": "1 2\n", "README.md": "# calc\n", "package.json": '{"name": "calc"}'}, ()),
        ({"pyproject.toml": '[project]\nname = "calc"\nversion = "1"\n', ".gitignore": "*.pyc\n"}, ()),
        ({"Makefile": "all:\n\ttrue\n"}, ()),
    ],
    ids=["a new test", "one more in a test", "other files", "a project file", "a file that the command does not obey"],
)
def test_honest_work_with_further_changes_is_proven(project: Project, files: dict[str, str], contested: object) -> None:
    seen = project.look(project.branch({"calc.py": MENDED, **files}))
    assert seen.ok and seen.proves and seen.doubts == ()
    assert len(seen.contested) == (contested or 0)
    assert seen.without_them == (0 if contested else None)


def test_verify_command_gets_only_its_own_environment(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_RUN_TOKEN", "of-an-agent")
    project.ours |= {"ANTHROPIC_API_KEY": "sk-x", "PYTHONPATH": "/evil", "BASH_ENV": "/evil", "FLEET_HOME": "/evil"}
    script = 'env | sort; ls -A "$HOME"; touch $HOME/a $TMPDIR/b /tmp/c || exit 9; test -d .git || exit 8'
    seen = project.look(project.branch({}), script)
    names = {line.partition("=")[0] for line in seen.tail.splitlines()}
    assert seen.status == 0, seen.tail
    assert names <= {"HOME", "LANG", "PATH", "PWD", "SHELL", "TERM", "TMPDIR", "OLDPWD", "_", "SHLVL"}


def test_programs_are_searched_only_where_no_agent_can_write(tmp_path: Path) -> None:
    home = Home(str(tmp_path))
    path = f".:/usr/bin::{home.worktrees}/a/.venv/bin:node_modules/.bin:/bin:{home.bin}"
    assert verify_environment(home, {"PATH": path}, scratch="/s")["PATH"] == "/usr/bin:/bin"
    assert verify_environment(home, {"PATH": "/a"}, path="/b", scratch="/s")["PATH"] == "/b"
    assert verify_environment(home, {}, path=".", scratch="/s") | {"HOME": "/s/home", "TMPDIR": "/s/tmp"} == (
        verify_environment(home, {}, scratch="/s")
    )


def test_protected_files_are_taken_from_the_base(project: Project) -> None:
    tip = project.branch(
        {"calc.py": MENDED, "verify.sh": "#!/bin/sh\nexit 0\n", "tests/test_calc.py": None, "tests/test_mine.py": MORE}
    )
    command = "ls verify.sh; find tests -name '*.py'; ./verify.sh"
    seen = project.look(tip, command, protect=("tests/",))
    assert seen.proves, seen
    assert seen.restored == ("tests/test_calc.py", "tests/test_mine.py", "verify.sh")
    assert seen.tail.startswith("verify.sh\ntests/test_calc.py\n") and seen.passed == 1


def test_command_must_fail_at_the_base_when_asked(project: Project) -> None:
    mended = project.branch({"calc.py": MENDED})
    seen = project.look(mended, fail_to_pass=True)
    assert seen.proves and seen.base_status == 1
    project.base = mended
    nothing_new = project.look(project.branch({"notes.txt": "x\n"}), fail_to_pass=True)
    assert nothing_new.ok and nothing_new.base_status == 0 and not nothing_new.proves
    assert nothing_new.doubts == ("it also passes at the base",)
    with_a_test = project.branch(
        {"calc.py": MENDED + "\n\ndef double(a):\n    return 2 * a\n", "tests/test_double.py": DOUBLE}
    )
    seen = project.look(with_a_test, fail_to_pass=True)
    assert seen.proves and seen.base_status == 1 and seen.passed == 2


DOUBLE = TEST.replace("calc.add(2, 2)", "calc.double(2)")


def test_verification_ends_in_time_with_its_daemons(project: Project) -> None:
    token = a_token()
    tip = project.branch({})
    seen = project.look(tip, f"setsid sh -c 'sleep 300; : {token}' & echo begun; sleep 300; : {token}", seconds=0.5)
    assert (seen.status, seen.why, seen.ok) == (None, "did not end within 0.5 s", False)
    assert seen.tail == "begun"
    seen = project.look(tip, f"setsid sh -c 'sleep 300; : {token}' & exit 0")
    assert seen.ok
    assert living(token) == []


def test_verification_can_be_stopped(project: Project) -> None:
    tip = project.branch({})

    async def work() -> None:
        stop = asyncio.Event()
        room = project.room(stop=stop)
        asyncio.get_running_loop().call_later(0.3, stop.set)
        from_here = asyncio.create_task(_verify(project, tip, "sleep 300", room))
        assert (await asyncio.wait_for(from_here, 30)).why == "was stopped"

    asyncio.run(work())
    assert not project.checkout.exists()


async def _verify(project: Project, tip: str, command: str, room: VerifyFolders) -> Verification:
    wanted = VerifyRequest(command=command)
    return await verify(project.launcher, project.view, wanted, room, commit=tip, base=project.base)


def test_end_of_a_huge_output_is_kept(project: Project) -> None:
    seen = project.look(
        project.branch({}), "head -c 60000000 /dev/zero | tr '\\0' x; echo; echo the last words; exit 3"
    )
    assert (seen.status, len(seen.tail)) == (3, 8000)
    assert seen.tail.endswith("x\nthe last words")
    assert sum(file.stat().st_size for file in project.place.iterdir()) < 20_000_000


def test_network_is_reachable_only_when_allowed(project: Project) -> None:
    require(namespace_command(), "namespaces")
    with socket.create_server(("127.0.0.1", 0)) as server:
        call = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 5)"
        own = "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname(), 5)"
        tip = project.branch({})
        refused = project.look(tip, f'python3 -c "{call}"')
        assert refused.status == 1 and "refused" in refused.tail
        assert project.look(tip, f'python3 -c "{own}"').status == 0
        allowed = project.look(tip, f'python3 -c "{call}"', network=True)
        assert allowed.status == 0, allowed.tail
    words = "cannot see fleet's own files, can write only to its own folder, no other processes, its own home"
    assert refused.containment == f"no network, {words}"
    assert allowed.containment == words


def test_verify_command_sees_no_other_processes_or_files_of_fleet_and_writes_nowhere_else(project: Project) -> None:
    require(namespace_command(), "namespaces")
    project.home.make()
    Path(project.home.database).write_text("secret")
    script = (
        f"cat {project.home.root}/fleet.db; touch {project.home.root}/evil {project.top}/evil {project.folder}/evil; "
        f"ls {project.place}; ls /proc/1/cwd/; ls -d /proc/[0-9]* | wc -l; kill -9 {os.getpid()}"
    )
    seen = project.look(project.branch({}), f"{script}; exit 0")
    assert "secret" not in seen.tail and "exit.json" not in seen.tail and "stdout" not in seen.tail
    assert "Read-only file system" in seen.tail
    assert not [path for path in (project.folder, project.top, Path(project.home.root)) if (path / "evil").exists()]
    assert any(line.isdigit() and int(line) < 8 for line in seen.tail.splitlines())


def test_project_and_programs_below_the_temporary_folder_stay_visible(project: Project) -> None:
    tip = project.branch({"calc.py": MENDED})
    tools = project.folder / "tools" / "bin"
    tools.mkdir(parents=True)
    (tools / "mytool").write_text("#!/bin/sh\necho from the tool\n")
    (tools / "mytool").chmod(0o755)
    project.ours["PATH"] = f"{tools}:{project.ours['PATH']}"
    seen = project.look(
        tip, f"mytool && git log --oneline | wc -l && cat {project.top}/calc.py && git describe --always"
    )
    assert seen.status == 0, seen.tail
    assert seen.tail.startswith("from the tool\n2\n")


def test_verification_without_namespaces_reports_what_the_command_could_reach(project: Project) -> None:
    project.launcher = HeadlessLauncher(WEAK)
    seen = project.look(project.branch({"calc.py": MENDED}))
    assert seen.proves
    assert seen.containment.startswith("weak: it could ") and "see other processes" in seen.containment


NOWHERE = """
import asyncio, json, sys
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[2])
from verifications import Project, MENDED
project = Project(Path(sys.argv[1]))
print(project.look(project.branch({"calc.py": MENDED})).text())
"""
NO_NAMESPACES = """
for kind in user mnt net ipc pid; do echo 0 > /proc/sys/user/max_${kind}_namespaces || exit 77; done
exec setpriv --bounding-set=-all --inh-caps=-all "$@"
"""


def test_verification_runs_when_the_system_allows_no_namespaces(tmp_path: Path) -> None:
    """A system without namespaces is simulated by a user namespace whose limits are 0."""
    paths = json.dumps([str(Path(__file__).parents[1])])
    inside = ["unshare", "--user", "--map-root-user", "sh", "-c", NO_NAMESPACES, "sh"]
    words = [*inside, sys.executable, "-c", NOWHERE, str(tmp_path), paths]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    require(done.returncode != 77 and "Operation not permitted" not in done.stderr, "user namespaces with limits")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["status"] == 0
    assert told["containment"] == (
        "weak: it could reach the network, see fleet's own files, write where the user can, see other processes; "
        "its own home"
    )


def test_verification_isolates_for_an_unprivileged_user(tmp_path: Path) -> None:
    """The same for a user other than root, who needs a user namespace."""
    require(namespace_command(), "namespaces")
    paths = json.dumps([str(Path(__file__).parents[1])])
    inside = ["unshare", "--user", "--map-user=1234", "--map-group=1234"]
    words = [*inside, sys.executable, "-c", NOWHERE, str(tmp_path), paths]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["status"], told["containment"].partition(",")[0]) == (0, "no network")


HOLD = """
import json, sys
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[2])
from verifications import Project
Project(Path(sys.argv[1])).look(sys.argv[3], sys.argv[4])
"""


def test_verification_after_sigkill_of_an_earlier_one_works(project: Project) -> None:
    tip, token = project.branch({"calc.py": MENDED}), a_token()
    run_git(project.top, "reset", "--quiet", "--hard", project.base)
    paths = json.dumps([str(Path(__file__).parents[1])])
    command = f"touch begun; sleep 300; : {token}"
    words = [sys.executable, "-c", HOLD, str(project.folder), paths, tip, command]
    with subprocess.Popen(words) as running:
        asyncio.run(until(lambda: list(project.checkout.glob("checkout/*/begun")), 30))
        os.kill(running.pid, signal.SIGKILL)
    assert project.checkout.exists() and living(token)
    assert project.look(tip).proves
    assert living(token) == []
    assert not project.checkout.exists()


def test_verify_command_of_the_task_overrides_the_settings() -> None:
    settings = Settings(origins={}, model_owner="")
    assert wanted_by(settings, None) is None
    rules = Rules(protect=("a",), fail_to_pass=True).text()
    task = a_task(verify="make test", rules=rules)
    wanted = wanted_by(settings, task)
    assert wanted is not None
    assert (wanted.command, wanted.protect, wanted.fail_to_pass) == ("make test", ("a",), True)
    assert (wanted.seconds, wanted.network) == (settings.verify.seconds, False)
