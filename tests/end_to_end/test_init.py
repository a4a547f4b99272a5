"""`fleet init` and the program's outer shell, as users see them."""

import json
import os
import pty
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from program import Program


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("fleet.db"))
    return {str(path.relative_to(folder)): (mode(path), path.read_bytes()) for path in files}


def on_a_terminal(fleet: Program, *args: str, typed: str, **env: str) -> tuple[int, str]:
    """Run with a terminal as standard input and error. Return exit code and output."""
    ours, theirs = pty.openpty()
    os.write(ours, typed.encode())
    try:
        done = subprocess.run(
            [*fleet.argv, *args],
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=theirs,
            cwd=fleet.cwd,
            env=fleet.env | env,
            timeout=60,
        )
    finally:
        os.close(theirs)
        os.close(ours)
    return done.returncode, done.stdout.decode()


def test_first_init_creates_a_private_home(fleet: Program) -> None:
    out = fleet.ok("init")
    assert out.splitlines()[0] == f"Fleet home initialized at {fleet.home}"
    assert {path.name for path in fleet.home.iterdir()} >= {"fleet.db", "runtime.toml", "tasks", "bin", "logging"}
    assert mode(fleet.home) == 0o700
    assert mode(fleet.home / "tasks") == 0o700
    for path in fleet.home.rglob("*"):
        if path.is_file():
            assert mode(path) == (0o700 if path.parent.name == "bin" else 0o600), path


def test_second_init_changes_nothing_and_says_so(fleet: Program) -> None:
    fleet.ok("init", "--permissions", "user")
    before = tree(fleet.home)
    out = fleet.ok("init")
    assert out == f"Fleet home initialized at {fleet.home}\n  nothing to change\n"
    assert tree(fleet.home) == before


def test_init_recreates_missing_files(fleet: Program) -> None:
    fleet.ok("init")
    before = tree(fleet.home)
    (fleet.home / "runtime.toml").unlink()
    (fleet.home / "bin" / "bd").unlink()
    (fleet.home / "tasks").rmdir()
    out = fleet.ok("init")
    assert "wrote runtime.toml" in out and "wrote bin/bd" in out
    assert tree(fleet.home) == before
    assert (fleet.home / "tasks").is_dir()


def test_force_restores_the_defaults_and_keeps_old_settings_and_database(fleet: Program) -> None:
    fleet.ok("init")
    default = (fleet.home / "runtime.toml").read_bytes()
    database = (fleet.home / "fleet.db").read_bytes()
    for number in (1, 2):
        mine = f"# mine\nmax_concurrent = {number}\n".encode()
        (fleet.home / "runtime.toml").write_bytes(mine)
        assert f"runtime.toml.bak-{number}" in fleet.ok("init", "--force")
        assert (fleet.home / "runtime.toml").read_bytes() == default
        assert (fleet.home / f"runtime.toml.bak-{number}").read_bytes() == mine
    assert "nothing to change" in fleet.ok("init", "--force")
    assert (fleet.home / "fleet.db").read_bytes() == database


def test_force_replaces_a_broken_settings_file(fleet: Program) -> None:
    fleet.ok("init")
    (fleet.home / "runtime.toml").write_text("coder = ")
    assert "runtime.toml:1:9: invalid value" in fleet("init").err
    fleet.ok("init", "--force")
    fleet.ok("config", "validate")


def test_init_records_no_permissions_without_a_terminal_and_names_the_flag(fleet: Program) -> None:
    out = fleet.ok("init")
    assert "--permissions skip|user" in out
    assert fleet("config", "get", "permissions").code == 1


def test_init_records_given_permissions_with_the_consent(fleet: Program) -> None:
    warned = fleet("init", "--permissions", "skip")
    assert warned.code == 0 and "an agent that skips permissions can do all that your account can" in warned.err
    assert fleet.ok("config", "get", "permissions") == "skip\n"
    assert fleet.ok("config", "get", "consent.skip_permissions_at").startswith("20")
    assert "nothing to change" in fleet.ok("init", "--permissions", "skip")
    fleet.ok("init", "--permissions", "user")
    assert fleet.ok("config", "get", "permissions") == "user\n"
    assert fleet("config", "get", "consent.skip_permissions_at").code == 1, "the consent is withdrawn"


@pytest.mark.parametrize(("typed", "recorded"), [("\n", "user"), ("skip\n", "skip"), ("maybe\nuser\n", "user")])
def test_init_asks_on_a_terminal_and_defaults_to_user(fleet: Program, typed: str, recorded: str) -> None:
    code, out = on_a_terminal(fleet, "init", typed=typed)
    assert (code, out.splitlines()[0]) == (0, f"Fleet home initialized at {fleet.home}")
    assert fleet.ok("config", "get", "permissions") == f"{recorded}\n"
    code, out = on_a_terminal(fleet, "init", typed="")
    assert "nothing to change" in out, "an answer is asked for once"


def with_claude(fleet: Program, base: Path) -> str:
    """Return a PATH with a claude that has been used."""
    (base / "bin").mkdir()
    (base / "bin" / "claude").write_text("#!/bin/sh\n")
    (base / "bin" / "claude").chmod(0o755)
    (fleet.user / ".claude.json").write_text('{"mine": 1}')
    return f"{base / 'bin'}:{fleet.env['PATH']}"


def trusts(fleet: Program) -> bool:
    """Return True if claude was told to trust the worktrees of this home."""
    told = json.loads((fleet.user / ".claude.json").read_text())
    assert told["mine"] == 1
    return bool(told.get("projects", {}).get(str(fleet.home / "worktrees"), {}).get("hasTrustDialogAccepted"))


@pytest.mark.parametrize(("typed", "told"), [("y\n", True), ("\n", True), ("n\n", False)])
def test_init_offers_once_on_a_terminal_to_trust_the_worktrees(
    fleet: Program, tmp_path: Path, typed: str, told: bool
) -> None:
    path = with_claude(fleet, tmp_path)
    code, out = on_a_terminal(fleet, "init", "--permissions", "user", typed=typed, PATH=path)
    said = f"claude {'trusts' if told else 'was not told to trust'} {fleet.home / 'worktrees'}\n"
    assert code == 0 and said in out
    assert trusts(fleet) == told
    code, out = on_a_terminal(fleet, "init", typed="", PATH=path)
    assert code == 0 and said not in out, "it is asked once"


def test_init_grants_trust_without_a_terminal_only_when_told(fleet: Program, tmp_path: Path) -> None:
    path = with_claude(fleet, tmp_path)
    assert "claude trusts" not in fleet.ok("init", PATH=path) and not trusts(fleet)
    assert "claude trusts" in fleet.ok("init", "--trust-worktrees", PATH=path) and trusts(fleet)


def test_init_writes_no_trust_for_a_coder_that_was_never_used(fleet: Program, tmp_path: Path) -> None:
    path = with_claude(fleet, tmp_path)
    (fleet.user / ".claude.json").unlink()
    fleet.ok("init", "--trust-worktrees", PATH=path)
    assert not (fleet.user / ".claude.json").exists()
    (fleet.user / ".claude.json").write_text('{"mine": 1}')
    fleet.ok("init", "--trust-worktrees")
    assert not trusts(fleet), "it is not installed"


def test_default_home_is_in_the_users_folder(fleet: Program) -> None:
    fleet.ok("init", FLEET_HOME="", FLEET_BASE_DIR="")
    assert (fleet.user / ".fleet" / "fleet.db").exists()


def test_home_path_of_200_bytes_works(fleet: Program, tmp_path: Path) -> None:
    long = tmp_path / ("h" * (198 - len(str(tmp_path))) + "é")
    assert len(os.fsencode(long)) >= 200
    fleet.env["FLEET_HOME"] = str(long)
    fleet.ok("init")
    fleet.ok("config", "set", "max_concurrent=4")
    done = subprocess.run([long / "bin" / "fleet", "config", "get", "max_concurrent"], env={}, capture_output=True)
    assert done.stdout == b"4\n", done.stderr


def test_home_is_refused_everywhere_when_others_can_write_to_it(fleet: Program) -> None:
    fleet.ok("init")
    fleet.home.chmod(0o777)
    for args in (["init"], ["config"], ["config", "set", "coder=codex"], ["config", "validate"]):
        result = fleet(*args)
        assert result.code == 1
        assert result.err.startswith(f"error: the home {fleet.home} can be written by other users (mode 0777)\nhint:  ")
        assert "chmod 700" in result.err


def test_home_is_refused_when_it_is_a_file(fleet: Program) -> None:
    fleet.home.write_text("mine")
    for args in (["init"], ["config"], ["config", "set", "coder=codex"]):
        result = fleet(*args)
        assert (result.code, result.out) == (1, "")
        assert "is not a directory" in result.err and "Traceback" not in result.err
    assert fleet.home.read_text() == "mine"


def test_unknown_command_names_the_nearest(fleet: Program) -> None:
    assert fleet("confgi") == (2, "", "error: no such command 'confgi'\nhint:  did you mean `fleet config`?\n")
    assert fleet("xyzzy").code == 2


@pytest.mark.parametrize("args", [["--nope"], ["init", "--nope"], ["init", "extra"], ["init", "--permissions", "all"]])
def test_wrong_command_line_exits_with_two_and_prints_to_stderr(fleet: Program, args: list[str]) -> None:
    result = fleet(*args)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ") and "\nhint:  run `fleet" in result.err
    assert not fleet.home.exists()


def test_help_and_version_need_no_home(fleet: Program) -> None:
    assert fleet.ok("--help") == fleet.ok("-h") == fleet.ok()
    assert "Create or repair the home" in fleet.ok("--help")
    assert fleet.ok("--version").startswith("fleet 0.")
    fleet.argv = [sys.executable, "-m", "fleet"]
    assert fleet.ok("--version").startswith("fleet 0.")
    assert not fleet.home.exists()


def test_help_imports_no_command(fleet: Program) -> None:
    code = "import sys; from fleet.cli.main import call; call(['--help']); print(*sys.modules, file=sys.stderr)"
    fleet.argv = [sys.executable, "-c", code]
    loaded = fleet().err.split()
    assert "click" in loaded
    assert not {"msgspec", "tomlkit", "tomllib", "fleet.cli.init", "fleet.cli.config"} & set(loaded)


def test_closed_pipe_is_no_error(fleet: Program) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([*fleet.argv, "--help"], stdout=write, stderr=subprocess.PIPE, env=fleet.env)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_unwritable_output_is_reported(fleet: Program) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*fleet.argv, "--help"], stdout=full, stderr=subprocess.PIPE, env=fleet.env)
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: cannot write the output: No space left on device\n")
    assert b"its work is done" in done.stderr


BUG = "import sys; from fleet.cli.errors import run; sys.exit(run(lambda: {}['gone']))"


def test_bug_prints_one_line_and_keeps_its_traceback(fleet: Program) -> None:
    fleet.ok("init")
    fleet.argv = [sys.executable, "-c", BUG]
    result = fleet()
    assert result.code == 1
    [report] = (fleet.home / "logging").glob("crash-*.txt")
    assert result.err == (f"error: this is a bug in fleet: KeyError: 'gone'\nhint:  report the details in {report}\n")
    assert "Traceback" in report.read_text() and mode(report) == 0o600


@pytest.mark.parametrize("variable", ["FLEET_DEBUG", "AI_FLEET_DEBUG"])
def test_bug_prints_its_traceback_when_debugging(fleet: Program, variable: str) -> None:
    fleet.argv = [sys.executable, "-c", BUG]
    fleet.env[variable] = "1"
    assert "Traceback" in fleet().err
    fleet.env[variable] = "0"
    assert "Traceback" not in fleet().err
    assert not fleet.home.exists(), "a crash does not make a home"


def test_interrupt_ends_quietly(fleet: Program) -> None:
    # If these tests were started in the background, interrupts are ignored; the program must receive this one.
    heard = "import signal, sys; signal.signal(2, signal.default_int_handler); "
    code = "from fleet.cli.errors import run; sys.exit(run(lambda: signal.raise_signal(2) or 0))"
    fleet.argv = [sys.executable, "-c", heard + code]
    assert fleet() == (130, "", "")
