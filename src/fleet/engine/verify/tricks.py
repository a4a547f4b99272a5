"""Tricks with which a changed file can make a test runner report a wrong result, found in the file's text. Pure.

A match is no proof of a trick. For a test that a branch adds, a match costs a second run without the test. For other
code, a match prevents exit code 0 from counting as proof.
"""

from __future__ import annotations

import re

#: How a program ends at once with its own exit code.
_ENDS = (
    r"\bos\._exit\b|\bprocess\.(?:exit|reallyExit)\b|\bSystem\.exit\b|Runtime\.getRuntime\(\)\.halt|\bos\.Exit\(|"
    r"\bprocess::exit\b|\bexit!\(?|\bquick_exit\(|\b_exit\(|\bpytest\.exit\b|\bsys\.exit\b|\bSystemExit\b|\bos\.exec"
)
#: How a file changes its test runner.
_CHANGES = (
    r"\bunittest(?:\.\w{1,60}){1,4} ?=[^=]|\bTestCase\.\w{1,60} ?=[^=]|"
    r"setattr\(\s{0,9}(?:unittest|_?pytest|TestCase)"
)
#: How a file accesses the internals of its test runner.
_REACHES = (
    r"\bTestResult\b|\bTextTestR|\bTestProgram\b|\bload_tests\b|"
    r"\bpatch(?:\.object)?\(\s{0,9}[\"']?(?:unittest|_?pytest)|\b_pytest\b|"
    r"\bpytest_[a-z]+_|\bpytest_plugins\b|\bcollect_ignore|\bsys\.modules\b|\bsys\._getframe\b|\binspect\.stack\b|"
    r"\bgc\.get_objects\b|\batexit\b|\bat_exit\b|\bsettrace\b|\bbuiltins\b"
)
#: An object that equals everything.
_EQUALS = r"def __eq__\([^)\n]{0,200}\)[^:\n]{0,100}:[ \t]*(?:#[^\n]{0,200})?\n?[ \t]*return True\b"
#: Text of test runners that a program has no reason to print.
_FORGES = r"Ran \d+ tests? in\b|\d+ passed in \d|test result: ok\.|Tests:\s+\d+ passed"

_IN_TESTS = re.compile("|".join((_ENDS, _CHANGES, _REACHES, _EQUALS, _FORGES)))
_IN_CODE = (
    (
        re.compile(_CHANGES),
        "changes its test runner",
    ),
    (re.compile(_EQUALS), "has an object that equals everything"),
    (re.compile(_FORGES), "prints what a test runner would"),
)
_HARD_ENDS = re.compile(r"\bos\._exit\b|\bprocess\.reallyExit\b|\bquick_exit\(|\.halt\(\s*0|\bos\.exec")
#: At the top of a file such a call runs on import, and has no other use there.
_AT_THE_TOP = re.compile(r"^(?=\S).*\bos\._exit\(", re.MULTILINE)
_KNOWS_TESTS = re.compile(r"unittest|pytest|PYTEST|\bjest\b|\bmocha\b|\bsys\.modules\b|\bsys\.argv\b")


def may_cheat(text: str) -> bool:
    """Return True if a test could decide the result of its runner or of other tests."""
    return _IN_TESTS.search(text) is not None


def tricks(before: str, after: str) -> list[str]:
    """Return how a change to code that is not a test could deceive its tests."""
    found = [words for pattern, words in _IN_CODE if len(pattern.findall(after)) > len(pattern.findall(before))]
    harder = len(_HARD_ENDS.findall(after)) > len(_HARD_ENDS.findall(before))
    if harder and (_KNOWS_TESTS.search(after) or _AT_THE_TOP.search(after)):
        found.append("can end its test runner early")
    return found
