"""The soak tests: this pytest plugin selects them, and as a program this module is `make soak`.

A soak test names its part: `@pytest.mark.soak("queues")`; without a name it belongs to the campaigns. `make test`
leaves all of them out.
"""

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

import pytest

CLIS, CAMPAIGNS = "clis", "campaigns"
#: Each part, and whether its tests may run side by side. The others depend on time or need the whole machine.
PARTS = {"queues": True, CLIS: True, "kills": False, "load": False, CAMPAIGNS: False}
ROOT = Path(__file__).parents[1]
#: Elements of pytest's report about a test that did not pass.
NOT_PASSED = ("failure", "error", "skipped")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", metavar="PART", help=f"run the soak tests of one part only: {', '.join(PARTS)}")


def pytest_configure(config: pytest.Config) -> None:
    if part := config.getoption("soak"):
        check_part(part)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of one part; without a part, those of no part."""
    wanted = config.getoption("soak") or ""
    config.hook.pytest_deselected(items=[item for item in items if part_of(item) != wanted])
    items[:] = [item for item in items if part_of(item) == wanted]


def part_of(item: pytest.Item) -> str:
    """Return the part of a soak test, or "" for any other test."""
    mark = item.get_closest_marker("soak")
    return check_part(*mark.args or [CAMPAIGNS]) if mark else ""


def check_part(part: str) -> str:
    """Return the name of a part. Raises UsageError if no part has this name."""
    if part not in PARTS:
        raise pytest.UsageError(f"no soak part {part!r}: choose from {', '.join(PARTS)}")
    return part


class Row(NamedTuple):
    """The results of a part."""

    part: str
    tests: int
    passed: int
    failed: int
    minutes: float


def main(part: str, workers: str, *more: str) -> int:
    """Run one part or all of them and print a table."""
    rows, good = [], True
    for name in [check_part(part)] if part else PARTS:
        row, code = run(name, workers, more)
        rows.append(row)
        good &= code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
    print(f"\n{'part':<10}{'tests':>7}{'passed':>8}{'failed':>8}{'minutes':>9}")
    for row in rows:
        print(f"{row.part:<10}{row.tests:>7}{row.passed:>8}{row.failed:>8}{row.minutes:>9.1f}")
    return 0 if good and any(row.tests for row in rows) else 1


def run(part: str, workers: str, more: Sequence[str]) -> tuple[Row, int]:
    """Run a part in its own pytest. Return its row and pytest's exit code."""
    print(f"soak part: {part}", flush=True)
    spread = ("-n", workers, "--dist", "worksteal") if PARTS[part] else ("-n", "0")
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        words = ("--soak", part, "--timeout", "3600", f"--junitxml={report.name}", *spread, *more)
        code = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT).returncode
        text = Path(report.name).read_text("utf-8")
    cases = [*ElementTree.fromstring(text).iter("testcase")] if text else []
    ends = Counter(next((child.tag for child in case if child.tag in NOT_PASSED), "") for case in cases)
    seconds = sum(float(case.get("time", 0)) for case in cases)
    return Row(part, len(cases), ends[""], ends["failure"] + ends["error"], seconds / 60), code


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except pytest.UsageError as error:
        sys.exit(f"error: {error}")
