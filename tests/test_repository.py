"""Promises of the repository about itself: its links, its lock, its table of tests, its reference pages."""

import itertools
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from fleet.actions.tasks.tasks import GuardMismatch
from fleet.cli import errors
from fleet.cli.task_control import TIMED_OUT
from fleet.core.errors import FleetError, UsageError
from fleet.workflows.written import STAGE_KEYS, WORKFLOW_KEYS

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LOCK = (ROOT / "requirements.lock").read_text("utf-8")


def test_every_link_leads_to_a_file() -> None:
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8"))]
    dead = [(page, link) for page, link in links if "://" not in link and not (page.parent / link).exists()]
    assert not dead, "\n".join(f"{page.relative_to(ROOT)}: {link}" for page, link in dead)


def test_every_link_to_a_heading_leads_to_one() -> None:
    dead = []
    for page in PAGES:
        for path, heading in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", page.read_text("utf-8")):
            target = page.parent / path if path else page
            if "://" not in path and target.suffix == ".md" and heading not in anchors(target):
                dead.append(f"{page.relative_to(ROOT)}: {path}#{heading}")
    assert not dead, "\n".join(dead)


def anchors(page: Path) -> set[str]:
    """Return the link names of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    pages = [page.relative_to(ROOT / "docs") for page in ROOT.glob("docs/**/*.md")]
    listed = [page for page in pages if page.parts[0] != "decisions" and page.name != "index.md"]
    assert not [str(page) for page in listed if f"({page})" not in index]


def test_documents_name_tests_that_exist() -> None:
    for page in ("contributing/verification.md", "reliability.md"):
        named = re.findall(r"`(tests/[^`]+)`", (ROOT / "docs" / page).read_text("utf-8"))
        assert named, page
        for test in named:
            path, _, name = test.partition("::")
            assert (ROOT / path).exists(), test
            assert not name or f"def {name}(" in (ROOT / path).read_text("utf-8"), test


def test_documents_use_options_that_exist() -> None:
    text = "\n".join((REFERENCE / name).read_text("utf-8") for name in ("commands.md", "bd.md"))
    parts = re.split(r"^## fleet (.+)$|^## (bd .+)$", text, flags=re.MULTILINE)[1:]
    known = {fleet or bd: body for fleet, bd, body in zip(parts[::3], parts[1::3], parts[2::3], strict=True)}
    of_each_verb = text.partition("\nflags of every command:")[2].partition("```")[0]
    wrong = []
    for page in (page for page in PAGES if page.name != "CHANGELOG.md"):
        for line in commands_in(page.read_text("utf-8")):
            words = line.split()
            fitting = [name for name in known if words[: len(name.split())] == name.split()]
            if fitting:
                help_text = known[max(fitting, key=len)] + (of_each_verb if words[0] == "bd" else "")
                options = re.findall(r"(?<=\s)--[a-z][\w-]*", line)
                wrong += [
                    f"{page.relative_to(ROOT)}: fleet {line}: {each}" for each in options if each not in help_text
                ]
    assert not wrong, "\n".join(wrong)


def commands_in(text: str) -> list[str]:
    """Return the commands of fleet in the code of a page, each without its first word and its comment."""
    blocks = re.findall(r"^```.*?$(.*?)^```", text, re.MULTILINE | re.DOTALL)
    typed = re.findall(r"^(?:\$ )?fleet ([^#\n]+)", "\n".join(blocks), re.MULTILINE)
    return typed + re.findall(r"`fleet ([^`]+)`", text)


def test_environment_page_lists_the_variables_in_the_code() -> None:
    listed = set(re.findall(r"`(FLEET_[A-Z_]+)`", (REFERENCE / "environment.md").read_text("utf-8")))
    code = "\n".join(path.read_text("utf-8") for path in ROOT.glob("src/fleet/**/*.py"))
    assert listed == set(re.findall(r"[\"'](FLEET_[A-Z_]+)[\"']", code))


def test_page_of_exit_codes_lists_those_in_the_code() -> None:
    table = (REFERENCE / "exit-codes.md").read_text("utf-8").partition("\n## ")[0]
    ours = {kind.exit_code for kind in (FleetError, UsageError, GuardMismatch)}
    ours |= {0, errors.INTERRUPTED, errors.BROKEN_PIPE, TIMED_OUT}
    assert set(map(int, re.findall(r"^\| (\d+) \|", table, re.MULTILINE))) == ours
    source = "\n".join(path.read_text("utf-8") for path in ROOT.glob("src/fleet/**/*.py"))
    assert set(map(int, re.findall(r"exit_code = (\d+)", source))) <= ours


def test_page_of_workflow_files_lists_the_keys_in_the_code() -> None:
    text = (REFERENCE / "workflow-files.md").read_text("utf-8")
    for heading, keys in (("Keys of a workflow", {*WORKFLOW_KEYS, "stages"}), ("Keys of a stage", {*STAGE_KEYS})):
        section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
        assert set(itertools.chain(*(re.findall(r"`(\w+)`", row) for row in rows))) == keys


def test_lock_names_no_url() -> None:
    assert "://" not in LOCK
    assert "--index" not in LOCK


def test_every_locked_package_has_a_hash() -> None:
    entries = re.split(r"\n(?=[A-Za-z0-9])", LOCK.strip())
    assert not [entry.splitlines()[0] for entry in entries if "--hash=sha256:" not in entry]


def test_every_dependency_is_bounded_and_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(word for extra in project["optional-dependencies"].values() for word in extra),
    ]
    assert not [word for word in wanted if not re.fullmatch(r"[\w.\[\],-]+>=[\w.]+,<[\w.]+", word)]
    locked = set(re.findall(r"^([a-z0-9-]+)(?:\[[^\]]*\])?==", LOCK, re.MULTILINE))
    assert {re.split(r"[\[>]", word)[0] for word in wanted} <= locked


def test_no_text_installs_the_foreign_package_named_fleet() -> None:
    """`fleet` on PyPI is another project; our distribution is fleet-agents."""
    verbs = r"\b(pip3?|pipx|uv( pip| tool)?) (install|upgrade|uninstall|add)|\b(uvx|pipx run|uv tool run)"
    name = r"""(\s+-\S+)*\s+['"]?fleet(?![\w/-])"""
    extras = r"(?<![\w-])fleet(\[(mcp|postgres|test|dev)\b|==)"
    foreign = re.compile(rf"({verbs}){name}|{extras}|metadata\S*\(.fleet.\)")
    assert all(
        map(foreign.search, ("pip install fleet", "pip install -U 'fleet[mcp]'", "uvx fleet", "fleet[postgres]"))
    )
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z"], capture_output=True, text=True, check=True)
    named = []
    for path in map(ROOT.joinpath, listed.stdout.split("\0")[:-1]):
        if path == Path(__file__) or "recordings" in path.parts or not path.is_file():
            continue
        lines = path.read_text("utf-8", "replace").splitlines()
        named += [f"{path.relative_to(ROOT)}: {line}" for line in lines if foreign.search(line)]
    assert not named, "\n".join(named)


def test_reference_pages_are_current() -> None:
    argv = [sys.executable, str(ROOT / "tools" / "reference.py"), "--check"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
