"""The soak tests: this pytest plugin selects them, and as a program this module is `make soak`.

A soak test names its part: `@pytest.mark.soak("queues")`; without a name it belongs to the campaigns. `make test`
leaves them out. The part of the real CLIs is the exception: `make test` runs it too if the code that drives CLIs, or a
test of the part, has changed since all of them passed. VERIFIED holds the digest of the code that passed.
"""

import hashlib
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest

CLIS, CAMPAIGNS = "clis", "campaigns"
#: The parts, and whether the tests of each may run in parallel. The others depend on time or need the whole machine.
PARTS = {"queues": True, CLIS: True, "kills": False, "load": False, CAMPAIGNS: False}
ROOT = Path(__file__).parents[1]
VERIFIED = ROOT / "tests" / "real" / "verified.txt"
#: The modules of the core that decide about a run.
CORE = ("watchdog", "outcome")
#: The files that the digest covers.
SOURCES = (
    *("src/fleet/coders/**/*.py", "src/fleet/agents/**/*.py", "src/fleet/supervisor/run/*.py"),
    *(f"src/fleet/core/{name}.py" for name in CORE),
    *("tests/real/**/*.py", "tests/real/clis/package-lock.json", "tests/model_server/**/*.py"),
)
#: Elements of pytest's report about a test that did not pass.
NOT_PASSED = ("failure", "error", "skipped")
_LEFT = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--soak", metavar="PART", help=f"run the soak tests of one part only: {', '.join(PARTS)}")


def pytest_configure(config: pytest.Config) -> None:
    if part := config.getoption("soak"):
        check_part(part)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of one part. Without a part, keep those of no part, and of CLIs unless they are verified."""
    part = config.getoption("soak")
    wanted = {part} if part else {""} if is_verified() else {"", CLIS}
    left = [item for item in items if part_of(item) not in wanted]
    items[:] = [item for item in items if part_of(item) in wanted]
    config.hook.pytest_deselected(items=left)
    config.stash[_LEFT] = 0 if part else sum(part_of(item) == CLIS for item in left)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """In a worker, pass the count on to the process that prints the summary."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left"] = session.config.stash.get(_LEFT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Keep the count of a worker."""
    node.config.stash[_LEFT] = getattr(node, "workeroutput", {}).get("left", 0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print how many tests of CLIs were left out."""
    if left := config.stash.get(_LEFT, 0):
        terminalreporter.write_line(
            f"{left} tests of real CLIs left to `make soak PART={CLIS}`: they passed with this code"
        )


def part_of(item: pytest.Item) -> str:
    """Return the part of a soak test, or "" for any other test."""
    mark = item.get_closest_marker("soak")
    return check_part(*mark.args or [CAMPAIGNS]) if mark else ""


def check_part(part: str) -> str:
    """Return the name of a part. Raises UsageError if no part has this name."""
    if part not in PARTS:
        raise pytest.UsageError(f"no soak part {part!r}: choose from {', '.join(PARTS)}")
    return part


def is_verified() -> bool:
    """Return True if the tests of CLIs have passed with the sources as they are."""
    return VERIFIED.exists() and VERIFIED.read_text("utf-8").strip() == digest()


def digest() -> str:
    """Return the SHA-256 over the sources. Raises UsageError if a pattern matches no file."""
    whole = hashlib.sha256()
    for pattern in SOURCES:
        paths = sorted(ROOT.glob(pattern))
        if not paths:
            raise pytest.UsageError(f"tests/soak.py: SOURCES has {pattern}, which matches no file")
        for path in paths:
            whole.update(f"{path.relative_to(ROOT)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return whole.hexdigest()


class Row(NamedTuple):
    """The results of a part."""

    part: str
    tests: int
    passed: int
    failed: int
    minutes: float


def main(part: str, workers: str, *more: str) -> int:
    """Run one part or all of them and print a table. Renew VERIFIED if all tests of CLIs have passed."""
    rows, good, before = [], True, digest()
    for name in [check_part(part)] if part else PARTS:
        row, code = run(name, workers, more)
        rows.append(row)
        print(f"soak part: {name}, {row.tests} tests in {row.minutes:.1f} minutes", flush=True)
        good &= code in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        if name == CLIS and code == 0 and row.passed == row.tests and not more and digest() == before:
            VERIFIED.write_text(f"{before}\n", "utf-8")
            print(f"renewed {VERIFIED.relative_to(ROOT)}: commit it")
    print(f"\n{'part':<10}{'tests':>7}{'passed':>8}{'failed':>8}{'minutes':>9}")
    for row in rows:
        print(f"{row.part:<10}{row.tests:>7}{row.passed:>8}{row.failed:>8}{row.minutes:>9.1f}")
    return 0 if good and any(row.tests for row in rows) else 1


def run(part: str, workers: str, more: Sequence[str]) -> tuple[Row, int]:
    """Run a part in its own pytest. Return its row and pytest's exit code."""
    print(f"soak part: {part}", flush=True)
    spread = ("-n", workers, "--dist", "worksteal") if PARTS[part] else ("-n", "0")
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        report_words = ("-o", "junit_family=xunit1", f"--junitxml={report.name}")  # xunit2 has no place for tables
        words = ("--soak", part, "--timeout", "3600", *report_words, *spread, *more)
        began = time.monotonic()
        code = subprocess.run([sys.executable, "-m", "pytest", *words], cwd=ROOT).returncode
        minutes = (time.monotonic() - began) / 60
        text = Path(report.name).read_text("utf-8")
    cases = [*ElementTree.fromstring(text).iter("testcase")] if text else []
    ends = Counter(next((child.tag for child in case if child.tag in NOT_PASSED), "") for case in cases)
    return Row(part, len(cases), ends[""], ends["failure"] + ends["error"], minutes), code


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except pytest.UsageError as error:
        sys.exit(f"error: {error}")
