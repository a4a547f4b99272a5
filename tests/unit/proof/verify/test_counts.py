"""Output of test runners: the number of passed tests, and the doubts about an exit code of 0."""

import pytest

from fleet.proof.verify.counts import Count, counted, doubts

UNITTEST = "...\n----------------------------------------------------------------------\nRan 3 tests in 0.001s\n\n"
GO = "ok  \texample.invalid/a\t0.004s\nok  \texample.invalid/b\t(cached)\n"
NODE = "# tests 4\n# suites 0\n# pass 3\n# fail 0\n# cancelled 0\n# skipped 1\n# todo 0\n# duration_ms 60\n"
CARGO = "test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"
MOCHA = "\n  Array\n    ✓ works\n\n\n  12 passing (8ms)\n  1 pending\n"
VITEST = " Test Files  2 passed (2)\n      Tests  5 passed | 1 skipped (6)\n   Start at  10:00:00\n"
JEST = "Test Suites: 1 passed, 1 total\nTests:       1 skipped, 6 passed, 7 total\nSnapshots:   0 total\n"

#: A command, its output on success, and the counts in it.
WELL = {
    "pytest": (
        "pytest",
        "== test session starts ==\ncollected 4 items\n\n== 3 passed, 1 skipped in 0.12s ==",
        (3, 0, 1),
    ),
    "pytest -q": ("pytest -q tests", "...s  [100%]\n3 passed, 1 skipped, 2 warnings in 0.12s\n", (3, 0, 1)),
    "pytest that took long": ("pytest", "==== 3 passed in 75.11s (0:01:15) ====", (3, 0, 0)),
    "pytest, in colour": ("pytest", "\x1b[32m\x1b[32m\x1b[1m2 passed\x1b[0m\x1b[32m in 0.01s\x1b[0m\x1b[0m", (2, 0, 0)),
    "pytest, very quiet": ("pytest", "....   [100%]\n", None),
    "pytest, in a tool": ("uv run pytest -x 2>&1", "2 passed, 1 xfailed in 0.50s", (2, 0, 1)),
    "unittest": ("python -m unittest", f"{UNITTEST}OK\n", (3, 0, 0)),
    "unittest, one skipped": ("python -m unittest", f"{UNITTEST}OK (skipped=1)\n", (2, 0, 1)),
    "jest": ("npx jest", JEST, (6, 0, 1)),
    "vitest": ("vitest run", VITEST, (5, 0, 1)),
    "mocha": ("mocha", MOCHA, (12, 0, 1)),
    "go": ("go test ./...", GO, None),
    "go with a package without tests": ("go test ./...", f"{GO}?   \texample.invalid/c\t[no test files]\n", None),
    "go, verbose": (
        "go test -v",
        "--- PASS: TestA (0.00s)\n    --- PASS: TestA/b (0.0s)\n--- SKIP: TestC\nPASS\n",
        (2, 0, 1),
    ),
    "cargo": ("cargo test", f"{CARGO}\n{CARGO}", (8, 0, 2)),
    "nextest": ("cargo nextest run", "     Summary [   0.1s] 5 tests run: 5 passed, 2 skipped\n", (5, 0, 2)),
    "rspec": ("bundle exec rspec", "..\n\nFinished in 0.1 seconds\n5 examples, 0 failures, 1 pending\n", (4, 0, 1)),
    "node": ("node --test", NODE, (3, 0, 1)),
    "prove": ("prove -r t", "All tests successful.\nFiles=2, Tests=5\nResult: PASS\n", None),
    "a script": ("./verify.sh", "all is well\n", None),
    "a silent command": ("test -f README.md", "", None),
    "a word that looks like one": ("./run-pytest.sh", "done\n", None),
    "words of a program": ("./app --selftest", "3 passed the gate in the end\nTests were nice\n", None),
    "output that goes elsewhere": ("pytest > log.txt", "", None),
    "a runner through a filter": ("pytest | tail -n 1", "", None),
    "an installed runner": ("pip install pytest==8.0 && make", "Successfully installed\n", None),
}


@pytest.mark.parametrize("name", WELL)
def test_counts_of_a_successful_run_are_read_without_doubt(name: str) -> None:
    command, output, count = WELL[name]
    assert counted(output) == (Count(*count) if count else None)
    assert doubts(command, output) == ()


NO_TESTS = ("its runner ran no tests",)
SILENT = ("its runner did not report how it ended",)
#: A command that exited with 0, its output, and the doubt about it.
DOUBTED = {
    "nothing to run": ("python -m unittest", "\n----\nRan 0 tests in 0.000s\n\nOK\n", NO_TESTS),
    "nothing to run, newer": ("python -m unittest", "\n----\nRan 0 tests in 0.000s\n\nNO TESTS RAN\n", NO_TESTS),
    "nothing to run, pytest": ("pytest; true", "collected 0 items\n\n=== no tests ran in 0.01s ===\n", NO_TESTS),
    "all of them left out": ("pytest || true", "==== 4 deselected in 0.01s ====\n", ()),
    "nothing to run, cargo": ("cargo test", CARGO.replace("4 passed", "0 passed").replace("1 ign", "0 ign"), NO_TESTS),
    "nothing to run, go": ("go test ./...", "?   \ta\t[no test files]\n", NO_TESTS),
    "nothing to run, jest": ("jest --passWithNoTests", "No tests found, exiting with code 0\n", NO_TESTS),
    "nothing to run, rspec": ("rspec", "0 examples, 0 failures\n", NO_TESTS),
    "nothing to run, mocha": ("mocha", "\n  0 passing (1ms)\n", NO_TESTS),
    "all are skipped": ("pytest", "== 4 skipped in 0.01s ==", ("its runner skipped all 4 tests",)),
    "all are skipped, in a script": ("./verify.sh", f"{UNITTEST}OK (skipped=3)\n", ("its runner skipped all 3 tests",)),
    "some fail": (
        "pytest || true",
        "== 1 failed, 4 passed in 0.01s ==",
        ("it exited with 0, but its runner reports failures: 1",),
    ),
    "some fail, unittest": (
        "python -m unittest; exit 0",
        f"{UNITTEST}FAILED (failures=1, errors=1)\n",
        ("it exited with 0, but its runner reports failures: 2",),
    ),
    "the runner is silent": ("python3 -m unittest discover", "", SILENT),
    "the runner is cut short": (
        "pytest tests",
        "== test session starts ==\ncollected 4 items\n\ntests/a.py ..",
        SILENT,
    ),
    "a traceback, and an end with 0": ("pytest", "Traceback (most recent call last):\n  …\nKeyError\n", SILENT),
    "a runner that ran, and says nothing of its end": ("python -m unittest", UNITTEST, SILENT),
    "one of two is silent": ("pytest && go test ./...", GO, SILENT),
    "one of two is silent, beside another": ("pytest && cargo test", CARGO, SILENT),
}


@pytest.mark.parametrize("name", DOUBTED)
def test_exit_code_0_that_proves_little_is_doubted(name: str) -> None:
    command, output, words = DOUBTED[name]
    assert doubts(command, output) == words


def test_hostile_output_is_parsed_quickly() -> None:
    for output in (
        "1 passed, " * 20_000,
        "1 111 " * 40_000,
        "=" * 200_000,
        "Tests: " + "1 " * 100_000,
        "\n" * 200_000,
        "x" * 250_000,
    ):
        assert doubts("pytest && npx jest", output) == SILENT
