"""The real CLIs without fleet against the scripted model, the base of all tests through fleet."""

import signal
import subprocess
from pathlib import Path

import pytest

from model_server import Fault, ModelServer, Turn
from model_server.network import ClosedNetwork
from real import cli_runs
from real.cli_runs import PATIENCE, PROMPT, ended_well

pytestmark = pytest.mark.soak("clis")
CLIS = ("claude", "codex", "gemini", "opencode")


@pytest.mark.parametrize("cli", CLIS)
def test_real_cli_follows_the_script(cli: str, server: ModelServer, network: ClosedNetwork, work: Path) -> None:
    cli_runs.follow_a_script(network, cli, server, work)


# The reaction of each CLI to a fault that it does not retry with the settings of these tests.
TOLD = [
    ("claude", Fault.CONTEXT_FULL, 1, "Prompt is too long"),
    ("claude", Fault.UNAUTHORIZED, 1, "Invalid API key"),
    ("codex", Fault.LIMIT_REACHED, 1, "hit your usage limit"),
    ("codex", Fault.CONTEXT_FULL, 1, "context_length_exceeded"),
    ("codex", Fault.CUT, 1, "stream disconnected"),
    ("codex", Fault.SERVER_ERROR, 1, "high demand"),
    ("gemini", Fault.RATE_LIMITED, 173, "Suggested retry after 20s"),
    ("gemini", Fault.LIMIT_REACHED, 173, "exhausted your daily quota"),
    ("opencode", Fault.UNAUTHORIZED, 1, "Incorrect API key"),
]


@pytest.mark.parametrize(("cli", "fault", "code", "words"), TOLD, ids=lambda value: str(value).replace(" ", "-"))
def test_real_cli_understands_a_scripted_fault(
    cli: str, fault: Fault, code: int, words: str, server: ModelServer, network: ClosedNetwork, work: Path
) -> None:
    scenario = server.scenario([Turn(text="half of it", fault=fault)], name=f"{cli}-{fault}")
    ran = cli_runs.run(network, cli, scenario, work, CLAUDE_CODE_MAX_RETRIES="0")
    assert ran.code == code, ran
    assert not ended_well(cli, ran.events[-1])
    assert words in str(ran.events[-1])
    assert len(scenario.turns()) == 1


def test_claude_reads_the_usage_of_its_plan(server: ModelServer, network: ClosedNetwork, work: Path) -> None:
    scenario = server.scenario(
        [Turn(shell="true", limit_used=0.93), Turn(fault=Fault.LIMIT_REACHED, retry_after=3600)], name="plan"
    )
    # Claude reads the headers of a plan only with a subscription's token.
    ran = cli_runs.run(network, "claude", scenario, work, ANTHROPIC_API_KEY="", CLAUDE_CODE_OAUTH_TOKEN=scenario.key)
    told = [event["rate_limit_info"] for event in ran.events if event["type"] == "rate_limit_event"]
    assert [(info["status"], info["rateLimitType"]) for info in told] == [
        ("allowed_warning", "five_hour"),
        ("rejected", "five_hour"),
    ]
    assert told[0]["utilization"] == 0.93
    assert (ran.code, ran.events[-1]["api_error_status"]) == (1, 429)


def test_claude_continues_after_a_short_fault(server: ModelServer, network: ClosedNetwork, work: Path) -> None:
    scenario = server.scenario(
        [Turn(fault=Fault.OVERLOADED), Turn(text="half of it", fault=Fault.CUT), Turn(text="All done.")], name="passing"
    )
    ran = cli_runs.run(network, "claude", scenario, work)
    assert (ran.code, ran.events[-1]["result"]) == (0, "All done.")
    assert [request.status for request in scenario.turns()] == [529, 200, 200]


def test_cli_waits_while_the_model_is_silent(server: ModelServer, network: ClosedNetwork, work: Path) -> None:
    scenario = server.scenario([Turn(fault=Fault.HANG)], name="hang")
    process = cli_runs.start(network, "codex", scenario, work)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate(PROMPT.encode(), timeout=5)
        asked = scenario.wait_for(1, seconds=PATIENCE)
        assert [request.status for request in asked] == [0]
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=PATIENCE)
    finally:
        cli_runs.kill(process)
    assert process.returncode == -signal.SIGTERM
    assert [event["type"] for event in cli_runs.read_events(out)] == ["thread.started", "turn.started"]
