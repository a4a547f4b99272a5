"""Names of branches: refused names, their folders, and the two spellings of a fanout."""

import subprocess

import pytest

from fleet.core.branch import aliases_of, check_branch, check_pattern, fanout_names, folder_of
from fleet.core.errors import BadInput

HOSTILE = [
    *("", "-b", "--help", "--upload-pack=touch x", "-", "HEAD", "FETCH_HEAD", "ORIG_HEAD", "@", "@{-1}", "x@{u}"),
    *("refs/heads/x", "refs/x", "a..b", "../up", "a/../b", "/absolute", "a//b", "a/", "a.", ".hidden", "a/.hidden"),
    *(
        "a.lock",
        "a.lock/b",
        "a b",
        "a\nb",
        "a\tb",
        "a\0b",
        "a\\b",
        "a~1",
        "a^",
        "a:b",
        "a?",
        "a*",
        "a[b",
        "fleet/$(id)",
    ),
    *("a;rm -rf x", "a`id`", "a|b", "a&b", "'a'", '"a"', "näh", "a\u202eb", "x" * 101, "a" * 40, "0" * 64, "a\n"),
    *("#1", "+x", "@x", "a@{", "x@{1}", "_HEAD", "a#{pid}", "a%b", "a,b", "a=b", "a!b"),
]
FINE = ["main", "fix/login-2", "x-A1", "a.b", "a_b", "0day", "v1.2.x", "a/b/c", "heads/x", "a" * 39, "x" * 100, "Head"]
FINE += ["fix/#432", "user@feat", "_x", "c++", "a/@", "a/+b", "_", "@".join("ab"), "feat/#1@you+me"]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_name_is_refused_with_the_rules(name: str) -> None:
    with pytest.raises(BadInput) as refused:
        check_branch(name)
    assert "letters, digits" in refused.value.hint
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize(("name", "said"), [("fix auth", "' '"), ("a:b", "':'"), ("#1", "'#'"), ("näh", "'\\xe4'")])
def test_refused_part_of_a_name_is_named(name: str, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        check_branch(name)
    assert said in str(refused.value).partition(": ")[2]


@pytest.mark.parametrize("name", FINE)
def test_accepted_name_is_accepted_by_git(name: str) -> None:
    check_branch(name)
    subprocess.run(["git", "check-ref-format", "--branch", name], check=True, capture_output=True)


def test_project_patterns_are_named_when_a_branch_matches_none() -> None:
    check_pattern("fix-1", ("feat-*", "fix-*"))
    check_pattern("anything", ())
    with pytest.raises(BadInput, match=r"branch_pattern: feat-\*, fix-\*"):
        check_pattern("Fix-1", ("feat-*", "fix-*"))


def test_fanout_is_numbered_from_a1() -> None:
    assert fanout_names("x", 3) == ["x-A1", "x-A2", "x-A3"]
    assert fanout_names("x", 0) == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        *(("x-A", ("x-A1",)), ("x-B", ("x-A2",)), ("a-b-Z", ("a-b-A26",)), ("x-AA", ("x-A27",)), ("x-CV", ("x-A100",))),
        *(("x-CW", ()), ("x-b", ()), ("x-A1", ()), ("B", ()), ("-B", ()), ("x-ABC", ()), ("x-", ())),
    ],
)
def test_letters_are_an_alternative_to_fanout_numbers(name: str, meant: tuple[str, ...]) -> None:
    assert aliases_of(name) == meant


def test_folders_of_two_branches_differ_even_without_case() -> None:
    names = [
        "a/b",
        "a-b",
        "a.b",
        "a_b",
        "A/b",
        "A-b",
        "a-B",
        "a/B",
        "ab",
        "AB",
        "a/b/c",
        "a-b/c",
        "a/b-c",
        "x-A1",
        "x-a1",
    ]
    names += [folder_of(name) for name in names if folder_of(name) != name]
    assert len({folder_of(name).lower() for name in names}) == len(names)


def test_folder_name_is_readable_and_one_path_component() -> None:
    assert folder_of("fix-login.2") == "fix-login.2"
    assert folder_of("feat/Login").startswith("feat-Login-")
    assert all("/" not in folder_of(name) and len(folder_of(name)) < 120 for name in FINE)
