"""Changed files, compared with the globs of a task."""

import pytest

from fleet.core.globs import MOST, strays

CASES = [
    # changed, allow, protect, the reported files
    (["a.py"], [], [], []),
    (["src/a.py", "src/deep/b.py"], ["src/"], [], []),
    (["src/a.py", "docs/b.md"], ["src/"], [], ["docs/b.md"]),
    (["src/a.py", "docs/b.md"], ["src/**", "docs/*.md"], [], []),
    (["docs/deep/b.md"], ["docs/*.md"], [], ["docs/deep/b.md"]),
    (["deploy/prod.yml"], [], ["deploy/"], ["deploy/prod.yml"]),
    (["src/deploy.py"], [], ["deploy/"], []),
    (["src/secrets.env"], ["src/"], ["*.env"], ["src/secrets.env"]),  # protect overrides allow
    ([".github/workflows/ci.yml"], [], [".github"], [".github/workflows/ci.yml"]),
    (["a b/ü.txt"], ["a b/*"], [], []),
    (["SRC/a.py"], ["src/"], [], ["SRC/a.py"]),
]


@pytest.mark.parametrize(("changed", "allow", "protect", "told"), CASES)
def test_each_file_out_of_bounds_is_named(
    changed: list[str], allow: list[str], protect: list[str], told: list[str]
) -> None:
    found = strays(changed, allow=allow, protect=protect)
    assert len(found) == len(told)
    assert all(f"it changed {path}," in said for path, said in zip(told, found, strict=True))


def test_report_names_the_rule() -> None:
    assert strays(["a/b", "c"], allow=["a/"], protect=["b"]) == (
        "it changed a/b, which is protected by 'b'",
        "it changed c, which is outside the files it may change",
    )


def test_many_files_are_counted_and_cut() -> None:
    found = strays([f"f{n}" for n in range(MOST + 500)], allow=["src/"], protect=[])
    assert len(found) == MOST + 1
    assert found[-1] == "and 500 more changes are out of scope"


def test_file_name_cannot_control_the_terminal_or_fill_a_page() -> None:
    (said,) = strays(["\x1b[2Jx\n\u202e" + "y" * 5000], allow=["src/"], protect=[])
    assert said.isprintable()
    assert len(said) < 250
