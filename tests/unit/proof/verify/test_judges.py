"""Changes that judge a branch, and changes that are judged, by their paths, kinds and text."""

import pytest

from fleet.git.diffs import PathChange, TreeEntry
from fleet.proof.verify.judges import JudgedChanges, Wants, judged
from fleet.settings.project_sections import RUNNERS, TESTS

FILE, LINK = "100644", "120000"


def judge(
    before: dict[str, str], after: dict[str, str], command: str = "pytest", protect: tuple[str, ...] = ()
) -> JudgedChanges:
    """Judge the change from some files to others. A text that begins with `->` is a link."""
    changes = [
        PathChange(path, _entry(before.get(path)), _entry(after.get(path)))
        for path in sorted({*before, *after})
        if before.get(path) != after.get(path)
    ]
    return judged(Wants(command, protect, (*TESTS, *RUNNERS)), changes, lambda entry: entry.id.encode())


def _entry(text: str | None) -> TreeEntry | None:
    return None if text is None else TreeEntry(LINK if text.startswith("->") else FILE, text)


TEST = "def test_a():\n    assert 1\n"
#: Honest changes, which are not contested.
PLAIN = {
    "code": ({"src/a.py": "1"}, {"src/a.py": "2"}),
    "a new test": ({}, {"tests/test_a.py": TEST}),
    "a new test elsewhere": ({}, {"src/a_test.go": "package a"}),
    "new data of tests": ({}, {"tests/data/a.json": "{}"}),
    "a dependency": (
        {"package.json": '{"scripts": {"test": "jest"}}'},
        {"package.json": '{"scripts": {"test": "jest"}, "dependencies": {}}'},
    ),
    "a version": ({"pyproject.toml": "[project]\nversion = '1'\n"}, {"pyproject.toml": "[project]\nversion = '2'\n"}),
    "a linter": ({"setup.cfg": "[flake8]\nx = 1\n"}, {"setup.cfg": "[flake8]\nx = 2\n"}),
    "a crate": ({"Cargo.toml": "[dependencies]\n"}, {"Cargo.toml": "[dependencies]\na = '1'\n"}),
    "a module with a name of Python's": ({}, {"src/app/types.py": "1"}),
    "a Makefile that is not used": ({"Makefile": "1"}, {"Makefile": "2"}),
    "a new link": ({}, {"docs/latest": "-> v2"}),
    "an exit of a program": ({"app.py": ""}, {"app.py": "import sys\nsys.exit(main())\n"}),
    "a fork": ({"app.py": ""}, {"app.py": "def child():\n    os._exit(0)\n"}),
    "an equality": ({"app.py": ""}, {"app.py": "def __eq__(self, other):\n    return self.a == other.a\n"}),
}


@pytest.mark.parametrize("name", PLAIN)
def test_honest_changes_are_not_contested(name: str) -> None:
    found = judge(*PLAIN[name])
    assert (found.restored, found.contested, found.doubts) == ({}, {}, ())


#: Contested changes: the files before and after.
CONTESTED = {
    "a test": ({"tests/test_a.py": TEST}, {"tests/test_a.py": "pass"}),
    "a test that is gone": ({"a/test_b.py": TEST}, {}),
    "data of a test": ({"tests/data/a.json": "1"}, {"tests/data/a.json": "2"}),
    "a conftest": ({}, {"conftest.py": "x"}),
    "a conftest far below": ({}, {"a/b/conftest.py": "x"}),
    "settings of pytest": ({}, {"pytest.ini": "[pytest]\n"}),
    "settings in pyproject": (
        {"pyproject.toml": "[project]\nversion = '1'\n"},
        {"pyproject.toml": "[project]\nversion = '1'\n[tool.pytest.ini_options]\naddopts = '-k x'\n"},
    ),
    "settings in setup.cfg": ({}, {"setup.cfg": "[tool:pytest]\naddopts = -k x\n"}),
    "a settings file that cannot be read": ({"pyproject.toml": "[a]\n"}, {"pyproject.toml": "[["}),
    "the test script of a package": (
        {"package.json": '{"scripts": {"test": "jest"}}'},
        {"package.json": '{"scripts": {"test": "true"}}'},
    ),
    "a crate whose tests are off": ({"Cargo.toml": "[lib]\n"}, {"Cargo.toml": "[lib]\ntest = false\n"}),
    "a runner's settings of one's own": ({}, {"jest.config.js": "x"}),
    "what Python reads first": ({}, {"sitecustomize.py": "x"}),
    "a path file": ({}, {"evil.pth": "import os"}),
    "a program of node": ({}, {"node_modules/.bin/jest": "x"}),
    "attributes": ({}, {".gitattributes": "* text"}),
    "a module of Python's": ({}, {"json.py": "x"}),
    "a package of Python's": ({}, {"json/__init__.py": "x"}),
    "a module of the runner": ({}, {"pytest.py": "x"}),
    "a module beside the tests": ({}, {"tests/calc.py": "x"}),
    "a module of Python's beside the tests": ({}, {"tests/json.py": "x"}),
    "a package of tests": ({}, {"tests/__init__.py": ""}),
    "a link in place of the tests": ({"tests/test_a.py": TEST}, {"tests": "-> mine"}),
    "a link in place of code": ({"src/a.py": "1"}, {"src/a.py": "-> /etc/passwd"}),
    "a new test that exits": ({}, {"tests/test_a.py": "import os\nos._exit(0)"}),
    "a new test that patches": ({}, {"tests/test_a.py": "unittest.TestCase.assertEqual = f"}),
    "a new test with hooks": ({}, {"tests/test_a.py": "def pytest_runtest_call(item): pass"}),
    "a new test with a runner's words": ({}, {"tests/test_a.py": "print('Ran 3 tests in 0.1s')"}),
}


@pytest.mark.parametrize("name", CONTESTED)
def test_changes_of_judging_files_are_contested(name: str) -> None:
    before, after = CONTESTED[name]
    found = judge(before, after)
    assert set(found.contested) == {path for path in {*before, *after} if before.get(path) != after.get(path)}
    assert all(found.contested[path] == _entry(before.get(path)) for path in found.contested)


def test_makefile_or_script_is_contested_when_the_command_uses_it() -> None:
    assert set(judge({"Makefile": "1"}, {"Makefile": "2", "GNUmakefile": "3"}, "make test").contested) == {
        "Makefile",
        "GNUmakefile",
    }
    assert set(judge({}, {"verify.sh": "1"}, "./verify.sh").contested) == {"verify.sh"}
    assert set(judge({}, {"ci/json.py": "1"}, "python3 ci/check.py").contested) == {"ci/json.py"}


def test_script_and_protected_files_are_taken_from_the_base() -> None:
    before = {"verify.sh": "1", "tests/test_a.py": TEST, "golden/a": "1", "src/a.py": "1"}
    after = {"verify.sh": "2", "tests/test_b.py": TEST, "golden/b": "1", "src/a.py": "2"}
    found = judge(before, after, "./verify.sh", ("golden/", "tests/"))
    assert found.restored == {
        **{path: _entry(before[path]) for path in ("verify.sh", "tests/test_a.py", "golden/a")},
        **dict.fromkeys(("tests/test_b.py", "golden/b")),
    }
    assert (found.contested, found.tests) == ({}, {})


def test_test_file_named_by_the_command_is_a_test_and_not_the_script() -> None:
    found = judge({"tests/test_a.py": "1"}, {"tests/test_a.py": "2"}, "python3 tests/test_a.py")
    assert (set(found.contested), found.restored) == ({"tests/test_a.py"}, {})


def test_base_is_judged_by_tests_of_the_tip_and_by_its_own_without_them() -> None:
    before = {"tests/test_a.py": "1", "tests/test_gone.py": "1"}
    after = {"tests/test_a.py": "2", "tests/test_new.py": "1", "conftest.py": "x"}
    found = judge(before, after)
    assert set(found.tests) == {"tests/test_a.py", "tests/test_new.py"}
    assert found.at_the_base == {
        "tests/test_a.py": _entry("1"),
        "tests/test_gone.py": _entry("1"),
        "tests/test_new.py": None,
        "conftest.py": None,
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import unittest\nunittest.TestCase.assertEqual = f\n", "app.py changes its test runner"),
        (
            "class A:\n    def __eq__(self, other):\n        return True\n",
            "app.py has an object that equals everything",
        ),
        ("print('Ran 3 tests in 0.1s')\n", "app.py prints output like a test runner"),
        ("if 'pytest' in sys.modules:\n    os._exit(0)\n", "app.py can stop its test runner early"),
        ("import os\nos._exit(0)\n", "app.py can stop its test runner early"),
    ],
)
def test_code_that_could_fool_its_tests_is_doubted_when_the_branch_added_it(text: str, words: str) -> None:
    assert judge({"app.py": ""}, {"app.py": text}).doubts == (words,)
    assert judge({"app.py": text}, {"app.py": text + "# more\n"}).doubts == ()


def test_hostile_text_is_parsed_quickly() -> None:
    long = 128 * 1024
    for text in ("unittest." * (long // 9), "def __eq__(" * (long // 11), "def __eq__(a):" + "\n" * long, "x" * long):
        judge({"app.py": ""}, {"app.py": text, "tests/test_a.py": text})


def test_unreadably_large_file_is_contested_when_it_judges() -> None:
    names = ("tests/test_a.py", "pyproject.toml", "src/a.py")
    changes = [PathChange(name, None, TreeEntry(FILE, "x")) for name in names]
    found = judged(Wants("pytest", (), TESTS), changes, lambda _: None)
    assert set(found.contested) == {"tests/test_a.py", "pyproject.toml"}
