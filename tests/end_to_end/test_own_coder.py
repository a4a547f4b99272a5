"""docs/howto/add-a-coder.md followed literally: a custom coder, described or written, works on a task."""

import json
import re
from pathlib import Path

import pytest

from supervised import Supervised, home

__all__ = ["home"]

PAGE = (Path(__file__).parent.parent.parent / "docs" / "howto" / "add-a-coder.md").read_text("utf-8")


def block(language: str) -> str:
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


@pytest.fixture
def own(home: Supervised) -> Supervised:
    """Return the home of a user who followed the page before starting the supervisor."""
    fleet = home.fleet
    (fleet.user / "bin").mkdir()
    program = fleet.user / "bin" / "mycli"
    program.write_text(block("sh"), "utf-8")
    program.chmod(0o700)
    (fleet.user / "mycoder.py").write_text(block("python"), "utf-8")
    with (fleet.home / "runtime.toml").open("a", encoding="utf-8") as file:
        file.write("\n" + block("toml"))
    fleet.env["PATH"] = f"{program.parent}:{fleet.env['PATH']}"
    fleet.env["PYTHONPATH"] += f":{fleet.user}"
    return home


@pytest.mark.parametrize("name", ["mycli", "mycoder:MyCoder"])
def test_custom_coder_finishes_a_task(own: Supervised, name: str) -> None:
    own.fleet.ok("config", "validate")
    own.fleet.ok("config", "set", f"coder={name}")
    own.start()
    task = json.loads(own.fleet.ok("bd", "create", "Try my coder", "--json"))["id"]
    own.fleet.ok("wait", task, "--timeout", "60")
    [run] = own.runs(task)
    assert (run["coder"], run["ending"], own.task(task)["close_reason"]) == (name, "finished", "wrote mycli.txt")
    assert (run["input_tokens"], run["output_tokens"], run["cost_usd"]) == (1200, 80, 0.004)
    assert (run["tool_calls"], run["context_window"]) == (1, 128_000)
    assert "Try my coder" in (own.fleet.cwd / "mycli.txt").read_text()
