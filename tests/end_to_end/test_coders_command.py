"""`fleet coders`: installed programs, logins, abilities of each coder, and stalls that can be foreseen."""

import json
import os
import pty
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fleet.actions.control.coders import read_version, versions
from fleet.core.jsontext import encode
from fleet.core.task import Status, Verdict
from live_runs import Records, records

__all__ = ["records"]

VERSION = "echo '2.1.49 (Claude Code)'"
SECRET = "sk-ant-very-secret-1234567890"


def install(records: Records, name: str, script: str) -> Path:
    """Return a program that was put on the PATH."""
    folder = records.fleet.user / "bin"
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    records.fleet.env["PATH"] = f"{folder}:{os.environ['PATH']}"
    return program


def told(records: Records, **env: str) -> dict[str, dict[str, Any]]:
    """Return the rows of `fleet coders --json` by name."""
    done = records.fleet("coders", "--json", stdin="", cwd=None, **env)
    assert done.code == 0, done
    return {row["name"]: row for row in json.loads(done.out)}


def settings(records: Records, text: str) -> None:
    with (records.fleet.home / "runtime.toml").open("a", encoding="utf-8") as file:
        file.write(f"\n{text}\n")


def test_installed_coder_is_shown_with_path_and_version(records: Records) -> None:
    program = install(records, "claude", VERSION)
    row = told(records)["claude"]
    assert (row["installed"], row["path"], row["version"]) == (True, str(program), "2.1.49")
    assert row["supports"] == {
        "resume": "same cwd",
        "messages": "stdin",
        "tells_result": True,
        "tells_tokens": True,
        "tells_cost": True,
        "tells_context": True,
    }
    out = records.fleet.ok("coders")
    assert "2.1.49" in out and str(program) in out and "while it works" in out


def test_missing_coder_is_shown_and_warned_about_only_when_it_is_needed(records: Records) -> None:
    records.fleet.ok("config", "set", "coder=gemini")
    records.create("a task", "--coder", "opencode")
    records.fleet.env["PATH"] = str(records.fleet.user)
    rows = told(records)
    assert not any(rows[name]["installed"] for name in ("claude", "gemini", "opencode"))
    said = "it is not installed: no program {!r} is on the PATH"
    assert [rows[name]["warnings"] for name in ("gemini", "opencode", "claude")] == [
        [said.format("gemini")],
        [said.format("opencode")],
        [],
    ]
    assert (rows["gemini"]["default"], rows["claude"]["default"]) == (True, False)


def test_programs_are_asked_in_parallel_without_secrets_and_with_a_timeout(records: Records) -> None:
    seen = records.fleet.user / "seen"
    met = f"touch {seen}.$(basename $0); until test -e {seen}.claude -a -e {seen}.codex; do sleep 0.05; done"
    install(records, "claude", f"env > {seen}; pwd >> {seen}; {met}; {VERSION}")
    install(records, "codex", f"{met}; echo codex-cli 0.50.0-beta.1")
    install(records, "gemini", "sleep 600")
    install(records, "qwen", "echo 1.0.0; exit 3")
    install(records, "opencode", "yes 1.2.3.4")
    install(records, "pi", "printf '\\033[2Jpi \\377 the first\\nand more'")
    rows = told(records, ANTHROPIC_API_KEY=SECRET, HTTPS_PROXY=f"http://me:{SECRET}@proxy", FLEET_RUN_TOKEN=SECRET)
    found = {name: rows[name]["version"] for name in ("claude", "codex", "gemini", "qwen", "opencode")}
    assert found == {
        "claude": "2.1.49",
        "codex": "0.50.0-beta.1",
        "gemini": None,
        "qwen": None,
        "opencode": None,
    }
    assert SECRET not in seen.read_text() and "PATH=" in seen.read_text()
    assert all(rows[name]["installed"] for name in (*found, "pi"))
    assert "the first" in rows["pi"]["version"] and "more" not in rows["pi"]["version"]
    assert not [
        each for each in Path("/proc").glob("[0-9]*/cmdline") if is_of(each, f"{records.fleet.user}/bin/gemini")
    ]


def is_of(cmdline: Path, program: str) -> bool:
    try:
        return program.encode() in cmdline.read_bytes()
    except OSError:
        return False


def test_version_text_cannot_control_the_terminal(records: Records) -> None:
    install(records, "pi", "printf '\\033[2Jboo'")
    out = records.fleet.ok("coders")
    assert "\\x1b[2Jboo" in out and "\x1b" not in out


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("codex-cli 0.46.0\n", "0.46.0"),
        ("v22.1.0-nightly+7\nmore", "22.1.0-nightly+7"),
        ("warning: old\n1.2", "1.2"),
        ("unreleased build\n", "unreleased build"),
        ("", ""),
        ("\n\n", ""),
        ("1." * 5000, ("1." * 20)),
    ],
)
def test_read_version_returns_the_first_dotted_number_or_the_first_line(said: str, version: str) -> None:
    assert read_version(said) == version


def test_versions_ignores_a_program_that_prints_endlessly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.actions.control.coders.ANSWER_SECONDS", 3600.0)
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nexec yes 1.2.3\n")
    program.chmod(0o755)
    assert versions([str(program)], env=dict(os.environ)) == {str(program): ""}


def test_versions_does_not_wait_for_a_child_that_a_program_left_behind(tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {tmp_path}/left\necho 3.2.1\n")
    program.chmod(0o755)
    assert versions([str(program), "/does/not/exist"], env=dict(os.environ)) == {
        str(program): "3.2.1",
        "/does/not/exist": "",
    }
    os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)


def test_login_is_shown_by_name_and_never_by_value(records: Records) -> None:
    install(records, "claude", VERSION)
    row = told(records)["claude"]
    assert row["logins"] == [{"account": None, "needed": True, "seen": None}]
    assert "claude is not logged in: none of ANTHROPIC_API_KEY" in row["warnings"][0]
    row = told(records, ANTHROPIC_API_KEY=SECRET)["claude"]
    assert row["logins"][0]["seen"] == "ANTHROPIC_API_KEY" and row["warnings"] == [] and SECRET not in str(row)
    file = records.fleet.user / ".claude" / ".credentials.json"
    file.parent.mkdir()
    file.write_text("{}")
    assert told(records)["claude"]["logins"][0]["seen"] == str(file)
    done = records.fleet("coders")
    assert "~/.claude/.credentials.json" in done.out and "claude" not in done.err


def test_login_does_not_count_when_the_agent_would_not_receive_it(records: Records) -> None:
    coder, ours = "workers.steered:KeyedCoder", {"KEY_OF_ITS_OWN": SECRET}
    records.fleet.env["PYTHONPATH"] = f"{records.fleet.env.get('PYTHONPATH', '')}:{Path(__file__).parent.parent}"
    records.fleet.ok("config", "set", f"coder={coder}")
    assert told(records, **ours)[coder]["logins"][0]["seen"] is None
    records.fleet.ok("config", "set", 'agent.pass_env=["KEY_OF_ITS_OWN"]')
    assert told(records, **ours)[coder]["logins"][0]["seen"] == "KEY_OF_ITS_OWN"
    assert told(records)[coder]["logins"][0]["seen"] is None
    settings(records, f'[coders."{coder}"]\nenv = {{KEY_OF_ITS_OWN = "{SECRET}"}}')
    assert told(records)[coder]["logins"][0]["seen"] == "KEY_OF_ITS_OWN"


def test_each_account_has_its_own_login(records: Records) -> None:
    install(records, "claude", VERSION)
    folder = records.fleet.user / "work"
    folder.mkdir()
    (folder / ".credentials.json").write_text("{}")
    settings(
        records,
        f'[[accounts]]\nname = "work"\ncoder = "claude"\nconfig_dir = "{folder}"\n'
        '[[accounts]]\nname = "key"\ncoder = "claude"\nsecrets = {ANTHROPIC_API_KEY = ["false"]}\n'
        f'[[accounts]]\nname = "none"\ncoder = "claude"\nconfig_dir = "{folder}/else"\n',
    )
    row = told(records)["claude"]
    assert {each["account"]: each["seen"] for each in row["logins"]} == {
        "work": f"{folder}/.credentials.json",
        "key": "ANTHROPIC_API_KEY",
        "none": None,
    }
    [warning] = row["warnings"]
    assert "account 'none' is not logged in" in warning


def test_permissions_without_consent_cause_a_warning(records: Records) -> None:
    install(records, "claude", VERSION)
    settings(records, '[coders.claude]\npermissions = "skip"')
    row = told(records, ANTHROPIC_API_KEY=SECRET)["claude"]
    assert row["permissions"] == "user" and "fleet init --permissions skip" in row["warnings"][0]
    records.fleet.ok("init", "--permissions", "skip")
    row = told(records, ANTHROPIC_API_KEY=SECRET)["claude"]
    assert row["permissions"] == "skip" and row["warnings"] == []


def test_described_broken_and_used_coders_are_listed(records: Records) -> None:
    program = install(records, "mycli", "echo mycli 0.1")
    settings(records, '[coders.mine]\nargv = ["mycli", "run"]')
    task = records.create("a task")
    claim, run = records.begin(task, coder="gone.module:Coder")
    records.end(claim, run, "failed", Verdict(status=Status.BLOCKED, reason="x"))
    rows = told(records)
    mine = rows["mine"]
    assert (mine["path"], mine["version"], mine["supports"]["messages"]) == (str(program), "0.1", "next run")
    gone = rows["gone.module:Coder"]
    assert gone["error"] and not gone["installed"] and "gone" in gone["warnings"][0] and gone["supports"] is None
    assert "gone.module:Coder" in records.fleet.ok("coders")


def test_first_request_tokens_of_the_last_run_are_shown(records: Records) -> None:
    def run(first: int | None, **notes: Any) -> None:
        claim, begun = records.begin(records.create("a task"))
        folded = encode(({"first": first} if first else {}) | notes)
        records.end(claim, begun, "finished", Verdict(status=Status.CLOSED, reason="done"), folded=folded)

    assert told(records)["demo"]["first_request_tokens"] is None
    run(90_000)
    run(12_300)
    assert told(records)["demo"]["first_request_tokens"] == 12_300
    assert "12.3k" in records.fleet.ok("coders")
    claim, live = records.begin(records.create("a task"))
    records.store.runs.fold(claim, live.replace(folded=encode({"first": 777})))
    row = told(records)["demo"]
    assert (row["first_request_tokens"], row["running"]) == (777, 1)
    records.store.runs.end(live.replace(ended_at=records.store.now(), ending="failed", folded=encode({"first": 777})))
    run(555_000, before={"input": 1})  # a resumed session contains all earlier messages
    assert told(records)["demo"]["first_request_tokens"] is None


def test_progress_is_shown_on_a_terminal(records: Records) -> None:
    install(records, "claude", f"sleep 1; {VERSION}")
    install(records, "codex", VERSION)
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [*records.fleet.argv, "coders"], env=records.fleet.env, stdout=subprocess.PIPE, stderr=theirs, timeout=60
    )
    os.close(theirs)
    said = os.read(ours, 65536).decode()
    os.close(ours)
    assert done.returncode == 0 and "asked 1 of 2 programs" in said
    assert "asked" not in records.fleet("coders").err
