"""`fleet config` as a user runs it."""

import json
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from program import Program


@pytest.fixture
def made(fleet: Program) -> Program:
    """Return the program with a home."""
    fleet.furnish(("init",))
    return fleet


@pytest.fixture
def repo(made: Program) -> Path:
    """Return a git repository in which the program runs."""
    subprocess.run(["git", "init", "-q", made.cwd], check=True, env=made.env)
    return made.cwd


@pytest.fixture
def editor(made: Program, tmp_path: Path) -> Callable[[str], None]:
    """Return a function that sets `$EDITOR` to a program that runs a shell line on its file."""

    def use(line: str) -> None:
        script = tmp_path / "my editor"
        script.write_text(f'#!/bin/sh\nfile="$2"\n{line}\n')
        script.chmod(0o700)
        made.env["EDITOR"] = f"'{script}' --wait"

    return use


def runtime(fleet: Program) -> str:
    return (fleet.home / "runtime.toml").read_text()


def test_config_lists_effective_settings_with_their_origins(made: Program, repo: Path) -> None:
    (repo / ".fleet").mkdir()
    (repo / ".fleet" / "config.toml").write_text('coder = "codex"\n')
    deep = repo / "a" / "b"
    deep.mkdir(parents=True)
    lines = made.ok("config", "--show-origin", cwd=deep, FLEET_MODEL="o3").splitlines()
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines}
    assert rows["coder"].split() == ["codex", str(repo / ".fleet" / "config.toml")]
    assert rows["model"].split() == ["o3", "FLEET_MODEL"]
    assert rows["max_concurrent"].split() == ["3", str(made.home / "runtime.toml")]
    assert rows["tmux.prefix"].split() == ["ai_", "default"]


def test_config_lists_settings_as_json(made: Program) -> None:
    listed = json.loads(made.ok("config", "--json"))
    assert listed["max_concurrent"] == {
        "value": 3,
        "origin": "runtime",
        "where": str(made.home / "runtime.toml"),
    }
    assert listed == json.loads(made.ok("config", "show", "--json"))
    assert json.loads(made.ok("config", "get", "coder", "--json"))["value"] == "claude"


def test_config_show_raw_prints_the_file_unchanged(made: Program) -> None:
    assert made.ok("config", "show", "--raw") == runtime(made)


def test_config_set_changes_values_and_keeps_comments(made: Program) -> None:
    before = runtime(made)
    made.ok("config", "set", "max_concurrent=5", "model=opus", "coders.codex.model=o3")
    after = runtime(made)
    assert after.startswith(before.replace("max_concurrent = 3", "max_concurrent = 5").replace('"sonnet"', '"opus"'))
    assert made.ok("config", "get", "max_concurrent") == "5\n"
    assert made.ok("config", "get", "coders.codex.model") == "o3\n"
    made.ok("config", "validate")


@pytest.mark.parametrize(
    ("assignments", "said"),
    [
        (["max_concurrent=9", "max_concurent=5"], "did you mean max_concurrent?"),
        (["max_concurrent=9", "model="], "model must be one line of text"),
        (
            ["max_concurrent=9", "max_concurrent=many"],
            "max_concurrent must be a whole number from 1 to 1000, not 'many'",
        ),
        (["max_concurrent=0"], "not 0"),
        (["max_concurrent=99999999999999999999"], "max_concurrent must be"),
        (["max_concurrent=3\ncoder='x'"], "max_concurrent must be"),
        (["coder=cluade"], "unknown coder 'cluade'"),
        (["coder=--help"], "coder must be"),
        (["model=a\nb"], "model must be"),
        (["permissions=skip"], "recorded consent"),
        (["consent.skip_permissions_at=2026-01-01T00:00:00Z"], "cannot be set manually"),
        (["setup.quick=true"], "set it in a project's"),
        (["nonsense"], "is not key=value"),
        (["a\nb=1"], "is not a key"),
        (["=1"], "is not a key"),
    ],
)
def test_config_set_changes_nothing_when_one_assignment_is_bad(
    made: Program, assignments: list[str], said: str
) -> None:
    before = runtime(made)
    result = made("config", "set", *assignments)
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("error: ") and said in result.err
    assert runtime(made) == before


@pytest.mark.parametrize("model", ['say "hi"', "it's", "a\\b", "$(touch x)", "ünï", "#x", "a=b", "]"])
def test_odd_values_survive_set_and_get(made: Program, model: str) -> None:
    made.ok("config", "set", f"model={model}")
    assert made.ok("config", "get", "model") == f"{model}\n"
    assert tomllib.loads(runtime(made))["model"] == model


def test_values_are_parsed_by_the_type_of_their_key(made: Program, repo: Path) -> None:
    made.ok(
        "config",
        "set",
        "--project",
        "setup.commands=make a, make b",
        "setup.quick=yes",
        'setup.credential_files=[".env"]',
    )
    table = tomllib.loads((repo / ".fleet" / "config.toml").read_text())
    assert table["setup"] == {"commands": ["make a", "make b"], "quick": True, "credential_files": [".env"]}
    assert made.ok("config", "get", "setup.commands") == "[]\n"
    made.ok("trust")
    assert made.ok("config", "get", "setup.commands") == '["make a", "make b"]\n'


@pytest.mark.parametrize("said", ["setup.commands=make a", "verify.command=make test", 'agent.env={A = "1"}'])
def test_config_set_says_that_project_commands_need_trust(made: Program, repo: Path, said: str) -> None:
    result = made("config", "set", "--project", said, "project.name=mine")
    assert result.code == 0 and "Updated" in result.out, result
    assert result.err == f"{said.partition('=')[0]} has no effect until you trust it: run `fleet trust` here\n"


def test_project_setting_goes_into_the_existing_file_and_spelling(made: Program, repo: Path) -> None:
    (repo / ".aifleet").mkdir()
    file = repo / ".aifleet" / "config.toml"
    file.write_text('# ours\n[agent]\ndefault = "claude" # for now\n')
    file.chmod(0o664)
    made.ok("config", "set", "--project", "coder=codex")
    assert file.read_text() == '# ours\n[agent]\ndefault = "codex" # for now\n'
    assert file.stat().st_mode & 0o777 == 0o664
    assert not (repo / ".fleet").exists()


def test_project_setting_is_refused_outside_a_project(made: Program) -> None:
    result = made("config", "set", "--project", "coder=codex")
    assert result.code == 1 and "is not inside a project" in result.err


def test_reading_settings_names_fleet_init_when_no_home_exists(fleet: Program) -> None:
    for args in ([], ["show"], ["show", "--raw"], ["get", "coder"], ["validate"], ["-v"]):
        result = fleet("config", *args)
        assert (result.code, result.out) == (1, "")
        assert f"no fleet home at {fleet.home}" in result.err and "`fleet init`" in result.err
    assert not fleet.home.exists()


def test_config_set_creates_the_home_and_reports_it(fleet: Program) -> None:
    assert fleet("config", "set", "max_concurrent=0").code == 1
    assert not fleet.home.exists(), "a refused value makes nothing"
    result = fleet("config", "set", "max_concurrent=7")
    assert result.code == 0 and f"Fleet home initialized at {fleet.home}" in result.err
    assert fleet.ok("config", "get", "max_concurrent") == "7\n"


def test_validate_lists_every_fault(made: Program, repo: Path) -> None:
    assert made.ok("config", "validate") == f"{made.home}/runtime.toml: ok\n"
    (made.home / "runtime.toml").write_text("max_concurrent = 0\nmodle = 'x'\n")
    (repo / ".fleet").mkdir()
    (repo / ".fleet" / "config.toml").write_text("coder = \n")
    for args in (["validate"], ["-v"], ["--validate"]):
        result = made("config", *args)
        assert result.code == 1
        assert f"error: {made.home}/runtime.toml: max_concurrent must be" in result.err
        assert "hint:  did you mean model?" in result.err
        assert f"error: {repo}/.fleet/config.toml:1:9: invalid value" in result.err


def test_validate_reports_settings_without_effect(made: Program, repo: Path) -> None:
    for name in (".fleet", ".aifleet"):
        (repo / name).mkdir()
        (repo / name / "config.toml").write_text('coder = "codex"\npermissions = "skip"\n')
    code, out, err = made("config", "validate")
    assert code == 0 and f"{repo}/.fleet/config.toml cannot raise permissions" in err
    assert f"note: {repo}/.aifleet/config.toml is ignored: {repo}/.fleet/config.toml counts" in out
    assert "note: model = sonnet is not handed to codex" in out


def test_validate_refuses_an_unknown_coder(made: Program) -> None:
    (made.home / "runtime.toml").write_text('coder = "cluade"')
    result = made("config", "validate")
    assert result.code == 1 and "unknown coder 'cluade'" in result.err


@pytest.mark.parametrize("data", [b"coder = ", b"\xff\xfe", b'model = "half', b"\0", b"coder = 'x'\r\x01"])
def test_broken_settings_file_never_crashes_the_program(made: Program, data: bytes) -> None:
    (made.home / "runtime.toml").write_bytes(data)
    for args in (["set", "coder=codex"], ["validate"]):
        result = made("config", *args)
        assert result.code == 1
        assert f"error: {made.home}/runtime.toml" in result.err and "bug" not in result.err
    for args in ([], ["get", "coder"]):
        result = made("config", *args)
        assert result.code == 0 and result.err.startswith(f"warning: {made.home}/runtime.toml")
    assert (made.home / "runtime.toml").read_bytes() == data
    assert made("config", "show", "--raw").code == 0


def test_one_bad_key_does_not_prevent_repairing_another(made: Program) -> None:
    (made.home / "runtime.toml").write_text("max_concurrent = 0\nfoo = 1\n")
    made.ok("config", "set", "max_concurrent=2")
    assert runtime(made) == "max_concurrent = 2\nfoo = 1\n"


@pytest.mark.parametrize("text", ["[[coders]]\n", "coders = 3\n", "[coders]\ncodex = []\n"])
def test_config_set_refuses_to_replace_a_value_by_a_table(made: Program, text: str) -> None:
    (made.home / "runtime.toml").write_text(text)
    result = made("config", "set", "coders.codex.model=o3")
    assert result.code == 1 and "is not a table" in result.err
    assert runtime(made) == text


def test_edit_opens_runtime_toml_outside_a_project(made: Program, editor: Callable[[str], None]) -> None:
    editor('echo "# seen" >> "$file"')
    for args in (["edit"], ["-e"], ["--edit"]):
        made.ok("config", *args)
    assert runtime(made).count("# seen") == 3


def test_edit_opens_the_project_file_inside_a_project(made: Program, repo: Path, editor: Callable[[str], None]) -> None:
    editor('echo "# seen" >> "$file"')
    made.ok("config", "edit", "--project")
    made.ok("config", "edit")
    assert (repo / ".fleet" / "config.toml").read_text().count("# seen") == 2
    assert "# seen" not in runtime(made)


def test_edit_keeps_a_backup_when_the_new_file_is_broken(made: Program, editor: Callable[[str], None]) -> None:
    before = runtime(made)
    editor('echo "coder = " > "$file"')
    result = made("config", "edit")
    assert result.code == 1
    assert "runtime.toml:1:9: invalid value" in result.err
    assert (made.home / "runtime.toml.bak-1").read_text() == before


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("/no/such/editor", "cannot start the editor"),
        ("false", "exit code 1"),
        ("'half", "invalid editor"),
    ],
)
def test_editor_that_fails_is_named(made: Program, command: str, said: str) -> None:
    result = made("config", "edit", VISUAL=command)
    assert result.code == 1 and said in result.err


@pytest.mark.parametrize("variable", ["FLEET_DEBUG", "AI_FLEET_DEBUG"])
def test_debugging_shows_the_files_read_and_the_origin_of_a_value(made: Program, variable: str) -> None:
    made.env |= {variable: "1", "FLEET_CODER": "codex"}
    result = made("config", "get", "coder")
    assert result.out == "codex\n"
    assert f"debug: read {made.home}/runtime.toml" in result.err
    assert "debug: coder = 'codex' from FLEET_CODER" in result.err


def test_concurrent_changes_are_all_kept(made: Program) -> None:
    names = [f"c{number}" for number in range(8)]
    calls = [
        subprocess.Popen(
            [*made.argv, "config", "set", f"coders.{name}.model=m"], env=made.env, stdout=subprocess.DEVNULL
        )
        for name in names
    ]
    assert [call.wait(60) for call in calls] == [0] * len(names)
    assert sorted(tomllib.loads(runtime(made))["coders"]) == names


ACCOUNTS = """
# mine
[[accounts]]
name = "work"
coder = "claude"
secrets = { ANTHROPIC_API_KEY = ["pass", "show", "claude"] }

[[accounts]]
name = "home"
coder = "claude"
config_dir = "~/.claude-home"
"""
SHOWN = (
    '[{name = "work", coder = "claude", secrets = {ANTHROPIC_API_KEY = ["pass", "show", "claude"]}}, '
    '{name = "home", coder = "claude", config_dir = "~/.claude-home"}]'
)


def test_accounts_are_listed_and_read_as_one_value(made: Program) -> None:
    assert made.ok("config", "get", "accounts") == "[]\n"
    (made.home / "runtime.toml").write_text(runtime(made) + ACCOUNTS)
    made.ok("config", "validate")
    assert made.ok("config", "get", "accounts") == f"{SHOWN}\n"
    [line] = [line for line in made.ok("config", "--show-origin").splitlines() if line.startswith("accounts ")]
    assert line.split(maxsplit=1)[1] == f"{SHOWN}  {made.home}/runtime.toml"
    listed = json.loads(made.ok("config", "--json"))["accounts"]["value"]
    assert listed[1] == {"name": "home", "coder": "claude", "config_dir": "~/.claude-home"}


def test_accounts_can_only_be_changed_in_the_file(made: Program) -> None:
    (made.home / "runtime.toml").write_text(runtime(made) + ACCOUNTS)
    for text in ("accounts.0.name=x", "accounts=[]"):
        result = made("config", "set", text)
        assert (
            result.code == 1
            and "accounts cannot be set by key: it is a list of tables" in result.err
            and "fleet config edit" in result.err
        )
    made.ok("config", "set", "max_concurrent=7", "coders.codex.flags=--a, --b", 'prices."gpt-5*".input=1.25')
    assert ACCOUNTS in runtime(made)
    assert made.ok("config", "get", "coders.codex.flags") == '["--a", "--b"]\n'
    assert made.ok("config", "get", 'prices."gpt-5*".input') == "1.25\n"
    assert ['prices."gpt-5*".input', "1.25"] in [line.split() for line in made.ok("config").splitlines()]


def test_validate_names_faults_of_accounts_and_described_coders(made: Program) -> None:
    good = runtime(made)
    for text, said in (
        ("[[accounts]]\nname = 'a'\ncoder = 'claude'\n" * 2, "accounts[2]: claude already has an account 'a'"),
        ("[[accounts]]\nname = 'a'\ncoder = 'cluade'\n", "unknown coder 'cluade'"),
        ("[coders.mine]\nargv = ['x']\nprompt = 'file'\n", "argv does not name {prompt_file}"),
        ('[agent]\nclaude_flags = "--a \'b"\n', "agent.claude_flags cannot be split into words"),
    ):
        (made.home / "runtime.toml").write_text(good + text)
        result = made("config", "validate")
        assert result.code == 1 and said in result.err and "hint:" in result.err


def test_coder_can_be_described_by_commands_alone(made: Program) -> None:
    made.ok("config", "set", 'coders.mine.argv=["mycli", ["--model", "{model}"]]', "coders.mine.output.format=jsonl")
    made.ok("config", "set", 'coders.mine.output.success={type = "end"}', "coders.mine.output.text=message.text")
    made.ok("config", "set", "coder=mine")
    made.ok("config", "validate")
    assert made.ok("config", "get", "coders.mine.argv") == '["mycli", ["--model", "{model}"]]\n'
    table = tomllib.loads(runtime(made))["coders"]["mine"]
    assert table["output"] == {"format": "jsonl", "success": {"type": "end"}, "text": "message.text"}
    result = made("config", "set", "coders.mine.output.text=message..text")
    assert result.code == 1 and 'must be a path such as "message.text"' in result.err
