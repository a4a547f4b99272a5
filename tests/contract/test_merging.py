"""Merging without a worktree: a branch on top of another, and the search for the failing branches of many."""

import math
import os
from pathlib import Path

import pytest

from fleet.git.commits import Person, commits_between, identity
from fleet.git.merge.stack import Proof, pile_up, without_bad
from fleet.git.merge.trial import MERGE, REBASE, SQUASH, BranchToMerge, Trials
from merges import branch_with, fingerprint
from repositories import commit, make_repository, run_git
from workplaces import Place

USER = Person(name="The User", email="user@example.invalid")
AGENT = Person(name="An Agent", email="agent@example.invalid", at="1700000000 +0200")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def change(place: Place, name: str, tip: str, **more: str) -> BranchToMerge:
    return BranchToMerge(name=name, tip=tip, message=f"do {name}\n", trailers=("Fleet-Task: t1",), author=AGENT, **more)


def put(place: Place, strategy: str, name: str, files: dict[str, str | None], onto: str = "main") -> str:
    """Return the commit that a new branch becomes on top of another."""
    tip = branch_with(place.top, name, files, base=place.base)
    onto = run_git(place.top, "rev-parse", onto)
    tried = Trials(place.view, strategy, USER).put(change(place, name, tip), onto)
    assert tried.commit, tried
    return tried.commit


def shown(place: Place, made: str, form: str) -> str:
    return run_git(place.top, "log", "-1", f"--format={form}", "--date=raw", made)


@pytest.mark.parametrize("strategy", [SQUASH, MERGE, REBASE])
def test_merged_branch_holds_the_work_of_both(place: Place, strategy: str) -> None:
    theirs = commit(place.top, "theirs.txt", "x\n")
    before = fingerprint(place.top)
    made = put(place, strategy, "one", {"one.txt": "1\n"})
    assert {"theirs.txt", "one.txt"} <= set(run_git(place.top, "ls-tree", "--name-only", made).splitlines())
    tip = run_git(place.top, "rev-parse", "one")
    parents = {SQUASH: theirs, REBASE: theirs, MERGE: f"{theirs} {tip}"}
    assert shown(place, made, "%P") == parents[strategy]
    assert shown(place, made, "%an|%ae|%ad") == "An Agent|agent@example.invalid|1700000000 +0200"
    assert shown(place, made, "%cn|%ce") == "The User|user@example.invalid"
    after = {name: seen for name, seen in fingerprint(place.top).items() if "/one" not in name}
    assert after == before, "no ref, no index, no file"
    run_git(place.top, "fsck", "--strict")


def test_rebased_commits_keep_their_messages_except_lines_reserved_for_fleet(place: Place) -> None:
    branch_with(place.top, "one", {"a.txt": "1\n"})
    run_git(place.top, "checkout", "--quiet", "one")
    run_git(place.top, "commit", "--quiet", "--allow-empty", "-m", "empty")
    (place.top / "b.txt").write_text("2\n")
    run_git(place.top, "add", "b.txt")
    run_git(place.top, "commit", "--quiet", "-m", "second\n\nwhy\n\nFleet-Task: another\nfleet-receipt: forged")
    run_git(place.top, "checkout", "--quiet", "main")
    onto = commit(place.top, "theirs.txt", "x\n")
    tip = run_git(place.top, "rev-parse", "one")
    made = Trials(place.view, REBASE, USER).put(change(place, "one", tip), onto).commit
    assert run_git(place.top, "log", "--format=%s", f"{onto}..{made}") == "second\nwork on one"
    assert shown(place, made, "%B").strip() == "second\n\nwhy\n\nFleet-Task: t1"
    assert shown(place, made, "%an") == "A Person"


@pytest.mark.parametrize("strategy", [SQUASH, MERGE, REBASE])
def test_conflicting_files_are_named(place: Place, strategy: str) -> None:
    odd = "sp ace ä.txt"
    commit(place.top, "file1.txt", "theirs\n")
    commit(place.top, odd, "theirs\n")
    run_git(place.top, "rm", "--quiet", "file2.txt")
    run_git(place.top, "commit", "--quiet", "-mgone")
    tip = branch_with(place.top, "one", {"file1.txt": "mine\n", "file2.txt": "mine\n", odd: "mine\n"}, base=place.base)
    onto = run_git(place.top, "rev-parse", "main")
    tried = Trials(place.view, strategy, USER).put(change(place, "one", tip), onto)
    assert tried.commit == "" and "in conflict" in tried.why
    assert set(tried.files) == {"file1.txt", "file2.txt", odd}


def test_rename_and_change_on_different_sides_do_not_conflict(tmp_path: Path) -> None:
    place = Place(tmp_path)
    commit(place.top, "long.txt", "".join(f"line {n}\n" for n in range(30)))
    base = run_git(place.top, "rev-parse", "main")
    run_git(place.top, "mv", "long.txt", "moved.txt")
    run_git(place.top, "commit", "--quiet", "-mmoved")
    text = "".join(f"line {n}\n" for n in range(30)).replace("line 7\n", "line seven\n")
    tip = branch_with(place.top, "one", {"long.txt": text}, base=base)
    made = Trials(place.view, SQUASH).put(change(place, "one", tip), run_git(place.top, "rev-parse", "main")).commit
    assert "line seven" in run_git(place.top, "show", f"{made}:moved.txt")


def test_merge_says_why_when_nothing_is_new_or_no_commit_is_shared(place: Place) -> None:
    trials = Trials(place.view, SQUASH)
    assert "already merged" in trials.put(change(place, "one", place.base), place.base).why
    tip = branch_with(place.top, "one", {"file1.txt": "same\n"})
    onto = commit(place.top, "file1.txt", "same\n")
    assert "no changes that the target lacks" in trials.put(change(place, "one", tip), onto).why
    other = make_repository(place.folder / "other")
    run_git(place.top, "fetch", "--quiet", str(other), "main:stranger")
    run_git(place.top, "commit", "--quiet", "--allow-empty", "--amend", "-mdiffers")
    strange = run_git(place.top, "commit-tree", "-mroot", "stranger^{tree}")
    assert "no commit in common" in trials.put(change(place, "x", strange), onto).why


@pytest.mark.parametrize("strategy", [SQUASH, REBASE])
def test_squashed_branch_that_continues_does_not_conflict_with_itself(place: Place, strategy: str) -> None:
    first = branch_with(place.top, "one", {"file1.txt": "first\n"})
    trials = Trials(place.view, strategy)
    landed = trials.put(change(place, "one", first), place.base).commit
    second = branch_with(place.top, "one", {"file1.txt": "second\n"}, base="one")
    if strategy == SQUASH:
        assert trials.put(change(place, "one", second), landed).files == ("file1.txt",), "git alone cannot know"
    made = trials.put(change(place, "one", second, merged=first), landed).commit
    assert run_git(place.top, "show", f"{made}:file1.txt") == "second"


def test_merge_uses_attributes_of_the_target_and_runs_no_program(place: Place) -> None:
    mark = place.folder / "ran"
    run_git(place.top, "config", "merge.evil.driver", f"touch {mark}")
    base = commit(place.top, ".gitattributes", "file1.txt merge=union\nfile2.txt merge=evil\n")
    onto = commit(place.top, "file1.txt", "theirs\n")
    tip = branch_with(place.top, "one", {"file1.txt": "mine\n", "file2.txt": "mine\n"}, base=base)
    made = Trials(place.view, SQUASH).put(change(place, "one", tip), onto).commit
    assert run_git(place.top, "show", f"{made}:file1.txt").splitlines() == ["theirs", "mine"]
    commit(place.top, "file2.txt", "theirs too\n")
    tried = Trials(place.view, SQUASH).put(change(place, "one", tip), run_git(place.top, "rev-parse", "main"))
    assert tried.files == ("file2.txt",) and not mark.exists()
    assert not list(Path(place.view.path).glob("attributes-*"))


def test_merge_ignores_replace_refs_of_an_agent(place: Place) -> None:
    tip = branch_with(place.top, "one", {"good.txt": "x\n"})
    evil = branch_with(place.top, "evil", {"evil.txt": "x\n"})
    run_git(place.top, "replace", tip, evil)
    onto = commit(place.top, "theirs.txt", "x\n")
    made = Trials(place.view, SQUASH).put(change(place, "one", tip), onto).commit
    names = place.view.text("ls-tree", "--name-only", made).splitlines()
    assert "good.txt" in names and "evil.txt" not in names


def test_hostile_author_names_and_dates_are_written_safely(place: Place) -> None:
    for name, email in (("", ""), ("<>", "<>"), ("a\nb", "x\0y"), (". , ;", "e"), ("x" * 5000, "y" * 5000)):
        person = Person(name=name, email=email, at="99999999999999999999 +9999")
        onto = commit(place.top, "theirs.txt", os.urandom(4).hex())
        tip = branch_with(place.top, "one", {"one.txt": os.urandom(4).hex()})
        made = Trials(place.view, SQUASH, person).put(change(place, "one", tip).replace(author=person), onto)
        assert made.commit
    run_git(place.top, "fsck", "--strict")


def test_commits_use_the_identity_that_git_knows(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(place.folder))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert identity(place.repository).name == "fleet"
    (place.folder / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@example.invalid\n")
    assert identity(place.repository) == Person(name="Ada", email="ada@example.invalid")
    run_git(place.top, "config", "user.email", "work@example.invalid")
    assert identity(place.repository).email == "work@example.invalid"


def test_commits_are_returned_oldest_first_with_or_without_merges(place: Place) -> None:
    branch_with(place.top, "one", {"a.txt": "1\n"})
    commit(place.top, "theirs.txt", "x\n")
    run_git(place.top, "merge", "--quiet", "--no-edit", "one")
    found = commits_between(place.view, place.base, run_git(place.top, "rev-parse", "main"))
    assert found[-1].subject == "Merge branch 'one'" and len(found) == 3
    found = commits_between(place.view, place.base, run_git(place.top, "rev-parse", "main"), merges=False)
    assert {each.subject for each in found} == {"work on one", "change theirs.txt"}


# Many branches at once


class Looks:
    """A verification that judges commits by the names of their files, and counts its calls."""

    def __init__(self, place: Place) -> None:
        self.place, self.count = place, 0

    def __call__(self, commit: str, inside: tuple[BranchToMerge, ...]) -> Proof:
        self.count += 1
        names = run_git(self.place.top, "ls-tree", "--name-only", commit).splitlines()
        bad = [name for name in names if name.startswith("bad")]
        # Each half passes alone, and both together fail.
        bad += ["both halves"] if {"left", "right"} <= set(names) else []
        return Proof(ok=not bad, words=f"found {bad}", tail="\n".join(names))


def many(place: Place, names: list[str]) -> list[BranchToMerge]:
    return [change(place, name, branch_with(place.top, name, {name: "x\n"}, base=place.base)) for name in names]


@pytest.mark.parametrize("bad", [(), (0,), (15,), (7,), (3, 12), (0, 1, 15)], ids=str)
def test_failing_branches_are_found_by_bisection_and_all_others_land(place: Place, bad: tuple[int, ...]) -> None:
    names = [f"bad-{n}" if n in bad else f"good-{n}" for n in range(16)]
    prove = Looks(place)
    pile = without_bad(Trials(place.view, SQUASH), place.base, many(place, names), prove)
    assert [layer.change.name for layer in pile.layers] == [name for name in names if name.startswith("good")]
    assert [each.change.name for each in pile.refused] == [f"bad-{n}" for n in bad]
    assert all(each.change.name in each.why for each in pile.refused), "each is refused for its own failure"
    assert prove(pile.top, ()).ok
    assert prove.count - 1 <= 1 + bool(bad) + len(bad) * (math.log2(16) + 1)


def test_few_checks_are_needed_when_every_branch_fails(place: Place) -> None:
    prove = Looks(place)
    pile = without_bad(Trials(place.view, SQUASH), place.base, many(place, [f"bad-{n}" for n in range(12)]), prove)
    assert pile.layers == () and len(pile.refused) == 12
    assert prove.count <= 2 + 3 * math.ceil(math.log2(12) + 1) + 9


def test_later_branch_is_left_out_when_two_fail_only_together(place: Place) -> None:
    names = ["a", "left", "b", "c", "right", "d"]
    pile = without_bad(Trials(place.view, SQUASH), place.base, many(place, names), Looks(place))
    assert [each.change.name for each in pile.refused] == ["right"]
    assert [layer.change.name for layer in pile.layers] == ["a", "left", "b", "c", "d"]


def test_branch_lands_when_it_conflicts_only_with_a_failing_one(place: Place) -> None:
    bad = change(place, "bad", branch_with(place.top, "bad", {"bad": "x\n", "file1.txt": "bad\n"}, base=place.base))
    good = change(place, "good", branch_with(place.top, "good", {"file1.txt": "good\n"}, base=place.base))
    first = pile_up(Trials(place.view, SQUASH), place.base, [bad, good])
    assert [each.files for each in first.refused] == [("file1.txt",)]
    pile = without_bad(Trials(place.view, SQUASH), place.base, [bad, good], Looks(place))
    assert [layer.change.name for layer in pile.layers] == ["good"]
    assert [(each.change.name, bool(each.files)) for each in pile.refused] == [("bad", False)]


def test_nothing_lands_when_the_target_itself_fails(place: Place) -> None:
    base = commit(place.top, "bad-before", "x\n")
    place.base = base
    prove = Looks(place)
    pile = without_bad(Trials(place.view, SQUASH), base, many(place, ["a", "b", "c"]), prove)
    assert pile.layers == () and pile.top == base and prove.count == 2
    assert all("the target itself fails" in each.why for each in pile.refused) and len(pile.refused) == 3
