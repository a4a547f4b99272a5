"""Worktrees and terminals beside ai-fleet from PyPI: `python tests/bench/bench_worktrees.py [rounds]`.

Each round does the same with both tools in turn, in equal repositories of 2,000 files and with the same stub agent.
Each command follows a pause, as when people type. The later work of one tool then does not slow down the other. An
agent runs when its program records its start. The last part measures the marks of ai-fleet's document. It uses the real
claude in its terminal and a scripted model that answers at once.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import NamedTuple

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))
if "FLEET_TEST_CLIS" not in os.environ:
    found = subprocess.run(
        [sys.executable, "-m", "tools.get_clis"], cwd=TESTS.parent, stdout=subprocess.PIPE, text=True
    )
    os.environ["FLEET_TEST_CLIS"] = found.stdout.strip() or sys.exit(found.returncode)

from bench.ai_fleet import Fleet, Pair, Tool, side_by_side, wait_until  # noqa: E402
from model_server import ModelServer, Turn  # noqa: E402
from model_server.network import ClosedNetwork  # noqa: E402
from real.through_fleet import RealFleet  # noqa: E402
from repositories import big_repository, run_git  # noqa: E402

# Creating files is most of the work, and a disk's time for it varies tenfold. Memory is equal for both tools.
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and "TMPDIR" not in os.environ:
    tempfile.tempdir = str(MEMORY)

ROUNDS = 5
#: The number of times that each tool starts the first agent of a new home.
FIRSTS = 5
#: The required speed of each step relative to ai-fleet. The other steps have no bar.
BARS = {
    "create → agent runs": 1.5,
    "create → agent runs, the first of a home": 1.0,
    "list with 5 agents": 4.0,
    "kill 5 → worktrees gone": 1.5,
    "fanout 20 → all agents run": 2.5,
}
CROWD, LOOKS = 50, 9
#: Seconds before each command.
REST = 3.0
REPLY = "Here-is-the-reply"
#: The marks of ai-fleet's document, in seconds.
FIRST_REPLY, FIVE_REPLIES = 10.0, 20.0

Times = dict[str, list[float]]


class Row(NamedTuple):
    """One line of the table."""

    what: str
    theirs: str
    ours: str
    ratio: str
    bar: str
    ok: bool


def main() -> int:
    """Measure everything. Return 0 if every bar is met."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    print(f"{'':<52} {'ai-fleet':>9} {'fleet':>9} {'ratio':>7} {'bar':>10}")
    oks = [tell(row) for row in beside(rounds)] + [tell(row) for row in replies()]
    return 0 if all(oks) else 1


def tell(row: Row) -> bool:
    """Print one line. Return True if its bar is met."""
    verdict = "pass" if row.ok else "SHORT"
    print(f"{row.what:<52} {row.theirs:>9} {row.ours:>9} {row.ratio:>7} {row.bar:>10}  {verdict}", flush=True)
    return row.ok


def beside(rounds: int) -> list[Row]:
    """Measure both tools round by round. Return their medians."""
    theirs, ours, bare = Times(), Times(), []
    for _ in range(FIRSTS):
        with side_by_side() as pair:
            for tool, times in zip(pair, (theirs, ours), strict=True):
                times.setdefault("create → agent runs, the first of a home", []).append(once(tool, "first"))
    with side_by_side() as pair:
        once(pair.ai_fleet, "first"), once(pair.fleet, "first")
        for number in range(rounds):
            bare.append(bare_worktree(pair, number))
            for tool, times in zip(pair, (theirs, ours), strict=True):
                for what, taken in a_round(tool, number).items():
                    times.setdefault(what, []).append(taken)
        crowd = list_with_many(pair.fleet)
    rows = [compared(what, theirs[what], ours[what]) for what in theirs]
    return [*rows, against_git(ours, bare), crowd]


def once(tool: Tool, branch: str) -> float:
    """Return the seconds of creating a first agent, which includes the start of everything it needs."""
    time.sleep(REST)
    taken = tool.create(branch)
    tool.kill(branch)
    return taken


def a_round(tool: Tool, number: int) -> dict[str, float]:
    """Return the seconds of each step, done once and undone."""
    one, five, many = f"one-{number}", f"five-{number}", f"many-{number}"
    steps: dict[str, Callable[[], float]] = {
        "create → agent runs": lambda: tool.create(one),
        "kill": lambda: tool.kill(one),
        "fanout 5 → all agents run": lambda: tool.fanout(5, five),
        "list with 5 agents": lambda: tool.show(5),
        "kill 5 → worktrees gone": lambda: tool.kill(f"{five}-*"),
        "fanout 20 → all agents run": lambda: tool.fanout(20, many),
        "kill 20 → worktrees gone": lambda: tool.kill(f"{many}-*"),
    }
    times = {}
    for what, step in steps.items():
        time.sleep(REST)
        times[what] = step()
    del times["kill"]
    return times


def compared(what: str, theirs: list[float], ours: list[float]) -> Row:
    """Return both medians and their ratio."""
    ratio, bar = median(theirs) / median(ours), BARS.get(what)
    told = f"{what}, median of {len(ours)}"
    words = "none" if bar is None else f">= {bar:g}x"
    return Row(told, seconds(median(theirs)), seconds(median(ours)), f"{ratio:.1f}x", words, ratio >= (bar or 0))


def bare_worktree(pair: Pair, number: int) -> float:
    """Return the seconds of `git worktree add` alone, in fleet's repository. The worktree is removed again."""
    repo = pair.fleet.repo
    place, branch = repo.parent / f"bare-{number}", f"bare-{number}"
    began = time.monotonic()
    run_git(repo, "worktree", "add", "--quiet", "-b", branch, str(place))
    taken = time.monotonic() - began
    run_git(repo, "worktree", "remove", str(place))
    return taken


def against_git(ours: Times, bare: list[float]) -> Row:
    """Return the time of `create` beside git alone."""
    alone, taken = median(bare), median(ours["create → agent runs"])
    what = f"create against git worktree add ({seconds(alone)})"
    return Row(what, "", seconds(taken), f"{taken / alone:.1f}x", "none", ok=True)


def list_with_many(fleet: Fleet) -> Row:
    """Return the time of `list` with fifty agents, beside its time with one."""
    fleet.create("five-alone")
    alone = median(fleet.show(1) for _ in range(LOOKS))
    fleet.fanout(CROWD - 1, "five-more")
    many = median(fleet.show(CROWD) for _ in range(LOOKS))
    fleet.kill("five-*")
    what = f"list with {CROWD} agents against 1 ({seconds(alone)})"
    return Row(what, "", seconds(many), f"{many / alone:.2f}x", "<= 1.5x", many <= 1.5 * alone)


def replies() -> list[Row]:
    """Measure the real claude: the time from the command to the reply on its screen."""
    with tempfile.TemporaryDirectory() as folder, ClosedNetwork() as network, ModelServer(network.listener) as server:
        scenario = server.scenario([Turn(text=REPLY)], name="bench", per_conversation=True)
        home = RealFleet(Path(folder), network, "claude", scenario)
        with tempfile.TemporaryDirectory(prefix="tmux") as sockets:
            home.fleet.cwd = big_repository(Path(folder) / "repo")
            home.fleet.env["TMUX_TMPDIR"] = sockets
            own = ("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY")
            home.accounts(
                main={"config_dir": str(Path(folder) / "account")} | {name: home.fleet.env[name] for name in own}
            )
            try:
                one = until_replied(home, "create", "one", "--prompt", "say hello")
                five = until_replied(home, "fanout", "5", "five", "--prompt", "say hello")
            finally:
                home.fleet("run", "stop", "--stop-agents")
                subprocess.run(["tmux", "-L", "fleet", "kill-server"], env=home.fleet.env, stderr=subprocess.DEVNULL)
    return [
        Row("real claude: create → first reply", "", seconds(one), "", f"<= {FIRST_REPLY:g} s", one <= FIRST_REPLY),
        Row(
            "real claude: fanout 5 → all replied", "", seconds(five), "", f"<= {FIVE_REPLIES:g} s", five <= FIVE_REPLIES
        ),
    ]


def until_replied(home: RealFleet, *words: str) -> float:
    """Return the seconds from the command to the reply on every screen that it created."""
    began = time.monotonic()
    told = json.loads(home.fleet.ok(*words, "--json"))
    keys = {agent["task"] for agent in (told if isinstance(told, list) else [told])}
    replied: set[str] = set()

    def all_replied() -> bool:
        marks = ",".join("?" * len(keys))
        names = {row["session_name"] for row in home.rows(f"select * from runs where task in ({marks})", *keys)}
        replied.update(name for name in names - replied if REPLY in screen(home, name))
        return len(replied) == len(keys)

    wait_until(all_replied, f"{words} to be replied to")
    return time.monotonic() - began


def screen(home: RealFleet, session: str) -> str:
    """Return the text of a session's terminal."""
    words = ["tmux", "-L", "fleet", "capture-pane", "-p", "-t", f"={session}:"]
    return subprocess.run(words, env=home.fleet.env, capture_output=True, text=True).stdout


def seconds(taken: float) -> str:
    """Return a time in words."""
    return f"{taken:.2f} s" if taken >= 1 else f"{taken * 1000:.0f} ms"


if __name__ == "__main__":
    sys.exit(main())
