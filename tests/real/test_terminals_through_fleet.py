"""The real claude and codex at terminals of fleet's: from `fleet create` to the end of their work, and what is between."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from model_server import ModelServer, Turn
from model_server.network import ClosedNetwork
from real.terminals_through_fleet import RealTerminals, timed
from real.through_fleet import HELD

CLIS = ("claude", "codex")
DONE = Turn(text="Well done.")
#: Whatever a shell, a parser of options or a terminal might make something of.
NASTY = "-dash 'one' \"two\" `id` $(touch made) ${HOME} \\n %s ünï 😀 !! #x\n--help\n\n\tlast line"

Open = Callable[..., RealTerminals]


@pytest.fixture
def opened(network: ClosedNetwork, server: ModelServer, tmp_path: Path) -> Iterator[Open]:
    """Makes a home whose coder is a real CLI at a terminal, whose model does these turns; nothing outlives the test."""
    made: list[RealTerminals] = []

    def open(cli: str, *turns: Turn, own: bool = True) -> RealTerminals:
        # Each conversation has the turns to itself: codex asks for a title beside the work.
        scenario = server.scenario(turns, name=cli, per_conversation=True)
        base = tmp_path / f"{cli}-{len(made)}"
        base.mkdir()
        made.append(RealTerminals(base, network, cli, scenario, own=own))
        return made[-1]

    yield open
    for each in made:
        each.stop()
        assert each.agents() == []


@pytest.mark.parametrize("cli", CLIS)
def test_an_agent_made_with_a_prompt_works_on_it_and_what_it_did_is_told(cli: str, opened: Open) -> None:
    home = opened(cli, Turn(text="I begin.", shell="pwd > made && echo fine"), DONE)
    seconds = timed(lambda: (home.create("feature/x", "-p", NASTY), home.wait_told("fine")))
    print(f"{cli}: create to the second answer {seconds:.1f} s")
    row = home.wait_listed("feature/x", "idle")
    assert Path(row["worktree"], "made").read_text().strip() == row["worktree"]
    assert "Well done." in home.fleet.ok("logs", "feature/x")
    print(row, home.runs(row["task"]))
    assert NASTY in home.said()
