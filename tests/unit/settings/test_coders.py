"""Settings of coders, accounts and prices: their effect and their display."""

import subprocess
import sys
import tomllib
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from fleet.actions.control.settings import rows
from fleet.core.errors import BadInput
from fleet.home import Home
from fleet.settings import (
    HOME,
    Settings,
    accounts_for,
    coder_settings,
    env_for,
    flags_for,
    load,
    program_for,
    window_for,
)
from fleet.settings.check import assignment, check
from fleet.settings.prices import OWN, dollars, price_of
from fleet.settings.text import toml_value, with_values
from fleet.settings.trusted import digest, record_trusted

AN_ACCOUNT = '[[accounts]]\nname = "work"\ncoder = "codex"\n'
Held = Callable[..., Settings]


@pytest.fixture
def held(tmp_path: Path) -> Held:
    """Return a function that reads a text as runtime.toml, and another one as a project file over it."""
    home, project = Home(str(tmp_path / "home")), tmp_path / "project"
    home.make()
    (project / ".fleet").mkdir(parents=True)

    def read(text: str, own: str = "") -> Settings:
        Path(home.settings).write_text(text)
        (project / ".fleet" / "config.toml").write_text(own)
        return load(home, str(project), {})

    return read


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[agent]\nclaude_flags = "--a \'b"', "agent.claude_flags cannot be split into words: no closing quotation"),
        ("[coders.codex]\ncontext_limit = 0", "coders.codex.context_limit must be a whole number from 1"),
        ('[coders.codex]\nprogram = "-x"', "coders.codex.program must be the name of a program, or a path"),
        ('[coders.codex]\nprogram = "./x"', "coders.codex.program must be"),
        ('[coders.codex]\nflags = "--a --b"', "coders.codex.flags must be a list, each text"),
        ("[coders.codex]\nargv = []", "coders.codex.argv must be a list of words"),
        ('[coders.codex]\nargv = ["a", [["b"]]]', "coders.codex.argv must be"),
        ('[coders.codex]\nprompt = "tty"', 'coders.codex.prompt must be "stdin" or "file" or "argument"'),
        ("[coders.codex]\noutput = 3", "coders.codex.output must be a table, not 3"),
        ('[coders.codex.output]\ntext = "a..b"', 'coders.codex.output.text must be a path such as "message.text"'),
        ("[coders.codex.output]\ntext = {when = {a = 1}}", "coders.codex.output.text must be"),
        ("[coders.codex.output]\nsuccess = {a = {b = 1}}", "coders.codex.output.success must be a table of paths"),
        ("[coders.codex.output]\nsucess = {a = 1}", "unknown key coders.codex.output.sucess"),
        ('[prices."a b"]\ninput = 1', "'a b' cannot be the name of a model"),
        ("[prices.m]\ninput = -1", "prices.m.input must be a number from 0 to 1000000, not -1"),
        ("[prices.m]\ninput = nan", "prices.m.input must be"),
        ("[limits]\nrate_limit_base_seconds = 0", "limits.rate_limit_base_seconds must be a number from 0.1 to 3600"),
        ("accounts = 3", "accounts must be a list of [[accounts]] tables, not 3"),
        ('[accounts]\nname = "a"', "accounts must be a list of [[accounts]] tables"),
        ("accounts = [3]", "accounts[1] must be a table, not 3"),
        ('[[accounts]]\ncoder = "a"', "accounts[1] needs a name"),
        ('[[accounts]]\nname = "a"', "accounts[1] needs a coder"),
        (AN_ACCOUNT + '[[accounts]]\nname = "-b"\ncoder = "a"', "accounts[2].name must be a name of letters"),
        (AN_ACCOUNT + "nmae = 3", "unknown key accounts[1].nmae"),
        (AN_ACCOUNT + 'config_dir = "here"', "accounts[1].config_dir must be a path that starts with / or ~/"),
        (AN_ACCOUNT + 'secrets = {A = "cat /key"}', "accounts[1].secrets must be a table of names and commands"),
        (AN_ACCOUNT + "secrets = {A = []}", "accounts[1].secrets must be"),
        (AN_ACCOUNT + 'env = {"A B" = "c"}', "accounts[1].env must be a table of names and texts"),
        (AN_ACCOUNT + AN_ACCOUNT, "accounts[2]: codex already has an account 'work'"),
    ],
)
def test_invalid_value_is_refused_with_the_expected_form(held: Held, text: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        held(text)
    assert said in str(refused.value)
    assert "runtime.toml: " in str(refused.value) and refused.value.hint


CODERS = """
[agent]
claude_flags = "--a 'b c'"
env = { ALL = "1", BOTH = "1" }
[coders.claude]
flags = ["--first", "x y"]
env = { BOTH = "2", OWN = "3" }
context_limit = 1000000
program = "~/bin/claude"
"""


def test_setting_of_a_coder_overrides_the_general_one(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    settings = held(CODERS)
    assert flags_for(settings, "claude") == ("--first", "x y", "--a", "b c"), (
        "the old text comes last, split as a shell does"
    )
    assert env_for(settings, "claude") == {"ALL": "1", "BOTH": "2", "OWN": "3"}
    assert (window_for(settings, "claude"), program_for(settings, "claude")) == (1_000_000, "/home/me/bin/claude")
    assert (flags_for(settings, "codex"), env_for(settings, "codex")) == ((), {"ALL": "1", "BOTH": "1"})
    assert (window_for(settings, "codex"), program_for(settings, "codex")) == (None, "")
    assert coder_settings(settings, "codex").argv is None


def test_project_may_set_how_a_coder_starts_but_not_describe_one(held: Held) -> None:
    texts = ("[coders.mine]\nflags = ['--a']", "[coders.mine]\nflags = ['--b']\nprogram = 'x'")
    untrusted = held(*texts)
    assert flags_for(untrusted, "mine") == ("--a",) and program_for(untrusted, "mine") == ""
    project = Path(untrusted.project_file).parent.parent
    record_trusted(Home(str(project.parent / "home")), str(project), map(digest, untrusted.untrusted))
    settings = held(*texts)
    assert flags_for(settings, "mine") == ("--b",) and program_for(settings, "mine") == "x"
    for text in ("argv = ['x']", "resume_argv = ['x']", "prompt = 'file'", "output = {format = 'text'}"):
        with pytest.raises(BadInput, match="cannot be set here") as refused:
            held("", f"[coders.mine]\n{text}")
        assert "runtime.toml" in refused.value.hint


def test_project_cannot_set_accounts_and_prices(held: Held) -> None:
    for text in (AN_ACCOUNT, "[prices.m]\ninput = 1"):
        with pytest.raises(BadInput, match="cannot be set here"):
            held("", text)


ACCOUNTS = """
[[accounts]]
name = "late"
coder = "claude"
order = 5

[[accounts]]
name = "first"
coder = "claude"
config_dir = "~/.claude-first"
env = { A = "1" }
secrets = { ANTHROPIC_API_KEY = ["pass", "show", "key one"] }
max_concurrent = 2

[[accounts]]
name = "second"
coder = "claude"

[[accounts]]
name = "first"
coder = "codex"
"""


def test_accounts_are_sorted_by_order_and_then_by_position(held: Held) -> None:
    settings = held(ACCOUNTS)
    assert [account.name for account in settings.accounts] == ["late", "first", "second", "first"]
    first, second, late = accounts_for(settings, "claude")
    assert (first.name, second.name, late.name) == ("first", "second", "late")
    assert (first.config_dir, first.env, first.max_concurrent) == ("~/.claude-first", {"A": "1"}, 2)
    assert first.secrets == {"ANTHROPIC_API_KEY": ("pass", "show", "key one")}
    assert (second.config_dir, second.env, second.secrets, second.order) == (None, {}, {}, 0)
    assert accounts_for(settings, "gemini") == ()


def test_all_invalid_accounts_are_reported_at_once() -> None:
    found = check(
        tomllib.loads(AN_ACCOUNT + "[[accounts]]\n[[accounts]]\nx = 1\norder = 'a'\nname = 'b'"), HOME
    ).problems
    assert [problem.message.split(",")[0] for problem in found] == [
        "accounts[2] needs a name",
        "accounts[2] needs a coder",
        "unknown key accounts[3].x",
        "accounts[3] needs a coder",
        "accounts[3].order must be a whole number from -1000 to 1000",
    ]
    assert "[[accounts]] table number 3" in found[-1].hint


@pytest.mark.parametrize("text", ["accounts=[]", "accounts.0.name=x", "accounts.work.coder=codex"])
def test_account_cannot_be_set_by_a_key(text: str) -> None:
    with pytest.raises(BadInput, match="accounts cannot be set by key: it is a list of tables") as refused:
        assignment(text, HOME)
    assert "fleet config edit" in refused.value.hint


def test_change_of_another_key_keeps_the_accounts() -> None:
    text = with_values(ACCOUNTS, {("max_concurrent",): 5, ("prices", "m*", "input"): 1.5}, HOME)
    assert tomllib.loads(text) == tomllib.loads(ACCOUNTS) | {"max_concurrent": 5, "prices": {"m*": {"input": 1.5}}}
    assert "[prices]" not in text, "no header of a table that holds nothing itself"


PRICES = """
[prices."claude-*"]
input = 1
output = 2
[prices.claude-opus-4]
input = 10
output = 20.5
cache_read = 0
cache_write = 40
[prices."*opus*"]
input = 7
output = 7
[prices."half*"]
input = 3
"""


@pytest.mark.parametrize(
    ("model", "tokens", "cost"),
    [
        ("claude-opus-4", {"input": 1_000_000}, 10.0),
        ("claude-opus-4", {"output": 2_000_000}, 41.0),
        ("claude-opus-4", {"cache_read": 1_000_000}, 0.0),
        ("claude-opus-4", {"cache_write": 500_000}, 20.0),
        ("claude-opus-5", {"input": 1_000_000, "output": 1_000_000}, 3.0),
        ("claude-x", {"cache_read": 1_000_000, "cache_write": 1_000_000}, 2.0),
        ("my-opus", {"input": 1_000_000}, 7.0),
        ("half-said", {"input": 1_000_000}, None),
        ("other", {"input": 5}, None),
        ("", {"input": 5}, None),
        ("claude-x", {}, 0.0),
    ],
)
def test_price_is_found_by_name_and_then_by_the_first_glob(
    held: Held, model: str, tokens: dict[str, int], cost: float | None
) -> None:
    found = price_of(held(PRICES), [model], date(2026, 11, 18))
    none = dict.fromkeys(("input", "output", "cache_read", "cache_write"), 0)
    assert (dollars(found.rates, **none | tokens) if found else None) == (cost if cost is None else pytest.approx(cost))
    assert found is None or found.source == OWN


def test_listing_shows_configured_values_plainly(held: Held) -> None:
    text = "[coders.mine]\nargv = ['a', ['b']]\n[coders.mine.output]\nusage_total = false\ntext = {path = 't'}\n"
    settings = held(ACCOUNTS + PRICES + text)
    shown = {row.key: row.value for row in rows(settings, in_project=False)}
    assert shown["accounts"][2] == {"name": "second", "coder": "claude"}
    assert toml_value(shown["accounts"][:1]) == '[{name = "late", coder = "claude", order = 5}]'
    assert shown["coders.mine.argv"] == ("a", ("b",))
    assert shown["coders.mine.output.usage_total"] is False
    assert shown["coders.mine.output.text"] == {"path": "t"}
    assert shown["prices.claude-opus-4.cache_read"] == 0
    assert "prices.claude-opus-4.cache_write" in shown and 'prices."claude-*".cache_write' not in shown
    assert not [key for key in shown if key.startswith("coders.") and key.split(".")[2] not in ("argv", "output")]


def test_secrets_of_an_account_are_not_logged(held: Held, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("DEBUG"):
        held(ACCOUNTS.replace('A = "1"', 'A = "hunter2"') + CODERS.replace('"3"', '"hunter2"'))
    assert "accounts = …" in caplog.text and "coders.claude.env = …" in caplog.text
    assert "hunter2" not in caplog.text


WEAR = """
import msgspec
from fleet.settings.keys import KEYS, ELEMENTS
values = [1, "a", ["a", ["b"]], {"a": [1, "x"]}, {"path": "a", "when": {"b": 1}}, [{"name": "a", "coder": "b"}]]
for key in [*KEYS.values(), *(key for keys in ELEMENTS.values() for key in keys.values())] * 40:
    for value in values:
        try:
            msgspec.convert(value, key.type)
        except msgspec.ValidationError:
            pass
"""


def test_any_declared_type_is_listed_without_an_error() -> None:
    """Some unions make msgspec free memory that it does not own. The program then crashes at its end."""
    assert subprocess.run([sys.executable, "-c", WEAR], timeout=60).returncode == 0
