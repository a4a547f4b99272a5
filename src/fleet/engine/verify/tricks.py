"""Tricks of a changed file that make a test runner say what is not so: what to look for in its text. Pure.

Nothing here is proof of a trick. In a test that a branch adds it costs a second run without it; in other code it keeps
an end with 0 from being taken for proof.
"""

from __future__ import annotations

import re

#: How a program ends at once, with an exit code of its own choice.
_ENDS = (
    r"\bos\._exit\b|\bprocess\.(?:exit|reallyExit)\b|\bSystem\.exit\b|Runtime\.getRuntime\(\)\.halt|\bos\.Exit\(|"
    r"\bprocess::exit\b|\bexit!\(?|\bquick_exit\(|\b_exit\(|\bpytest\.exit\b|\bsys\.exit\b|\bSystemExit\b|\bos\.exec"
)
#: How a file changes the runner that it is run by.
_CHANGES = (
    r"\bunittest(?:\.\w{1,60}){1,4} ?=[^=]|\bTestCase\.\w{1,60} ?=[^=]|"
    r"setattr\(\s{0,9}(?:unittest|_?pytest|TestCase)"
)
#: How a file reaches into the runner that it is run by.
_REACHES = (
    r"\bTestResult\b|\bTextTestR|\bTestProgram\b|\bload_tests\b|"
    r"\bpatch(?:\.object)?\(\s{0,9}[\"']?(?:unittest|_?pytest)|\b_pytest\b|"
    r"\bpytest_[a-z]+_|\bpytest_plugins\b|\bcollect_ignore|\bsys\.modules\b|\bsys\._getframe\b|\binspect\.stack\b|"
    r"\bgc\.get_objects\b|\batexit\b|\bat_exit\b|\bsettrace\b|\bbuiltins\b"
)
#: An object that is equal to whatever it is compared with.
_EQUALS = r"def __eq__\([^)\n]{0,200}\)[^:\n]{0,100}:[ \t]*(?:#[^\n]{0,200})?\n?[ \t]*return True\b"
#: A runner's own words, which a program has no reason to say.
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
#: At the top of a file it is reached by whoever imports that, and nobody else has a use for it there.
_AT_THE_TOP = re.compile(r"^(?=\S).*\bos\._exit\(", re.MULTILINE)
_KNOWS_TESTS = re.compile(r"unittest|pytest|PYTEST|\bjest\b|\bmocha\b|\bsys\.modules\b|\bsys\.argv\b")


def may_cheat(text: str) -> bool:
    """Whether a test could decide how its runner ends, or what other tests do."""
    return _IN_TESTS.search(text) is not None


def tricks(before: str, after: str) -> list[str]:
    """What a change to code that is no test brings that could fool its tests."""
    found = [words for pattern, words in _IN_CODE if len(pattern.findall(after)) > len(pattern.findall(before))]
    harder = len(_HARD_ENDS.findall(after)) > len(_HARD_ENDS.findall(before))
    if harder and (_KNOWS_TESTS.search(after) or _AT_THE_TOP.search(after)):
        found.append("can end its test runner early")
    return found
