"""The speed of parsing an agent's output into events: `python tests/bench/bench_coders.py [rounds]`."""

import json
import sys
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from fleet.coders import load
from fleet.coders.base import Coder

ROUNDS = 5
LINES = 60_000
BAR = 60_000
RECORDINGS = Path(__file__).parent.parent / "recordings" / "coders"
#: Successful runs, the usual input of a supervisor.
WORKED = ("ok", "sess1", "streamin-mid", "tool-int", "warn-oauth", "jsonschema", "noperm")
#: Lengths of tool results, in turn: mostly short, sometimes a whole file.
RESULTS = (0, 0, 200, 0, 1_000, 4_000, 0, 200, 16_000, 1_000)
SOURCE = 'def answer(self, question: str) -> str:\n\t"""What there is to say."""\n    return "42" if question else ""\n'


def main() -> None:
    """Measure and print the result with its bar. Exit with 1 if the bar is missed."""
    rounds = max(3, int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
    coder, lines = load("claude"), claude_lines()
    rates = [lines_per_second(coder, lines) for _ in range(rounds)]
    figures, by_the_clock = [used for used, _ in rates], median(passed for _, passed in rates)
    middle, size = median(figures), sum(map(len, lines)) / len(lines)
    print(
        f"claude lines per second of one core, {size:,.0f} characters each on average: {middle:,.0f} "
        f"(min {min(figures):,.0f}, max {max(figures):,.0f}, n={rounds}; by the clock {by_the_clock:,.0f})   "
        f"bar {BAR:,}: {'pass' if middle >= BAR else 'short'}, {middle / BAR:.2f}x"
    )
    sys.exit(middle < BAR)


def lines_per_second(coder: Coder, lines: list[str]) -> tuple[float, float]:
    """Parse each line once.

    Return the lines per second of processor time, because parsing never waits, and of real time.
    """
    start, used = perf_counter(), process_time()
    made = sum(len(list(coder.parse(line))) for line in lines)
    used, taken = process_time() - used, perf_counter() - start
    if made < len(lines) / 2:
        raise SystemExit(f"only {made} events from {len(lines)} lines")
    return len(lines) / used, len(lines) / taken


def claude_lines() -> list[str]:
    """Return recorded lines repeatedly, with tool results as long as in real work."""
    recorded = [line for name in WORKED for line in (RECORDINGS / "claude" / f"{name}.jsonl").read_text().splitlines()]
    lines: list[str] = []
    results = 0
    while len(lines) < LINES:
        for line in recorded:
            results += '"tool_result"' in line
            lines.append(longer(line, RESULTS[results % len(RESULTS)]) if '"tool_result"' in line else line)
    return lines[:LINES]


def longer(line: str, length: int) -> str:
    """Return a tool result with this much more text, which claude's line contains twice."""
    said = json.loads(line)
    text = (SOURCE * (length // len(SOURCE) + 1))[:length]
    for block in said["message"]["content"]:
        block["content"] = f"{block.get('content', '')}{text}"
    if isinstance(said.get("tool_use_result"), dict):
        said["tool_use_result"]["stdout"] = f"{said['tool_use_result'].get('stdout', '')}{text}"
    return json.dumps(said, separators=(",", ":"))


if __name__ == "__main__":
    main()
