"""`fleet bd` beside the real bd on 1,000 tasks: `python tests/bench/bench_bd.py [rounds]`.

Each round calls each command with both programs in turn, in a new process as an agent does.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
if "FLEET_TEST_BD" not in os.environ:
    found = subprocess.run([sys.executable, "-m", "tools.get_bd"], cwd=TESTS.parent, stdout=subprocess.PIPE, text=True)
    os.environ["FLEET_TEST_BD"] = found.stdout.strip() or sys.exit(found.returncode)

from program import Program  # noqa: E402

TASKS, ROUNDS, FASTER = 1_000, 15, 3.0
VERSION = "v1.3.0"


class Tool:
    """One of the two programs, in its own home with the same tasks."""

    def __init__(self, base: Path, argv: list[str], env: dict[str, str]) -> None:
        self.argv, self.env, self.base = argv, env, base

    def call(self, *words: str, text: str = "") -> tuple[float, str]:
        """Return the seconds of one call and its output."""
        began = time.perf_counter()
        done = subprocess.run(
            [*self.argv, *words], env=self.env, cwd=self.base, input=text, capture_output=True, text=True
        )
        taken = time.perf_counter() - began
        if done.returncode:
            raise SystemExit(f"{self.argv[0]} {' '.join(words)} failed: {done.stdout}{done.stderr}")
        return taken, done.stdout


def main() -> int:
    """Measure, print the results and compare them with the bars. Return the exit code."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory() as folder:
        tools = {"bd": real(Path(folder) / "real"), "fleet bd": ours(Path(folder) / "ours")}
        times: dict[str, dict[str, list[float]]] = {}
        for number in range(rounds):
            for name, tool in tools.items():
                for what, taken in a_round(tool, number).items():
                    times.setdefault(what, {}).setdefault(name, []).append(taken)
    print(f"{'':<18} {'bd':>9} {'fleet bd':>9} {'ratio':>7}   bar   ({TASKS:,} tasks, medians of {rounds})")
    ok = True
    for what, by_tool in times.items():
        theirs, own = median(by_tool["bd"]), median(by_tool["fleet bd"])
        ok &= theirs / own >= FASTER
        word = "pass" if theirs / own >= FASTER else "SHORT"
        print(
            f"{what:<18} {theirs * 1000:>6.0f} ms {own * 1000:>6.0f} ms {theirs / own:>6.1f}x   >= {FASTER:g}x  {word}"
        )
    return 0 if ok else 1


def a_round(tool: Tool, number: int) -> dict[str, float]:
    """Return the seconds of each command, called once as an agent does."""
    key = f"fleet-{number:04}"
    return {
        "create": tool.call("create", f"new {number}", "--json")[0],
        "ready": tool.call("ready", "--json")[0],
        "update --claim": tool.call("update", key, "--claim", "--json", "--actor", "ada")[0],
        "close": tool.call("close", key, "--reason", "done", "--json", "--actor", "ada")[0],
        "list": tool.call("list", "--json")[0],
    }


def lines() -> str:
    """Return the tasks as lines for `import`."""
    made = "2026-01-01T00:00:00Z"
    rows = (
        {"id": f"fleet-{number:04}", "title": f"task {number}", "description": "what is to be done " * 10,
         "status": "open", "priority": number % 5, "issue_type": "task", "created_at": made, "updated_at": made}
        for number in range(TASKS)
    )  # fmt: skip
    return "".join(json.dumps(row) + "\n" for row in rows)


def real(base: Path) -> Tool:
    """Return the real bd with its embedded database."""
    place = Path(os.environ["FLEET_TEST_BD"], VERSION)
    base.mkdir()
    shutil.copytree(place / "home" / ".beads", base / ".beads")
    env = {"PATH": os.environ["PATH"], "HOME": str(base), "BEADS_DIR": str(base / ".beads"), "BEADS_ACTOR": "ada"}
    tool = Tool(base, [str(place / "bd")], env)
    tool.call("import", "-", text=lines())
    return tool


def ours(base: Path) -> Tool:
    """Return `fleet bd` with the home's own file."""
    base.mkdir()
    program = Program(base)
    program.ok("init", "--home", "--permissions", "user")
    tool = Tool(base, [str(Path(sys.executable).with_name("fleet")), "bd"], program.env | {"BEADS_ACTOR": "ada"})
    tool.call("import", "-", text=lines())
    return tool


if __name__ == "__main__":
    sys.exit(main())
