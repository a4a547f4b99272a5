"""What the repository promises about itself: its links, its lock, its table of what works, its reference pages."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
LOCK = (ROOT / "requirements.lock").read_text("utf-8")


def test_every_link_leads_somewhere() -> None:
    links = [(page, link) for page in PAGES for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8"))]
    dead = [(page, link) for page, link in links if "://" not in link and not (page.parent / link).exists()]
    assert not dead, "\n".join(f"{page.relative_to(ROOT)}: {link}" for page, link in dead)


def test_the_readme_names_tests_that_exist() -> None:
    rows = re.findall(r"^\|.*\|\s*`(tests/[^`]+)`.*\|$", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    assert rows
    for row in rows:
        path, _, name = row.partition("::")
        assert (ROOT / path).is_file(), row
        assert not name or f"def {name}(" in (ROOT / path).read_text("utf-8"), row


def test_the_lock_names_no_place() -> None:
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


def test_no_text_installs_the_foreign_package_of_that_name() -> None:
    """`fleet` on PyPI is another project; ours is the distribution fleet-agents."""
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


def test_the_reference_pages_are_current() -> None:
    argv = [sys.executable, str(ROOT / "tools" / "reference.py"), "--check"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
