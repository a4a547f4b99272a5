"""Files in a verify command: judging scripts and configuration files of tools, but not the judged files."""

import pytest

from fleet.proof.verify.commandline import named_by

SCRIPTS = {
    "./verify.sh": {"verify.sh"},
    "sh -eu ./ci/all.sh && echo fine": {"ci/all.sh"},
    "bash -c './verify.sh --fast'": {"verify.sh"},
    "python tools/check.py --all": {"tools/check.py"},
    "python3 -X dev -W error test_all.py": {"test_all.py"},
    "FOO=1 timeout 60 ./scripts/run": {"scripts/run"},
    "cd sub && ./verify.sh": {"sub/verify.sh"},
    "env A=b exec ./bin/lint; ./tools/second.py": {"bin/lint", "tools/second.py"},
    "./verify.sh | tee log": {"verify.sh"},
    "uv run python check.py": {"check.py"},
    "if ./check; then exit 0; fi": {"check"},
    "node scripts/verify.js": {"scripts/verify.js"},
    ".venv/bin/pytest -q": {".venv/bin/pytest"},
    # Judged files, and files outside of the repository.
    "./hello | grep hi": set(),
    "./fizzbuzz.sh 15 | diff - expected.txt": set(),
    "python3 hello.py": set(),
    "python app.py --selftest": set(),
    "test -f verify.txt && grep -q x check.txt": set(),
    "cat ./check.sh": set(),
    "/usr/bin/check.sh": set(),
    "../outside/verify.sh": set(),
    "python3 -m unittest tests/test_a.py": set(),
    "python3 -c 'import check'": set(),
    "pytest": set(),
    "": set(),
    "'unclosed": set(),
}


@pytest.mark.parametrize("command", SCRIPTS)
def test_judging_scripts_differ_from_judged_files(command: str) -> None:
    assert named_by(command).scripts == SCRIPTS[command]


@pytest.mark.parametrize(
    ("command", "obeyed"),
    [
        ("make test", "Makefile"),
        ("cd a && make -j4 check", "GNUmakefile"),
        ("tox -e py311", "tox.ini"),
        ("./gradlew test", "gradle/"),
        ("sh -c 'mvn -q test'", "pom.xml"),
        ("bundle exec rake", "Rakefile"),
    ],
)
def test_configuration_files_of_tools_are_known(command: str, obeyed: str) -> None:
    assert obeyed in named_by(command).obeyed
    assert obeyed not in named_by("pytest").obeyed


def test_modules_and_their_search_paths_are_found() -> None:
    named = named_by("cd lib; python3 -m pytest.x; python3 tools/check.py")
    assert named.modules == {"pytest"}
    assert named.folders == {"", "lib", "lib/tools"}
