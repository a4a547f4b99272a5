"""Real clients of `fleet mcp`: CLIs, registered as documented, whose model calls the tools."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from model_server import ModelServer, Scenario, Turn
from model_server.network import ClosedNetwork
from real.cli_runs import PATIENCE, PROMPT, ended_well, kill, program, read_events
from real.cli_setups import ARGVS, cli_env
from repositories import branches, make_repository, run_git

pytestmark = pytest.mark.soak("clis")
DOCUMENT = Path(__file__).parents[2] / "docs" / "howto" / "use-from-an-agent.md"
DONE = Turn(text="All done.")
WORKFLOW, WORKER = r'"workflow_id": ?"(wf_\w+)"', r'"worker_id": ?"(w\w+)"'
QUICK = "\ndemo: steps=1 pause=0"
#: A CLI may ask its model before the server is up. The model repeats this turn until the request shows the server.
LOOK = Turn(shell="sleep 0.1")
#: The call of the same tool for each CLI's model. Codex first searches the tools of a server by their description.
SEARCH = {"query": "fleet healthcheck", "limit": 3}
CALLS = {
    "claude": [Turn(tool="mcp__fleet__healthcheck", when="mcp__fleet__healthcheck")],
    "codex": [
        Turn(tool="tool_search", arguments=SEARCH, when="fleet runs coding agents"),
        Turn(tool="mcp__fleet__healthcheck"),
    ],
    "gemini": [Turn(tool="mcp_fleet_healthcheck", when="mcp_fleet_healthcheck")],
}


class Client:
    """A user's machine with one CLI for a scenario, `fleet` on PATH, and no home yet."""

    def __init__(self, network: ClosedNetwork, cli: str, scenario: Scenario, base: Path) -> None:
        self.cli, self.scenario = cli, scenario
        self._enter, self._program = network.enter, str(program(cli))
        self.work, self.user, self.repo = base / "work", base / "user", make_repository(base / "repo")
        for folder in (self.work, self.user / "tmp"):
            folder.mkdir(parents=True)
        setup = cli_env(cli, scenario, self.user)
        for path, text in setup.files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        self._env = setup.env | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "USER": "ada"}

    def register(self, *, with_options: bool = False) -> None:
        """Run the documented registration word for word."""
        lines = [each for each in DOCUMENT.read_text().splitlines() if each.startswith(f"{self.cli} mcp add")]
        (line,) = [each for each in lines if ("FLEET_" in each) == with_options]
        _, *words = shlex.split(line)
        self._run(self._program, *words)

    def drive(self) -> None:
        """Run the CLI in a new session, led by its model."""
        events = read_events(self._run(self._program, *ARGVS[self.cli], given=PROMPT))
        assert ended_well(self.cli, events[-1]), events

    def told(self) -> list[dict[str, Any]]:
        """Return the tool results that the model got. They are JSON, after which claude may append a reminder."""
        said = [text for each in self.scenario.turns() for text in each.said]
        return [json.JSONDecoder().raw_decode(text)[0] for text in said if text.startswith("{")]

    def stop(self) -> None:
        """End the supervisor that the server started."""
        if (self.user / ".fleet").exists():
            self._run("fleet", "run", "stop", "--stop-agents")

    def _run(self, *argv: str, given: str = "") -> bytes:
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            self._enter(*argv),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=self._env,
            cwd=self.work,
            start_new_session=True,
        )
        try:
            out, err = process.communicate(given.encode(), timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            kill(process)
            out, err = process.communicate()
        assert process.returncode == 0, (argv, out, err, [str(each)[:500] for each in self.scenario.requests()])
        return out


@pytest.fixture
def client(network: ClosedNetwork, server: ModelServer, tmp_path: Path) -> Iterator[Callable[..., Client]]:
    """Yield a function that creates such a machine from the turns of its model.

    The test ends everything started there.
    """
    made: list[Client] = []

    def make(cli: str, *turns: Turn) -> Client:
        made.append(Client(network, cli, server.scenario(turns, name=f"{cli}-drives"), tmp_path))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def calls(tool: str, heard: Any = None, **given: Any) -> Turn:
    """Return a call of one of fleet's tools by claude, once claude has the tools."""
    name = f"mcp__fleet__{tool}"
    return Turn(tool=name, arguments=given, heard=heard or {}, when=name)


@pytest.mark.parametrize("cli", CALLS)
def test_documented_registration_lets_a_cli_call_a_tool(cli: str, client: Callable[..., Client]) -> None:
    user = client(cli, LOOK, *CALLS[cli], DONE)
    if cli != "claude":  # claude accepts no second server of a name; the tests below use its shorter line
        user.register()
    user.register(with_options=True)
    user.drive()
    told = re.sub(r"\s", "", "".join(user.scenario.turns()[-1].said))
    assert f'"base_dir":"{user.user}/.fleet"' in told, "the home is the user's own"
    assert '"max_spawn_depth":1,' in told and '"allowed_repos":["/path/to/a","/path/to/b"]' in told


def test_claude_creates_a_workflow_waits_for_it_and_collects_its_result(
    client: Callable[..., Client], tmp_path: Path
) -> None:
    stages = [
        {"name": "write", "executor": "demo", "prompt_template": f"{{task_prompt}}{QUICK}"},
        {
            "name": "review",
            "executor": "demo",
            "prompt_template": f"Review this:\n{{stages.write.summary}}{QUICK}",
            "worktree_strategy": "inherit",
            "depends_on": ["write"],
        },
    ]
    asked = {"name": "pair", "repo_path": str(tmp_path / "repo"), "task_prompt": "Write it down", "stages": stages}
    user = client(
        "claude",
        LOOK,
        calls("create_workflow", **asked),
        calls("wait", {"ids": WORKFLOW}, ids=[], until="all", timeout_seconds=90),
        calls("collect_workflow_result", {"workflow_id": WORKFLOW}, include_all_stages=True),
        DONE,
    )
    user.register()
    user.drive()
    made, waited, collected = user.told()
    assert made["status"] in ("pending", "running")  # a supervisor may have begun
    assert [each["name"] for each in made["stage_summary"]] == ["write", "review"]
    assert (waited["timed_out"], [each["status"] for each in waited["workflows"]]) == (False, ["succeeded"])
    assert (collected["workflow_id"], collected["status"]) == (made["workflow_id"], "succeeded")
    write, review = collected["stages"]
    assert [each["result"]["status"] for each in (write, review)] == ["completed", "completed"]
    tips = [run_git(user.repo, "rev-parse", each["branch_name"]) for each in (write, review)]
    assert tips == [each["result"]["commit"] for each in (write, review)]
    assert run_git(user.repo, "merge-base", *tips) == tips[0], "the second stage goes on where the first one ended"


def test_work_started_by_claude_continues_without_it_and_another_session_finds_it(
    client: Callable[..., Client], tmp_path: Path
) -> None:
    asked = {"repo_path": str(tmp_path / "repo"), "task_name": "notes", "executor": "demo"}
    user = client(
        "claude",
        LOOK,
        calls("create_worker", **asked, prompt="Write it down\ndemo: steps=3 pause=0.3"),
        DONE,
        LOOK,
        calls("wait", until="all", timeout_seconds=90),
        calls("list_workers"),
        calls("collect_worker_result", {"worker_id": WORKER}),
        DONE,
    )
    user.register()
    user.drive()
    assert user.told()[-1]["status"] in ("pending", "running")
    user.drive()
    found = user.told()[-1]
    assert (found["status"], found["result"]["status"]) == ("succeeded", "completed")
    assert found["branch_name"] in branches(user.repo)
