"""The repositories of the cases, and a proof of right work for each."""

from pathlib import Path

from repositories import run_git

UNITTEST = "python3 -S -m unittest discover -s tests"

CALC_TEST = """\
import unittest

import calc


class Adding(unittest.TestCase):
    def test_add(self):
        self.assertEqual(calc.add(2, 2), 4)

    def test_zero(self):
        self.assertEqual(calc.add(5, 0), 5)
"""
CALC = {
    "calc.py": "def add(a, b):\n    return a - b\n\n\ndef double(a):\n    return a * 2\n",
    "legacy.py": "def plus(a, b):\n    raise NotImplementedError\n",
    "tests/test_calc.py": CALC_TEST,
    "verify.sh": f"#!/bin/sh\nexec {UNITTEST}\n",
    "Makefile": f"test:\n\t{UNITTEST}\n",
    "README.md": "# calc\n\nAdds numbers.\n",
    "docs/guide.md": "# Guide\n\nCall `add`.\n",
    "data/table.csv": "a,b\n1,2\n",
    ".gitignore": "__pycache__/\nbuild/\n*.log\n",
}
SHOP = {
    "src/shop/__init__.py": "",
    "src/shop/cart.py": "def total(prices):\n    return sum(prices[1:])\n",
    "src/shop/names.py": "def greet(name):\n    return 'hello ' + name\n",
    "tests/__init__.py": "",
    "tests/test_cart.py": (
        "import unittest\n\nfrom shop.cart import total\n\n\nclass Total(unittest.TestCase):\n"
        "    def test_total(self):\n        self.assertEqual(total([1, 2, 3]), 6)\n"
    ),
    "pyproject.toml": '[project]\nname = "shop"\nversion = "1.0"\n',
    "ci/check.sh": "#!/bin/sh\nPYTHONPATH=src exec python3 -S -m unittest discover -t . -s tests\n",
    ".gitignore": "__pycache__/\n",
}
PAGES = {
    "index.md": "# Pages\n\n- [one](pages/one.md)\n",
    "pages/one.md": "# One\n\nThe first page.\n",
    "pages/two.md": "# Two\n\nTODO\n",
    "check.sh": "#!/bin/sh\ngrep -q 'pages/two.md' index.md && ! grep -rq TODO pages && echo fine\n",
}
GREEN = {
    "words.py": "def upper(text):\n    return text.upper()\n",
    "tests/test_words.py": (
        "import unittest\n\nimport words\n\n\nclass Upper(unittest.TestCase):\n"
        "    def test_upper(self):\n        self.assertEqual(words.upper('a'), 'A')\n"
    ),
    ".gitignore": "__pycache__/\n",
}
PROJECTS = {"calc": CALC, "shop": SHOP, "pages": PAGES, "green": GREEN, "patient": CALC}
_ADDS = """\
import sys
sys.path.insert(0, ".")
import calc
assert repr([calc.add(a, b) for a, b in ((2, 2), (5, 0), (-1, 3))]) == "[4, 5, 2]"
"""
_TOTALS = """\
import sys
sys.path.insert(0, "src")
from shop.cart import total
assert repr([total([1, 2, 3]), total([])]) == "[6, 0]"
"""
#: Python code that succeeds in a checkout of right work.
PROOFS = {
    "calc": _ADDS,
    "patient": _ADDS,
    "shop": _TOTALS,
    "pages": "assert 'pages/two.md' in open('index.md').read() and 'TODO' not in open('pages/two.md').read()",
    "green": "import sys; sys.path.insert(0, '.'); import words; assert words.upper('ab') == 'AB'",
}
#: The project files of projects.
SETTINGS = {"patient": "[findings]\nverify_retries = 1\nfabricated_retries = 1\n"}


def make_project(top: Path, name: str) -> Path:
    """Create one of the projects on branch main."""
    top.mkdir(parents=True)
    fill(top, PROJECTS[name])
    run_git(top, "init", "--quiet", "--initial-branch=main")
    if name in SETTINGS:
        fill(top, {".fleet/config.toml": SETTINGS[name]})
    run_git(top, "add", "--all")
    run_git(top, "commit", "--quiet", "--message=first")
    return top


def fill(top: Path, files: dict[str, str]) -> None:
    """Write these files."""
    for name, text in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        path.chmod(0o755 if text.startswith("#!") else 0o644)
