"""Real CLIs as agents with fleet's own tools.

fleet attributes each call to the agent's run, whatever the CLI filters.
"""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from model_server import ModelServer, Turn
from real.cli_runs import program
from real.test_claude_drives_fleet import DOCUMENT, LOOK
from real.through_fleet import Real, RealFleet
from repositories import make_repository

pytestmark = pytest.mark.soak("clis")
DONE = Turn(text="All done.")
#: Codex lets its model search the tools of a server by their description. This search finds all of them.
SEARCH = Turn(tool="tool_search", arguments={"query": "fleet worker", "limit": 40}, when="fleet runs coding agents")
PREFIX = {"claude": "mcp__fleet__", "codex": "mcp__fleet__", "gemini": "mcp_fleet_"}


def calls(cli: str, tool: str, **given: str) -> Turn:
    """Return a call of one of fleet's tools, once the CLI offers it."""
    name = PREFIX[cli] + tool
    return Turn(tool=name, arguments=given, when="" if cli == "codex" else name)


def register(home: RealFleet) -> None:
    """Run the documented registration, but with an absolute path of the program.

    The absolute path makes the test independent of PATH. All other words are as documented.
    """
    lines = [each for each in DOCUMENT.read_text().splitlines() if each.startswith(f"{home.cli} mcp add")]
    (line,) = [each for each in lines if "FLEET_" not in each]
    own = shlex.quote(str(Path(sys.executable).with_name("fleet")))
    _, *words = shlex.split(line.removesuffix("fleet mcp") + f"{own} mcp")
    subprocess.run(
        [str(program(home.cli)), *words], check=True, env=home.fleet.env, cwd=home.fleet.cwd, capture_output=True
    )


@pytest.mark.parametrize("cli", PREFIX)
def test_worker_that_calls_fleet_tools_is_recognized_as_its_run(
    cli: str, real: Real, server: ModelServer, tmp_path: Path
) -> None:
    repo, other = str(make_repository(tmp_path / "repo")), "w-of-a-person"
    turns = [
        LOOK,
        *([SEARCH] if cli == "codex" else []),
        calls(cli, "healthcheck"),
        calls(cli, "create_worker", repo_path=repo, task_name="part", prompt="x", executor="demo"),
        calls(cli, "cancel_worker", worker_id=other),
        DONE,
    ]
    home = real(cli, server.scenario(turns, name=f"{cli}-worker"))
    register(home)
    home.fleet.ok("bd", "create", "theirs", "--id", other, "--force")
    home.fleet.ok("bd", "update", other, "--status", "blocked")
    key = home.ask()
    home.start()
    home.done(key)
    told = re.sub(r"\\|\s", "", "".join(text for each in home.scenario.turns() for text in each.said))
    assert f'"base_dir":"{home.fleet.home}"' in told
    assert f"anagentmaynotcancel{other}:{key}didnotcreateit" in told, told[-3000:]
    (made,) = home.rows("select id, made_by, status from tasks where title = 'part'")
    assert made["made_by"] == key
    assert home.task(other)["status"] == "blocked" and not home.task(other)["cancel_requested_at"]
    assert json.loads(home.fleet.ok("run", "status", "--json"))["pid"] == home.process.pid  # type: ignore[union-attr]
