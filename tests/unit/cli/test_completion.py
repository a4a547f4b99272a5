"""The coders that shell completion offers."""

from pathlib import Path

import click
import pytest

from fleet.cli.completion import complete_coders
from fleet.coders import CODERS


def offered(incomplete: str) -> list[str]:
    command = click.Command("create", params=[click.Option(["-a", "--agent"])])
    return [item.value for item in complete_coders(click.Context(command), command.params[0], incomplete)]


def test_completion_offers_built_in_and_configured_coders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLEET_HOME", str(tmp_path))
    assert offered("") == list(CODERS) and offered("co") == ["codex", "copilot"]
    settings = tmp_path / "runtime.toml"
    settings.write_text('[coders.comrade]\nargv = ["comrade"]\n[coders."x;reboot"]\nargv = ["x"]\n')
    assert offered("co") == ["codex", "copilot", "comrade"]
    assert offered("x") == [], "a shell would obey it"


@pytest.mark.parametrize("text", ["= broken", "coders = 5", "[[coders]]\na = 1\n", "\udcff"])
def test_completion_offers_built_in_coders_when_settings_are_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv("FLEET_HOME", str(tmp_path))
    (tmp_path / "runtime.toml").write_bytes(text.encode(errors="surrogateescape"))
    assert offered("") == list(CODERS)
