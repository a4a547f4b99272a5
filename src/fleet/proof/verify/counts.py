"""Test counts in the output of test runners, and reasons why exit code 0 proves less than it seems. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

#: Escape sequences that color a terminal.
COLORS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: How much of the end of an output is examined.
MOST_BYTES, MOST_LINES, LONGEST_LINE = 256 * 1024, 5_000, 300


class Count(NamedTuple):
    """Numbers of tests as a runner reported them."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0


class TestRunner(NamedTuple):
    """A test runner: how a command names it, how it reports its counts, and how its output ends."""

    named: re.Pattern[str]
    #: Lines with counts, in the groups `passed`, `failed`, `skipped` and `ran`.
    tells: tuple[re.Pattern[str], ...]
    #: The runner's text if it found no tests.
    nothing: re.Pattern[str]
    #: The runner's text at its end, with any options.
    ends: re.Pattern[str]


def _compile_line_pattern(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.MULTILINE)


_NOTHING_ELSE = re.compile(r"(?!)")
RUNNERS = {
    "pytest": TestRunner(
        re.compile(r"(?:^|[\s/])(?:pytest|py\.test)(?![\w./=-])"),
        (
            re.compile(r"(?P<passed>\d{1,9}) (?:passed|xpassed)\b"),
            re.compile(r"(?P<failed>\d{1,9}) (?:failed|errors?)\b"),
            re.compile(r"(?P<skipped>\d{1,9}) (?:skipped|xfailed)\b"),
        ),
        _compile_line_pattern(r"no tests ran in [\d.]+s", r"^collected 0 items$"),
        _compile_line_pattern(
            r"\b(?:passed|failed|skipped|error|errors|deselected|xfailed|xpassed|warnings?|ran) in [\d.]+s", r"\[100%\]"
        ),
    ),
    "unittest": TestRunner(
        re.compile(r"-m\s+unittest\b"),
        (
            re.compile(r"^Ran (?P<ran>\d{1,9}) tests? in ", re.MULTILINE),
            re.compile(r"^(?:OK|FAILED) \(.{0,80}?\bskipped=(?P<skipped>\d{1,9})", re.MULTILINE),
            re.compile(r"^FAILED \(.{0,80}?\bfailures=(?P<failed>\d{1,9})", re.MULTILINE),
            re.compile(r"^FAILED \(.{0,80}?\berrors=(?P<failed>\d{1,9})", re.MULTILINE),
        ),
        _compile_line_pattern(r"^NO TESTS RAN"),
        _compile_line_pattern(r"^Ran \d+ tests? in [\d.]+s\n+(?:OK|FAILED|NO TESTS RAN)"),
    ),
    "jest": TestRunner(
        re.compile(r"(?:^|[\s/])(?:jest|vitest)(?![\w./=-])"),
        (
            re.compile(r"^[ \t]*Tests:?[ \t].{0,120}?(?P<passed>\d{1,9}) passed", re.MULTILINE),
            re.compile(r"^[ \t]*Tests:?[ \t].{0,120}?(?P<failed>\d{1,9}) failed", re.MULTILINE),
            re.compile(r"^[ \t]*Tests:?[ \t].{0,120}?(?P<skipped>\d{1,9}) (?:skipped|todo)", re.MULTILINE),
        ),
        _compile_line_pattern(r"^No tests? (?:files )?found"),
        _compile_line_pattern(r"^[ \t]*Tests:?[ \t].{0,120}?\d", r"^No tests? (?:files )?found"),
    ),
    "mocha": TestRunner(
        re.compile(r"(?:^|[\s/])mocha(?![\w./=-])"),
        (
            re.compile(r"^[ \t]*(?P<passed>\d{1,9}) passing\b", re.MULTILINE),
            re.compile(r"^[ \t]*(?P<failed>\d{1,9}) failing\b", re.MULTILINE),
            re.compile(r"^[ \t]*(?P<skipped>\d{1,9}) pending\b", re.MULTILINE),
        ),
        _NOTHING_ELSE,
        _compile_line_pattern(r"^[ \t]*\d+ passing\b"),
    ),
    "go": TestRunner(
        re.compile(r"\bgo\s+test\b"),
        (
            re.compile(r"^[ \t]*--- PASS: ()", re.MULTILINE),
            re.compile(r"^[ \t]*--- FAIL: ()", re.MULTILINE),
            re.compile(r"^[ \t]*--- SKIP: ()", re.MULTILINE),
        ),
        _NOTHING_ELSE,
        _compile_line_pattern(r"^(?:ok|FAIL|\?)\s+\S+", r"^PASS$"),
    ),
    "cargo": TestRunner(
        re.compile(r"\bcargo\s+(?:\+\S+\s+)?(?:test|nextest)\b"),
        (
            re.compile(
                r"^test result: \w+\. (?P<passed>\d{1,9}) passed; (?P<failed>\d{1,9}) failed; "
                r"(?P<skipped>\d{1,9}) ignored",
                re.MULTILINE,
            ),
            re.compile(
                r"^[ \t]*Summary \[[^\]]{0,40}\] +\d{1,9} tests? run: (?P<passed>\d{1,9}) passed"
                r"(?:, (?P<failed>\d{1,9}) failed)?(?:, (?P<skipped>\d{1,9}) skipped)?",
                re.MULTILINE,
            ),
        ),
        _NOTHING_ELSE,
        _compile_line_pattern(r"^test result: ", r"^[ \t]*Summary \["),
    ),
    "rspec": TestRunner(
        re.compile(r"(?:^|[\s/])rspec(?![\w./=-])"),
        (
            re.compile(
                r"^(?P<ran>\d{1,9}) examples?, (?P<failed>\d{1,9}) failures?(?:, (?P<skipped>\d{1,9}) pending)?",
                re.MULTILINE,
            ),
        ),
        _NOTHING_ELSE,
        _compile_line_pattern(r"^\d+ examples?, \d+ failures?"),
    ),
    "tap": TestRunner(
        re.compile(r"\bnode\s+(?:\S+\s+)*?--test\b|(?:^|[\s/])(?:prove|tape)(?![\w./=-])"),
        (
            re.compile(r"^[#ℹ] pass (?P<passed>\d{1,9})", re.MULTILINE),
            re.compile(r"^[#ℹ] fail (?P<failed>\d{1,9})", re.MULTILINE),
            re.compile(r"^[#ℹ] skip(?:ped)? (?P<skipped>\d{1,9})", re.MULTILINE),
        ),
        _compile_line_pattern(r"^1\.\.0\b"),
        _compile_line_pattern(r"^[#ℹ] (?:pass|tests) +\d+", r"^Result: (?:PASS|FAIL|NOTESTS)", r"^1\.\.\d+"),
    ),
}
_GO_RAN = re.compile(r"^ok\s+\S+\s+(?!.*\[no tests to run\])", re.MULTILINE)
#: Options that hide a runner's text from the log, or change whose exit code the command returns.
_ELSEWHERE = re.compile(
    r"(?<![12])>|(?<!\|)\|(?!\|)|-qq\b|-q\s+-q\b|--silent|--quiet|--reporter|--format|--collect-only|--help|--version"
)


#: How runners name a failed test. One of the groups has the name.
_FAILED = re.compile(
    r"^(?:FAILED|ERROR) \S{0,200}?::([\w.\[\]-]{1,80})|^(?:FAIL|ERROR): (\w{1,80})|^[ \t]*--- FAIL: (\S{1,80})|"
    r"^test (\S{1,80}) \.\.\. FAILED|^[ \t]*● (\S.{0,79})|^not ok \d{1,9} - (\S.{0,79})",
    re.MULTILINE,
)
MOST_FAILED = 3


def failed_names(output: str) -> list[str]:
    """Return the first failed tests that an output names."""
    found = ("".join(groups) for groups in _FAILED.findall(_select_readable(output)))
    return list(dict.fromkeys(found))[:MOST_FAILED]


def counted(output: str) -> Count | None:
    """Return the sum of the tests that all runners in an output report. Return None if no runner reports any."""
    return _count_all(_select_readable(output))


def _select_readable(output: str) -> str:
    """Return the part of an output that can be a runner's: its last lines, each cut. The output may be hostile."""
    lines = COLORS.sub("", output[-MOST_BYTES:]).splitlines()
    return "\n".join(line[:LONGEST_LINE] for line in lines[-MOST_LINES:] if line)


def _count_all(text: str) -> Count | None:
    found = [count for name in RUNNERS if (count := _count_runner(name, text)) is not None]
    return Count(*map(sum, zip(*found, strict=True))) if found else None


def doubts(command: str, output: str) -> tuple[str, ...]:
    """Return why exit code 0 of this command with this output proves less than it seems."""
    text = _select_readable(output)
    found = _count_all(text)
    named = [name for name, runner in RUNNERS.items() if runner.named.search(command)]
    if found is not None and found.failed:
        return (f"it exited with 0, but its runner reports failures: {found.failed}",)
    if found is not None and found.passed:
        return _list_unended(named, command, text)
    if found is not None and found.skipped:
        return (f"its runner skipped all {found.skipped} tests",)
    if (found is not None and not _has_go_run(text)) or any(RUNNERS[name].nothing.search(text) for name in RUNNERS):
        return ("its runner ran no tests",)
    return _list_unended(named, command, text)


def _list_unended(named: list[str], command: str, text: str) -> tuple[str, ...]:
    """Return a doubt if a named runner did not print its end."""
    if _ELSEWHERE.search(command):
        return ()
    silent = [name for name in named if not RUNNERS[name].ends.search(text)]
    return ("its runner did not report how it ended",) if silent else ()


def _count_runner(name: str, text: str) -> Count | None:
    runner = RUNNERS[name]
    if name == "pytest":
        text = "\n".join(line for line in text.splitlines() if _PYTEST_LINE.search(line))
    if name == "go":
        return _count_go(runner, text)
    told = {"passed": 0, "failed": 0, "skipped": 0, "ran": 0}
    seen = False
    for pattern in runner.tells:
        for match in pattern.finditer(text):
            seen = True
            for kind, number in match.groupdict().items():
                told[kind] += int(number or 0)
    passed = told["passed"] + max(0, told["ran"] - told["failed"] - told["skipped"]) if told["ran"] else told["passed"]
    return Count(passed, told["failed"], told["skipped"]) if seen else None


#: The last line of pytest. Other lines with such words are not from pytest.
_PYTEST_LINE = re.compile(r"^(?:=+ )?\d{1,9} [a-z]+(?:, \d{1,9} [a-z]+){0,9} in [\d.]+s(?: \([\d:]+\))?(?: =+)?$")


def _count_go(runner: TestRunner, text: str) -> Count | None:
    """Return the count of go, which names tests only in verbose mode."""
    told = [len(pattern.findall(text)) for pattern in runner.tells]
    if any(told):
        return Count(*told)
    spoke = re.search(r"^\?\s+\S+\s+\[no test files\]|\[no tests to run\]$", text, re.MULTILINE)
    return Count() if spoke and not _has_go_run(text) else None


def _has_go_run(text: str) -> bool:
    return _GO_RAN.search(text) is not None
