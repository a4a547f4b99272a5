"""More real CLIs without fleet against the scripted model. They use Chat Completions, as opencode does."""

from pathlib import Path

import pytest

from model_server import ModelServer
from model_server.network import ClosedNetwork
from real import cli_runs

pytestmark = pytest.mark.soak("clis")


@pytest.mark.parametrize("cli", ["copilot", "pi", "qwen"])
def test_other_real_cli_follows_the_script(cli: str, server: ModelServer, network: ClosedNetwork, work: Path) -> None:
    cli_runs.follow_a_script(network, cli, server, work)
