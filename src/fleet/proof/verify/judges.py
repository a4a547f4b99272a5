"""Changes of a branch to the files that judge it: its verify script, its tests, and files that their runner obeys.

Protected files are taken from the base. Contested files stay, and the command must also succeed with the tests of the
base alone. Otherwise its exit code 0 proves nothing beyond the agent's own claim. Pure, except for the `read` argument.
"""

from __future__ import annotations

import configparser
import json
import posixpath
import re
import sys
import tomllib
from typing import TYPE_CHECKING, NamedTuple

from fleet.core.globs import matches_any_glob, matches_glob
from fleet.proof.verify.commandline import NamedFiles, named_by

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
    (re.compile(_FORGES), "prints output like a test runner"),
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
        found.append("can stop its test runner early")
    return found


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fleet.git.diffs import PathChange, TreeEntry

    Read = Callable[[TreeEntry], bytes | None]

#: Files that decide which tests run and how, in any folder.
ALWAYS = (
    *(
        "conftest.py",
        "pytest.ini",
        ".pytest.ini",
        "pytest.toml",
        ".pytest.toml",
        "tox.ini",
        "noxfile.py",
        ".coveragerc",
    ),
    *("sitecustomize.py", "usercustomize.py", "*.pth", "*.egg-link", "*.dist-info/", "*.egg-info/", ".venv/", "venv/"),
    *("jest.config.*", "jest.setup.*", "vitest.config.*", "vitest.workspace.*", "vite.config.*", "karma.conf.*"),
    *(".mocharc.*", ".npmrc", ".yarnrc*", "node_modules/", ".cargo/", "phpunit.xml*", ".rspec", "spec_helper.rb"),
    *("babel.config.*", ".babelrc*", ".gitattributes", ".envrc", ".env", ".python-version", ".tool-versions"),
)
#: Files that setup commands run as code, such as `pip install .`: they could change what judges.
BUILDS = ("setup.py", "build.rs", "binding.gyp")
#: Modules that test runners import themselves. A module of the same name beside the tests replaces them.
_SHADOWS = frozenset(sys.stdlib_module_names) | {
    "pytest",
    "_pytest",
    "pluggy",
    "iniconfig",
    "nose",
    "nose2",
    "coverage",
}
#: Prefixes of settings tables that belong to a test runner.
_RUNNERS_TABLES = ("pytest", "coverage", "tox", "nox", "poe", "hatch", "pdm", "taskipy", "unittest", "nose")
_PACKAGE_KEYS = ("scripts", "jest", "mocha", "ava", "vitest", "nyc", "c8", "tap", "babel", "bin", "config")
#: Suffixes of code, and names of code that mark a test.
CODE = (".py", ".pyc", ".so", ".js", ".cjs", ".mjs", ".jsx", ".ts", ".tsx", ".rb", ".go", ".rs", ".java", ".php", ".sh")
_NAMED_AS_TEST = re.compile(r"test|spec", re.IGNORECASE)
#: How much of one file, and of all files together, is examined.
MOST_BYTES, MOST_TOGETHER = 256 * 1024, 8 * 1024 * 1024


class JudgedChanges(NamedTuple):
    """A branch's changes sorted by their handling. By path, the entry at the base."""

    restored: dict[str, TreeEntry | None]
    contested: dict[str, TreeEntry | None]
    tests: dict[str, TreeEntry | None]  # tests that the branch added or changed, at its tip
    added: dict[str, TreeEntry | None]  # those tests that the branch added
    doubts: tuple[str, ...]

    @property
    def at_the_base(self) -> dict[str, TreeEntry | None]:
        """Return all files that judge the branch, as they are at the base."""
        return self.restored | self.contested | self.added


class Wants(NamedTuple):
    """The verify command, protected globs and test globs that judge a branch."""

    command: str
    protect: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()  # commands that run first, in the same checkout


def judged(wants: Wants, changes: Iterable[PathChange], read: Read) -> JudgedChanges:
    """Sort the changes into those that judge and those that are judged."""
    look = _Look(wants, read)
    found = JudgedChanges({}, {}, {}, {}, ())
    doubts: list[str] = []
    for change in changes:
        if look.is_protected(change):
            found.restored[change.path] = change.before
        elif look.is_contested(change):
            found.contested[change.path] = change.before
            if look.is_test(change.path) and not matches_any_glob(change.path, ALWAYS) and change.after:
                found.tests[change.path] = change.after
        elif look.is_test(change.path):
            found.tests[change.path] = change.after
            found.added[change.path] = None
        else:
            doubts += look.doubts(change)
    return found._replace(doubts=tuple(doubts[:5]))


class _Look:
    def __init__(self, wants: Wants, read: Read) -> None:
        self._wants = wants
        self._named: NamedFiles = named_by("\n".join((*wants.setup, wants.command)))
        self._always = (*ALWAYS, *(BUILDS if wants.setup else ()))
        self._read = read

    def is_protected(self, change: PathChange) -> bool:
        """Return True if a file is taken from the base: it is protected, or is the script that judges."""
        if matches_any_glob(_normalize_path(change.path), map(_normalize_path, self._wants.protect)):
            return True
        return change.before is not None and change.path in self._named.scripts and not self.is_test(change.path)

    def is_contested(self, change: PathChange) -> bool:
        """Return True if a change affects how the work is judged."""
        path = change.path
        if path in self._named.scripts or matches_any_glob(path, (*self._always, *self._named.obeyed)):
            return True
        if self._shadows_module(change) or self._is_link(change):
            return True
        if (compare := _COMPARED.get(posixpath.basename(path))) is not None:
            before, after = self._text(change.before), self._text(change.after)
            return before is None or after is None or compare(before) != compare(after)
        if not self.is_test(path):
            return False
        return change.before is not None or self._affects_other_tests(change)

    def is_test(self, path: str) -> bool:
        """Return True if a path matches one of the globs of tests."""
        return matches_any_glob(path, self._wants.tests)

    def doubts(self, change: PathChange) -> list[str]:
        """Return how a change to other code could affect its tests."""
        if change.after is None or change.after.mode == "120000":
            return []
        before, after = self._text(change.before), self._text(change.after)
        return [f"{change.path} {words}" for words in tricks(before or "", after or "")]

    def _affects_other_tests(self, change: PathChange) -> bool:
        """Return True if an added test may affect other tests: by its name, its kind or its text."""
        name = posixpath.basename(change.path)
        mine = [glob for glob in self._wants.tests if matches_glob(change.path, glob)]
        if not any("test" in glob.lower() or "spec" in glob.lower() for glob in mine):
            return True  # settings of a runner
        if name.endswith(CODE) and not _NAMED_AS_TEST.search(name):
            return True  # beside the tests: others may import it in place of another module
        text = self._text(change.after)
        return text is None or may_cheat(text)

    def _is_link(self, change: PathChange) -> bool:
        """Return True if a link replaces a file or the reverse, among tests or where a file existed."""
        modes = {entry.mode for entry in (change.before, change.after) if entry}
        return bool(modes & {"120000", "160000"}) and (
            self.is_test(change.path) or self.is_test(f"{change.path}/x") or change.before is not None
        )

    def _shadows_module(self, change: PathChange) -> bool:
        """Return True if Python would import a new file in place of a module of its own or of the runner."""
        if change.before is not None:
            return False
        for folder in self._named.folders | {posixpath.dirname(change.path)} & self._test_folders(change.path):
            inside = change.path.removeprefix(f"{folder}/" if folder else "")
            if folder and inside == change.path:
                continue
            first, _, rest = inside.partition("/")
            module = first if rest else first.partition(".")[0]
            if (rest or first.endswith((".py", ".so", ".pyc"))) and module in _SHADOWS | self._named.modules:
                return not (rest and self.is_test(change.path))
        return False

    def _test_folders(self, path: str) -> set[str]:
        return {posixpath.dirname(path)} if self.is_test(path) else set()

    def _text(self, entry: TreeEntry | None) -> str | None:
        """Return the text of a file, "" if the entry is None. Return None if the file is too large."""
        data = self._read(entry) if entry else b""
        return None if data is None else data.decode("utf-8", "replace")


def _normalize_path(path: str) -> str:
    """Return a path in a form that is equal for names that the file system treats as equal."""
    return path.casefold() if sys.platform == "darwin" else path


def _read_toml_tables(text: str) -> object:
    """Return the test runner's parts of pyproject.toml or Cargo.toml."""
    try:
        told = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    tool = told.get("tool") if isinstance(told.get("tool"), dict) else {}
    tables = {name: value for name, value in tool.items() if name.startswith(_RUNNERS_TABLES)}  # type: ignore[union-attr]
    lib = told.get("lib") if isinstance(told.get("lib"), dict) else {}
    cargo = [told.get("test"), told.get("bench"), told.get("profile"), lib.get("test"), lib.get("harness")]  # type: ignore[union-attr]
    return tables, cargo, told.get("build-system")


def _read_ini_tables(text: str) -> object:
    parser = configparser.RawConfigParser(strict=False)
    try:
        parser.read_string(text)
    except configparser.Error:
        return text
    wanted = [name for name in parser.sections() if name.startswith(("tool:", "coverage", "nosetests", "unittest"))]
    return {name: parser.items(name) for name in wanted}


def _read_package_keys(text: str) -> object:
    try:
        told = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text
    return {key: told.get(key) for key in _PACKAGE_KEYS} if isinstance(told, dict) else text


_COMPARED: dict[str, Callable[[str], object]] = {
    "pyproject.toml": _read_toml_tables,
    "Cargo.toml": _read_toml_tables,
    "setup.cfg": _read_ini_tables,
    "package.json": _read_package_keys,
}
