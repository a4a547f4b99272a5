"""Settings: declarations, refusals, precedence, and changes of files."""

import os
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.core.errors import BadInput
from fleet.home import Home
from fleet.settings import HOME, KEYS, OF_SUPERVISORS, PROJECT, Settings, load, model_for, permissions_for
from fleet.settings.check import assignment, check, path_of
from fleet.settings.keys import ELEMENTS, SCOPES, DeclaredSettings, in_scope, iterate_documented_keys
from fleet.settings.save import create, keep_copy, reset, save
from fleet.settings.text import default_text, toml_value, with_values
from fleet.settings.trusted import digest, record_trusted

AGREED = "\n[consent]\nskip_permissions_at = 2026-01-01T00:00:00Z\n"


class Place:
    """A home and a project with settings files."""

    def __init__(self, base: Path) -> None:
        self.home = Home(str(base / "home"))
        self.home.make()
        self.project = base / "project"
        self.project.mkdir()

    def settings(self, text: str = "", project: str | None = None, **env: str) -> Settings:
        Path(self.home.settings).write_text(text)
        if project is not None:
            (self.project / ".fleet").mkdir(exist_ok=True)
            (self.project / ".fleet" / "config.toml").write_text(project)
        return load(self.home, str(self.project), env)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_each_setting_has_a_description_and_a_file() -> None:
    for name, key in iterate_documented_keys():
        assert key.help.endswith("."), name
        assert key.shape(), name
        assert any(in_scope(key.path, scope) for scope in SCOPES), name
    assert {"accounts[].secrets", "coders.<name>.output.success", "prices.<name>.cache_read"} <= dict(
        iterate_documented_keys()
    ).keys()


def test_keys_of_codefleet_have_its_defaults() -> None:
    held = DeclaredSettings()
    assert (held.max_concurrent, held.coder, held.model) == (3, "claude", "sonnet")
    assert held.context_pressure_threshold_pct == 90


def test_numbers_and_tables_are_read_in_sections(place: Place) -> None:
    held = place.settings(
        '[agent.env]\nCI = "1"\n[watchdog]\nwall_seconds = 60\nsilence_seconds = 5\n[coders.codex]\nmax_concurrent = 2',
        "[watchdog]\nwall_seconds = 90.5",
    )
    assert (held.watchdog.wall_seconds, held.watchdog.silence_seconds, held.watchdog.max_tokens) == (90.5, 5, None)
    assert held.agent.env == {"CI": "1"} and held.coders["codex"].max_concurrent == 2
    assert held.limits == DeclaredSettings().limits and held.limits.retry_limit == 2


def test_numbers_and_tables_are_written_as_in_toml() -> None:
    assert assignment("supervisor.start_interval_seconds=0.5", HOME)[1] == 0.5
    assert assignment('agent.env={CI = "1"}', HOME)[1] == {"CI": "1"}
    assert toml_value({"CI": "1", "a b": "c"}) == '{CI = "1", "a b" = "c"}'


def test_defaults_apply_without_files(place: Place) -> None:
    held = load(place.home, env={})
    assert held.coder == "claude"
    assert held.origin("coder").kind == "default"


@pytest.mark.parametrize("scope", [HOME, PROJECT])
def test_default_file_names_each_key_and_is_valid(scope: Any) -> None:
    text = default_text(scope)
    assert check(tomllib.loads(text), scope).problems == []
    taken = [path for path in KEYS if in_scope(path, scope) and path not in ELEMENTS]
    inner = [key.path for path in ELEMENTS if in_scope(path, scope) for key in ELEMENTS[path].values()]
    for path in (*taken, *inner):
        assert f"{path[-1]} = " in text
    assert ("# [[accounts]]" in text) == ("argv" in text) == (scope == HOME)
    live = "\n".join(
        line.removeprefix("# ") if " = " in line or line.startswith("# [") else "" for line in text.splitlines()
    )
    assert check(tomllib.loads(live), scope).problems == [], "uncommenting the examples gives a valid file"


def test_project_overrides_the_home_and_the_environment_overrides_both(place: Place) -> None:
    held = place.settings('coder = "a"\nmodel = "m"\nmax_concurrent = 7', 'coder = "b"\nmodel = "n"', FLEET_MODEL="o")
    assert (held.coder, held.model, held.max_concurrent) == ("b", "o", 7)
    assert [held.origin(key).kind for key in ("coder", "model", "max_concurrent")] == [
        "project",
        "environment",
        "runtime",
    ]
    assert str(held.origin("coder")).endswith(".fleet/config.toml")
    assert str(held.origin("model")) == "FLEET_MODEL"


@pytest.mark.parametrize("of_project", [True, False])
def test_rewritten_file_is_read_again_when_its_size_and_times_are_the_same(place: Place, of_project: bool) -> None:
    file = place.project / ".fleet" / "config.toml" if of_project else Path(place.home.settings)
    seen = []
    for coder in ("codex", "claude", "codex"):
        text = f'coder = "{coder}"'.ljust(40) + "\n"
        place.settings("" if of_project else text, text if of_project else None)
        os.utime(file, ns=(1, 1))
        seen.append(load(place.home, str(place.project), {}).coder)
    assert seen == ["codex", "claude", "codex"]


def test_settings_stay_when_the_values_of_others_are_changed(place: Place) -> None:
    text = '[agent.env]\nA = "1"\n'
    place.settings(text).agent.env["A"] = "2"
    assert place.settings(text).agent.env == {"A": "1"}


def test_empty_variable_counts_as_unset_and_an_invalid_one_is_named(place: Place) -> None:
    assert place.settings(FLEET_CODER="").coder == "claude"
    with pytest.raises(BadInput, match='FLEET_PERMISSIONS: permissions must be "skip" or "user"'):
        place.settings(FLEET_PERMISSIONS="all")


def test_variables_of_codefleet_set_how_an_account_slows_down(place: Place) -> None:
    names = ("FLEET_RATE_LIMIT_MAX_RETRIES", "FLEET_RATE_LIMIT_BASE_DELAY", "FLEET_RATE_LIMIT_MAX_DELAY")
    assert set(names) < set(OF_SUPERVISORS)
    limits = place.settings().limits
    assert (limits.rate_limit_retries, limits.rate_limit_base_seconds, limits.rate_limit_max_seconds) == (3, 4.0, 60.0)
    held = place.settings("[limits]\nrate_limit_retries = 9", **dict(zip(names, ("5", "0.5", "7"), strict=True)))
    limits = held.limits
    assert (limits.rate_limit_retries, limits.rate_limit_base_seconds, limits.rate_limit_max_seconds) == (5, 0.5, 7)
    assert str(held.origin("limits.rate_limit_retries")) == "FLEET_RATE_LIMIT_MAX_RETRIES"
    with pytest.raises(
        BadInput, match=r"FLEET_RATE_LIMIT_MAX_RETRIES: limits.rate_limit_retries must be .* not 'many'"
    ):
        place.settings(FLEET_RATE_LIMIT_MAX_RETRIES="many")


def test_max_concurrent_of_the_mcp_server_is_ignored(place: Place) -> None:
    assert place.settings(FLEET_MAX_CONCURRENT="50").max_concurrent == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("max_concurrent = 0", "max_concurrent must be a whole number from 1 to 1000, not 0"),
        ("max_concurrent = 1001", "not 1001"),
        ("max_concurrent = true", "not true"),
        ('max_concurrent = "3"', "not '3'"),
        ("max_concurrent = 3.5", "not 3.5"),
        ("max_concurrent = {}", "max_concurrent must be"),
        ('coder = ""', "coder must be the name of a coder"),
        ('coder = "a b"', "coder must be"),
        ('coder = "a\\n"', "coder must be"),
        ('model = "--evil"', "model must be one line of text that does not start with a dash"),
        ('model = "a\\nb"', "model must be"),
        ('permissions = "all"', 'permissions must be "skip" or "user"'),
        ("coders = 3", "coders must be a table, not 3"),
        ("[coders]\ncodex = 3", "coders.codex must be a table"),
        ('[coders."a b"]\nmodel = "x"', "'a b' cannot be the name of a coder"),
        ("[coders.codex]\nmodle = 3", "unknown key coders.codex.modle"),
        ("[setup]\nquick = true", "setup.quick cannot be set here"),
        ("[supervisor]\nclaim_seconds = 2", "supervisor.claim_seconds must be a whole number from 3 to 86400, not 2"),
        ("[watchdog]\nwall_seconds = nan", "watchdog.wall_seconds must be a number from 0.1 to 2592000, not nan"),
        ("[watchdog]\nmax_cost_usd = true", "watchdog.max_cost_usd must be a number from 0.01 to 1000000, not true"),
        ("[limits]\nretry_limit = 0", "limits.retry_limit must be a whole number from 1 to 500, not 0"),
        ("[coders.codex]\nmax_concurrent = 0", "coders.codex.max_concurrent must be a whole number from 1 to 1000"),
        ('[agent]\nenv = "A=b"', "agent.env must be a table of names and texts"),
        ('[agent.env]\n"A=B" = "c"', "agent.env must be a table of names and texts"),
        ('[agent]\npass_env = ["A B"]', "agent.pass_env must be a list, each the name of a variable"),
        ('consent = { skip_permissions_at = "yes" }', "consent.skip_permissions_at must be a date and time"),
    ],
)
def test_invalid_value_is_refused_with_the_expected_form(place: Place, text: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        place.settings(text)
    assert said in str(refused.value)
    assert place.home.settings in str(refused.value)


@pytest.mark.parametrize(
    ("scope", "text", "nearest"),
    [
        (HOME, "max_concurent = 3", "max_concurrent"),
        (HOME, "context_pressure_threshold = 3", "context_pressure_threshold_pct"),
        (HOME, "[coders.codex]\nmodl = 3", "coders"),
        (PROJECT, "[setup]\ncomands = []", "setup.commands"),
        (PROJECT, "[agent]\nclaude_flag = 3", "agent.claude_flags"),
        (PROJECT, "quik = true", "setup.quick"),
    ],
)
def test_unknown_key_gets_a_suggestion(scope: Any, text: str, nearest: str) -> None:
    [problem] = check(tomllib.loads(text), scope).problems
    assert problem.message.startswith("unknown key")
    assert nearest in problem.hint


def test_all_problems_of_a_file_are_reported_at_once() -> None:
    assert len(check(tomllib.loads("max_concurrent = 0\nfoo = 1\nbar = 2"), HOME).problems) == 3


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"coder = ", ":1:9: invalid value"),
        (b"max_concurrent = 3\ncoder 'x'", ":2:7: expected '='"),
        (b"coder = 'a'\ncoder = 'b'", ":2:"),
        (b'model = "half', ":1:14: unterminated string"),
        (b"a = 1\n\xff\xfe", ":2:1: not UTF-8 text"),
        (b"x = " + b"[" * 5000, "nested too deeply"),
    ],
)
def test_broken_file_is_reported_with_line_and_column(place: Place, data: bytes, said: str) -> None:
    Path(place.home.settings).write_bytes(data)
    with pytest.raises(BadInput) as refused:
        load(place.home, env={})
    assert f"{place.home.settings}{said}" in str(refused.value).replace(": nested", "nested")


AI_FLEET = """
[project]
name = "my-awesome-project"
worktree_root = "~/.aifleet/worktrees/my-awesome-project"
[agent]
default = "codex"
claude_flags = "--dangerously-skip-permissions"
[setup]
credential_files = ["config/master.key", ".env"]
commands = ["bundle install", "npm install && npm test"]
quick = true
[tmux]
prefix = "ai_"
"""
AI_FLEET_FLAT = """
worktree_root = "~/.aifleet/worktrees/my-awesome-project"
tmux_prefix = "ai_"
default_agent = "codex"
claude_flags = "--dangerously-skip-permissions"
credential_files = ["config/master.key", ".env"]
setup_commands = ["bundle install", "npm install && npm test"]
quick_setup = true
"""


@pytest.mark.parametrize("text", [AI_FLEET, AI_FLEET_FLAT])
def test_file_of_ai_fleet_is_read_in_both_spellings(place: Place, text: str) -> None:
    (place.project / ".aifleet").mkdir()
    (place.project / ".aifleet" / "config.toml").write_text(text)
    untrusted = place.settings('permissions = "skip"' + AGREED).untrusted
    assert len(untrusted) == 4
    record_trusted(place.home, str(place.project), map(digest, untrusted))
    assert place.settings().agent.claude_flags is None
    held = place.settings('permissions = "skip"' + AGREED)
    assert held.coder == "codex"
    assert held.agent.claude_flags == "--dangerously-skip-permissions"
    assert held.setup.credential_files == ("config/master.key", ".env")
    assert held.setup.commands == ("bundle install", "npm install && npm test")
    assert held.setup.quick and held.tmux.prefix == "ai_"
    assert held.project.worktree_root == "~/.aifleet/worktrees/my-awesome-project"


def test_other_settings_of_ai_fleet_are_noted_without_an_error(place: Place) -> None:
    text = 'repo_root = "~/code"\n[defaults]\nagent = "claude"\n[ui]\ncolor = true\n[updates]\ncheck_on_startup = 1\n'
    (place.project / ".aifleet").mkdir()
    (place.project / ".aifleet" / "config.toml").write_text(text + '[agent]\ndefault = "codecs"\n')
    assert place.settings().coder == "codecs"
    checked = check(tomllib.loads(text), PROJECT)
    assert (checked.values, checked.problems) == ({}, [])
    assert [note.split()[0] for note in checked.notes] == ["repo_root", "defaults", "ui", "updates"]
    assert len(check(tomllib.loads(text), HOME).problems) == 4, "in the home there was never such a file"


def test_worktree_settings_have_their_defaults_and_files(place: Place) -> None:
    held = place.settings()
    assert (held.ports.base, held.ports.count, held.tmux.socket, held.tmux.config) == (20_000, 10, "fleet", None)
    assert (held.setup.seconds, held.verify.seconds, held.verify.command, held.agent.mode) == (900, 600, None, None)
    assert (held.saving.ignored_mb, held.saving.days) == (64, 90) and "node_modules" in held.saving.skip
    assert (held.project.branch_pattern, held.project.exclusive, held.setup.teardown) == ((), False, ())
    demands = ("verify.command: make test", "setup.teardown: make clean", 'tmux.socket = "b"')
    record_trusted(place.home, str(place.project), map(digest, demands))
    held = place.settings(
        '[ports]\nbase = 3000\ncount = 5\n[tmux]\nsocket = "a"\nconfig = "~/t"\n[agent]\nmode = "headless"',
        '[ports]\nbase = 4000\n[tmux]\nsocket = "b"\n[agent]\nmode = "interactive"\n[verify]\ncommand = "make test"\n'
        '[project]\nbranch_pattern = ["fix-*"]\nexclusive = true\n[setup]\nteardown = ["make clean"]\nseconds = 5',
    )
    assert (held.ports.base, held.ports.count, held.tmux.socket, held.tmux.config) == (4000, 5, "b", "~/t")
    assert (held.agent.mode, held.verify.command, held.project.branch_pattern) == (
        "interactive",
        "make test",
        ("fix-*",),
    )
    assert held.project.exclusive and held.setup.teardown == ("make clean",) and held.setup.seconds == 5


@pytest.mark.parametrize(
    ("text", "scope", "said"),
    [
        ('tmux.config = "~/t"', PROJECT, "tmux.config cannot be set here"),
        ("saving.days = 1", PROJECT, "saving.days cannot be set here"),
        ('verify.command = "x"', HOME, "verify.command cannot be set here"),
        ('setup.commands = ["x"]', HOME, "setup.commands cannot be set here"),
        ("ports.base = 80", HOME, "ports.base must be a whole number from 1024 to 65000"),
        ('tmux.socket = ""', PROJECT, "tmux.socket must be 1 to 32 letters"),
        ('tmux.socket = "../x"', PROJECT, "tmux.socket must be 1 to 32 letters"),
        ('agent.mode = "tmux"', PROJECT, 'agent.mode must be "interactive" or "headless"'),
    ],
)
def test_worktree_setting_in_the_wrong_file_is_refused(text: str, scope: Any, said: str) -> None:
    [problem] = check(tomllib.loads(text), scope).problems
    assert problem.message.startswith(said)


def test_variable_sets_the_first_port(place: Place) -> None:
    held = place.settings("[ports]\nbase = 3000", "[ports]\nbase = 4000", FLEET_PORT_BASE="5000")
    assert (held.ports.base, str(held.origin("ports.base"))) == (5000, "FLEET_PORT_BASE")
    assert "FLEET_PORT_BASE" in OF_SUPERVISORS, "it is the supervisor that leases them"
    with pytest.raises(BadInput, match=r"FLEET_PORT_BASE: ports\.base must be"):
        place.settings(FLEET_PORT_BASE="80")


def test_fleet_file_replaces_the_whole_file_of_ai_fleet(place: Place) -> None:
    (place.project / ".aifleet").mkdir()
    (place.project / ".aifleet" / "config.toml").write_text(AI_FLEET)
    assert place.settings(project='model = "x"').coder == "claude"


def test_duplicate_setting_with_different_values_is_refused() -> None:
    assert check(tomllib.loads('coder = "a"\n[agent]\ndefault = "a"'), PROJECT).problems == []
    [problem] = check(tomllib.loads('coder = "a"\n[agent]\ndefault = "b"'), PROJECT).problems
    assert "is set twice" in problem.message


@pytest.mark.parametrize(
    ("home", "project", "env", "coder", "model"),
    [
        ("", None, {}, "claude", "sonnet"),
        ("", None, {}, "codex", None),
        ('coder = "codex"', None, {}, "codex", None),
        ('coder = "codex"\nmodel = "sonnet"', None, {}, "codex", None),
        ('coder = "codex"\nmodel = "o3"', None, {}, "codex", "o3"),
        ('coder = "codex"\nmodel = "o3"', None, {}, "claude", None),
        ('[coders.codex]\nmodel = "o3"', None, {}, "codex", "o3"),
        ('model = "opus"', 'coder = "codex"', {}, "codex", None),
        ('model = "opus"', 'coder = "claude"', {}, "claude", "opus"),
        ('model = "opus"', None, {"FLEET_CODER": "codex"}, "codex", None),
        ('model = "opus"', None, {"FLEET_MODEL": "haiku"}, "claude", "haiku"),
        ("", 'coder = "codex"\nmodel = "o3"', {}, "codex", "o3"),
        ('[coders.claude]\nmodel = "opus"', None, {}, "claude", "opus"),
        ('model = "haiku"\n[coders.claude]\nmodel = "opus"', None, {}, "claude", "haiku"),
    ],
)
def test_model_is_never_passed_to_another_coder(
    place: Place, home: str, project: str | None, env: dict[str, str], coder: str, model: str | None
) -> None:
    assert model_for(place.settings(home, project, **env), coder) == model


@pytest.mark.parametrize(
    ("home", "project", "env", "permissions"),
    [
        ("", None, {}, "user"),
        ('permissions = "skip"', None, {}, "user"),
        ('permissions = "skip"' + AGREED, None, {}, "skip"),
        ('permissions = "skip"' + AGREED, 'permissions = "user"', {}, "user"),
        ("", 'permissions = "skip"', {}, "user"),
        ('permissions = "user"' + AGREED, 'permissions = "skip"', {}, "user"),
        ('permissions = "skip"' + AGREED, 'permissions = "skip"', {}, "skip"),
        ('permissions = "user"' + AGREED + '[coders.codex]\npermissions = "skip"', None, {}, "skip"),
        (AGREED + '[coders.codex]\npermissions = "skip"', 'permissions = "user"', {}, "user"),
        (AGREED + '[coders.codex]\npermissions = "skip"', None, {"FLEET_PERMISSIONS": "user"}, "user"),
        ("", None, {"FLEET_PERMISSIONS": "skip"}, "user"),
    ],
)
def test_permissions_are_skipped_only_when_configured_and_agreed_to(
    place: Place, home: str, project: str | None, env: dict[str, str], permissions: str
) -> None:
    assert permissions_for(place.settings(home, project, **env), "codex") == permissions


@pytest.mark.parametrize("text", ["", "=", "a=1\nb", "a\nb", "[a]", "a.", ".a", "a b", "'", "a = 1 #", "\0"])
def test_invalid_key_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="is not a key"):
        path_of(text)


def test_keys_are_written_as_in_toml() -> None:
    assert path_of('coders."my.pkg:Coder".model') == ("coders", "my.pkg:Coder", "model")


def test_change_keeps_comments_order_and_formatting() -> None:
    text = "# mine\nmodel   =  'opus' # the big one\n\n[coders.codex]  # other\nmodel='o3'\n"
    changed = with_values(text, {("model",): "haiku", ("coders", "agy", "model"): "x"}, HOME)
    assert changed.startswith("# mine\nmodel   =  \"haiku\" # the big one\n\n[coders.codex]  # other\nmodel='o3'\n")
    assert tomllib.loads(changed)["coders"]["agy"] == {"model": "x"}


def test_optional_key_replaces_its_comment() -> None:
    text = with_values(default_text(HOME), {("permissions",): "user"}, HOME)
    assert text == default_text(HOME).replace('\n# permissions = "user"', '\npermissions = "user"', 1)


def test_change_uses_the_spelling_of_the_file() -> None:
    changed = with_values('[agent]\ndefault = "a"\n', {("coder",): "b"}, PROJECT)
    assert changed == '[agent]\ndefault = "b"\n'


LINES = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=40)


@given(value=st.one_of(LINES, st.lists(LINES, max_size=4), st.integers(-(2**63), 2**63 - 1), st.booleans()))
def test_any_value_survives_a_round_trip(value: Any) -> None:
    text = with_values(default_text(PROJECT), {("setup", "commands"): value}, PROJECT)
    assert tomllib.loads(text)["setup"]["commands"] == value
    assert tomllib.loads(f"x = {toml_value(value)}")["x"] == value


def test_broken_file_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "runtime.toml"
    path.write_text("coder = ")
    with pytest.raises(BadInput, match="1:9"):
        save(str(path), HOME, {("coder",): "x"})
    assert path.read_text() == "coder = "


def test_saving_the_same_value_writes_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "runtime.toml")
    assert create(path, HOME) is True
    assert create(path, HOME) is False
    assert save(path, HOME, {("coder",): "codex"}) is True
    assert save(path, HOME, {("coder",): "codex"}) is False


def test_reset_keeps_each_replaced_file(tmp_path: Path) -> None:
    path = tmp_path / "runtime.toml"
    for number in (1, 2):
        path.write_text(f"max_concurrent = {number}")
        assert reset(str(path), HOME) == f"{path}.bak-{number}"
    assert reset(str(path), HOME) is None
    assert Path(f"{path}.bak-2").read_text() == "max_concurrent = 2"
    assert keep_copy(str(path), b"x") == f"{path}.bak-3"


def test_consent_is_a_timestamp(place: Place) -> None:
    assert place.settings(AGREED).consent.skip_permissions_at == datetime(2026, 1, 1, tzinfo=UTC)
