"""The processor time of the largest and most hostile inputs: `python tests/bench/bench_limits.py`."""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fleet.supervisor.run.output_reader import LineReader
from unit.core.test_redaction import test_five_megabytes_of_code_stay_as_they_are as redact_code
from unit.core.test_redaction import test_hostile_text_is_redacted_to_its_end as redact_hostile_text
from unit.core.test_simulation import simulate
from unit.proof.scope.places import seen, use
from unit.proof.scope.test_lookout import HEAVY
from unit.workflows.test_check import test_graph_of_thousands_of_stages_in_reverse_order_is_sorted as sort_graph
from unit.workflows.test_check import test_workflow_with_a_billion_stages_is_refused as refuse_page

LINES = 1_000_000


def main() -> int:
    """Measure everything. Return 0 if every bar is met."""
    met = [
        measure("the slowest of the heavy shell lines", read_heavy_lines, 2),
        measure("5 MB of code, redacted", redact_code, 10),
        measure("hostile text, redacted", redact_hostile_text, 5),
        measure(f"{LINES:,} tiny lines of output", read_tiny_lines, 20),
        measure("three workflows of too many stages, refused", refuse_page, 5),
        measure("two workflows of 4,000 stages in reverse order, sorted", sort_graph, 10),
        measure("1,000 tasks over 200 slots, simulated", lambda: simulate(0, 1_000, 200), 10),
    ]
    return 0 if all(met) else 1


def measure(what: str, work: Callable[[], object], bar: float) -> bool:
    """Print the seconds with their bar. Work that measures itself returns its seconds."""
    began = process_time()
    told = work()
    seconds = told if isinstance(told, float) else process_time() - began
    print(f"{what:<58} {seconds:>8.2f} s   ≤ {bar:g} s  {'pass' if seconds <= bar else 'SHORT'}")
    return seconds <= bar


def read_heavy_lines() -> float:
    """Return the seconds of the slowest line."""
    slowest = 0.0
    for line in HEAVY:
        began = process_time()
        seen(use(line))
        slowest = max(slowest, process_time() - began)
    return slowest


def read_tiny_lines() -> None:
    """Read a file of very many short lines."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"{}\n" * LINES)
        file.flush()
        reader, count = LineReader(file.name), 0
        while reader.behind:
            count += len(reader.read())
    assert count == LINES


if __name__ == "__main__":
    sys.exit(main())
