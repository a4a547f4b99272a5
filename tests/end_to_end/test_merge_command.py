"""`fleet merge`: the work of a batch is merged after verification, and every other branch is named with its reason."""

import json
import math
import os
import shutil
import subprocess
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fleet.actions.merge.records import turn
from fleet.core.filter import Filter, Lane
from fleet.core.task import Caller
from fleet.core.workspace import Workspace
from fleet.git.repository import find_repository
from fleet.git.view import View
from fleet.git.work_done import landed_in, moved_by_fleet
from merges import VERIFY, Merges, branch_with, fingerprint, left_out, merged, status
from program import Program
from repositories import commit, run_git
from terminals import Screen


@pytest.fixture
def home(fleet: Program) -> Merges:
    return Merges(fleet)


def test_batch_with_broken_and_conflicting_branches_merges_the_good_ones(home: Merges) -> None:
    """Ten branches: two broken, two in conflict. Six are merged automatically, four are named with reasons."""
    files: dict[str, dict[str, str | None]] = {f"good-{n}": {f"good-{n}.txt": "x\n"} for n in range(5)}
    files |= {"first": {"file1.txt": "the first\n"}}
    files |= {"bad-1": {"broken-1": "x\n"}, "bad-2": {"broken-2": "x\n"}}
    files |= {"late-1": {"file1.txt": "late\n", "late.txt": "x\n"}, "late-2": {"file1.txt": None}}
    order = ["good-0", "bad-1", "good-1", "first", "late-1", "good-2", "bad-2", "good-3", "late-2", "good-4"]
    ids = {name: home.work(name, files[name], batch="night") for name in order}
    before = home.tip()

    result = home.fleet("merge", "night", "--json")
    assert result.code == 1, "not all of it could be merged"
    told = json.loads(result.out)
    good = [name for name in order if name not in ("bad-1", "bad-2", "late-1", "late-2")]
    assert merged(told) == [ids[name] for name in good]
    assert (told["target"], told["before"], told["moved"], told["waiting"]) == ("main", before, True, None)
    why = left_out(told)
    assert set(why) == {ids[name] for name in ("bad-1", "bad-2", "late-1", "late-2")}
    rows = {row["branch"]: row for row in told["left_out"]}
    assert "exit code 1" in rows["bad-1"]["why"] and "broken-1" in rows["bad-1"]["tail"]
    assert "broken-2" in rows["bad-2"]["tail"] and "broken-1" not in rows["bad-2"]["tail"]
    assert rows["late-1"]["files"] == rows["late-2"]["files"] == ["file1.txt"]
    assert told["verifies"] <= 2 + 2 * (math.log2(8) + 1)

    # One commit each, on one line of history, with title, task and receipt; the target is green, its checkout up to
    # date.
    assert home.tip() == told["commit"] and run_git(home.repo, "rev-list", "--count", f"{before}..main") == "6"
    assert {f"good-{n}.txt" for n in range(5)} <= home.files() and "broken-1" not in home.files()
    assert (home.repo / "good-4.txt").read_text() == "x\n" and (home.repo / "file1.txt").read_text() == "the first\n"
    home.assert_sound()
    message = run_git(home.repo, "log", "-1", "--format=%B%n%an <%ae>", f"{before}^0..main", "--", "file1.txt")
    with home.open() as fleet:
        receipt = fleet.store.receipts.of_task(ids["first"])[-1].hash
    assert message.startswith("do first\n") and "An Agent <agent@example.invalid>" in message
    assert f"Fleet-Task: {ids['first']}\nFleet-Receipt: {receipt}" in message
    note = home.task(ids["first"]).metadata["merged"]
    assert note["tip"] == run_git(home.repo, "rev-parse", "first") and note["into"] == "main"
    assert note["commit"] in run_git(home.repo, "rev-list", "main").split()
    with home.open() as fleet:
        assert note["commit"] in fleet.store.comments.find([ids["first"]])[0].text

    # A second merge merges nothing twice.
    again = home.merge("night")
    assert merged(again) == [] and again["commit"] == told["commit"] == home.tip()
    assert all("already merged" in left_out(again)[ids[name]] for name in good)


def test_merge_prints_each_branch_and_its_reason(home: Merges) -> None:
    home.work("good")
    home.work("bad", {"broken": "x\n"})
    result = home.fleet("merge", "good", "bad")
    assert result.code == 1
    assert "merged: good (fleet-m001) as " in result.out and "main moved from " in result.out
    assert "left out: bad (fleet-m002): " in result.err and "  | broken" in result.err
    assert "verifying" in result.err, "long work says what it does"


AGAINST: list[tuple[dict[str, Any], str]] = [
    ({"finding": "failed_verify", "reason": "it fails"}, "its work is failed_verify: it fails"),
    ({"finding": "fabricated"}, "its work is fabricated"),
    ({"finding": "out_of_scope"}, "its work is out_of_scope"),
    ({"finding": "no_changes"}, "its work is no_changes"),
    ({"finding": "incomplete"}, "its work is incomplete"),
    ({"finding": "infra_error"}, "its work is infra_error"),
    ({"status": "open", "closed_at": None}, "it is open"),
    ({"status": "blocked", "closed_at": None, "reason": "stopped by hand"}, "it is blocked: stopped by hand"),
    ({"status": "in_progress", "closed_at": None}, "it is in_progress"),
    ({"finding": "unverified"}, "its work is not verified"),
    ({"finding": ""}, "its work is not verified"),
    ({"receipt": False}, "it has no receipt"),
    ({"tip": "0" * 40}, "is gone"),
    ({"moves_on": True}, "its branch moved since it was verified"),
]


def test_only_verified_work_is_merged_by_default(home: Merges) -> None:
    reasons = {}
    for number, (said, reason) in enumerate(AGAINST):
        name, moves_on = f"branch-{number}", "moves_on" in said
        reasons[home.work(name, **{key: value for key, value in said.items() if key != "moves_on"})] = reason
        if moves_on:
            branch_with(home.repo, name, {"more.txt": "after the receipt\n"}, base=name)
    reasons[home.work("branch-live", status="open", closed_at=None)] = "its agent is working"
    with home.open() as fleet:
        branch = Filter(branch="branch-live")
        assert fleet.store.claims.acquire("host", [Lane(room=1, where=branch)], room=1, ttl=timedelta(hours=1))
    before = fingerprint(home.repo)
    told = home.merge("branch-*", "--yes", *(f"branch-{number}" for number in range(len(AGAINST))))
    assert merged(told) == [] and told["verifies"] == 0 and fingerprint(home.repo) == before
    why = left_out(told)
    assert why.keys() == reasons.keys()
    assert [reasons[key] for key in reasons if reasons[key] not in why[key]] == [], why


def test_unverified_work_needs_its_own_name_and_a_flag(home: Merges) -> None:
    one = home.work("one", finding="unverified", batch="b")
    two = home.work("two", finding="unverified", batch="b")
    assert "--unverified" in left_out(home.merge("b", "--unverified"))[one], "a batch is no name of its own"
    assert "--unverified" in left_out(home.merge("t*", "--unverified"))[two]
    assert "--unverified" in left_out(home.merge("one"))[one]
    told = home.merge("one", "--unverified")
    assert merged(told) == [one] and told["verifies"] == 1, "the result is verified all the same"
    home.work("bad", {"broken": "x\n"}, finding="unverified")
    assert merged(home.merge("bad", "--unverified")) == []


def test_uncommitted_changes_prevent_a_merge(home: Merges) -> None:
    other = home.work("two")
    tree = home.fleet.home / "worktrees" / "two"
    run_git(home.repo, "worktree", "add", "--quiet", str(tree), "two")
    lease(home, other, "two", tree)
    (tree / "left.txt").write_text("not committed\n")
    assert "uncommitted changes" in left_out(home.merge("two"))[other]
    (tree / "left.txt").unlink()
    assert merged(home.merge("two")) == [other]


def lease(home: Merges, key: str, branch: str, path: Path) -> None:
    """Record that a task has this worktree."""
    with home.open() as fleet:
        common = str(home.repo / ".git")
        space = Workspace(
            task_id=key,
            repo=str(home.repo),
            common=common,
            path=str(path),
            branch=branch,
            base_commit=run_git(home.repo, "rev-parse", "main"),
            made_at=fleet.store.now(),
            ready_at=fleet.store.now(),
        )
        fleet.store.workspaces.lease(space)


def test_dry_run_shows_merges_and_conflicts_and_writes_no_ref(home: Merges) -> None:
    one = home.work("one", {"file1.txt": "one\n"})
    two = home.work("two", {"file1.txt": "two\n"})
    before, refs = fingerprint(home.repo), run_git(home.repo, "for-each-ref")
    told = home.merge("one", "two", "--dry-run")
    assert merged(told) == [one] and told["dry_run"] and not told["moved"]
    assert told["left_out"][0] | {"why": ""} == {
        "task": two,
        "branch": "two",
        "why": "",
        "files": ["file1.txt"],
        "tail": "",
    }
    assert fingerprint(home.repo) == before and run_git(home.repo, "for-each-ref") == refs
    assert "merged" not in home.task(one).metadata


@pytest.mark.parametrize("strategy", ["squash", "merge", "rebase"])
def test_branch_that_continues_after_its_merge_is_merged_again(home: Merges, strategy: str) -> None:
    key = home.work("one", {"file1.txt": "first\n"})
    assert merged(home.merge("one", "--strategy", strategy)) == [key]
    branch_with(home.repo, "one", {"file1.txt": "second\n"}, base="one")
    told = home.merge("one", "--strategy", strategy, "--unverified")
    assert merged(told) == [key] and told["left_out"] == []
    assert (home.repo / "file1.txt").read_text() == "second\n"
    home.assert_sound()


def test_target_is_the_flag_the_setting_or_the_current_branch(home: Merges) -> None:
    run_git(home.repo, "branch", "release")
    run_git(home.repo, "branch", "other")
    assert merged(home.merge(home.work("one"), "--into", "release")) == ["fleet-m001"]
    assert "one.txt" in home.files("release") and "one.txt" not in home.files("main")
    home.settle(verify=VERIFY, into="other")
    assert home.merge(home.work("two"))["target"] == "other"
    assert "'none': no such branch" in home.refused("one", "--into", "none").err
    assert "not a valid branch name" in home.refused("one", "--into", "-x").err
    home.settle(verify=VERIFY)
    run_git(home.repo, "checkout", "--quiet", "--detach")
    assert "is not on a branch" in home.refused("one").err
    assert home.refused("nothing-like-it").code == 1 and home.refused().code == 2


def test_dirty_checkout_is_left_alone_and_the_result_waits(home: Merges) -> None:
    (home.repo / "file2.txt").write_text("mine\n")
    before, said, old = fingerprint(home.repo), status(home.repo), home.tip()
    one = home.work("one")
    told = home.merge("one")
    assert merged(told) == [one] and not told["moved"] and told["waiting"] == "refs/fleet/merged/main"
    assert "file2.txt is changed" in told["why_not"]
    assert home.tip() == old and home.tip(told["waiting"]) == told["commit"]
    after = {name: seen for name, seen in fingerprint(home.repo).items() if "/one" not in name}
    assert after == before and status(home.repo) == said

    # The next merge builds on the waiting result, and the printed command takes all of it.
    two = home.work("two")
    out = home.fleet("merge", "two")
    command = "git merge --ff-only refs/fleet/merged/main"
    assert command in out.out
    assert home.task(two).metadata["merged"]["commit"] == home.tip("refs/fleet/merged/main")
    run_git(home.repo, *command.split()[1:])
    assert {"one.txt", "two.txt"} <= home.files("main") and (home.repo / "file2.txt").read_text() == "mine\n"
    # In a clean checkout the branch moves again, and nothing waits.
    run_git(home.repo, "checkout", "--quiet", "--", "file2.txt")
    assert home.merge(home.work("three"))["moved"] and home.tip("refs/fleet/merged/main") == ""
    home.assert_sound()


def test_merges_run_one_at_a_time_and_the_waiting_one_says_so(home: Merges) -> None:
    one = home.work("one")
    words = [*home.fleet.argv, "merge", "one", "--json"]
    with ExitStack() as ours:
        ours.enter_context(turn(home.home, find_repository(str(home.repo)), "main", wait=0, tell=print))
        refused = home.refused("one", "--wait", "0")
        assert f"another merge into main is running (pid {os.getpid()})" in refused.err
        with subprocess.Popen(
            words, cwd=home.repo, env=home.fleet.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as waiting:
            assert waiting.stderr is not None
            assert f"waiting for another merge into main (pid {os.getpid()})" in waiting.stderr.readline()
            assert waiting.poll() is None
            ours.close()
            out, _ = waiting.communicate(timeout=60)
    assert merged(json.loads(out)) == [one]


def test_target_that_moves_meanwhile_is_not_overwritten(home: Merges) -> None:
    """A git that commits to the target just before fleet moves it: the merge goes on top of that commit."""
    run_git(home.repo, "branch", "release")
    one, real = home.work("one"), shutil.which("git")
    wrapper, marker = home.fleet.user / "bin" / "git", home.fleet.user / "once"
    wrapper.parent.mkdir()
    wrapper.write_text(
        "#!/bin/sh\n"
        f'case "$*" in *update-ref*) if ! test -e {marker}; then touch {marker}\n'
        f"new=$(GIT_DIR={home.repo}/.git {real} -c user.name=p -c user.email=p@x commit-tree -p release -m mine"
        " release^{tree})\n"
        f"GIT_DIR={home.repo}/.git {real} update-ref refs/heads/release $new; fi;; esac\n"
        f'exec {real} "$@"\n'
    )
    wrapper.chmod(0o755)
    result = home.fleet("merge", one, "--into", "release", "--json", PATH=f"{wrapper.parent}:{home.fleet.env['PATH']}")
    assert marker.exists() and "release moved in the meantime" in result.err
    assert merged(json.loads(result.out)) == [one]
    assert run_git(home.repo, "log", "--format=%s", "release") == "do one\nmine\nfirst"
    home.assert_sound()


def test_conflict_becomes_a_task_for_an_agent_with_both_receipts(home: Merges) -> None:
    home.fleet.ok("init", "--home", "--permissions", "user")
    home.fleet.ok("config", "set", "coder=demo")
    first = home.work("one", {"file1.txt": "one\n"})
    late = home.work("two", {"file1.txt": "two\n"})
    tip = run_git(home.repo, "rev-parse", "two")
    told = home.merge("one", "two", "--conflicts", "agent")
    home.fleet("run", "stop", "--stop-agents")
    assert merged(told) == [first]
    with home.open() as fleet:
        (made,) = [task for task in fleet.store.tasks.find(Filter(), sort="id") if task.origin == "merge"]
    assert made.id in left_out(told)[late] and "merge/two" in left_out(told)[late]
    assert (made.branch, made.base, made.metadata["resolves"]) == ("merge/two", tip, {"task": late, "tip": tip})
    assert "git merge --no-edit main" in made.description and "file1.txt" in made.description
    assert f"task {late}" in made.description and f"task {first}" in made.description
    assert "shown for one" in made.description and "shown for two" in made.description
    assert made.id in left_out(home.merge("two", "--conflicts", "agent"))[late], "it is asked for once"
    home.fleet("run", "stop", "--stop-agents")
    assert run_git(home.repo, "rev-parse", "two") == tip, "the branch stays"


def test_branch_that_resolves_a_conflict_merges_both(home: Merges) -> None:
    late = home.work("late", {"file1.txt": "late\n"})
    tip = run_git(home.repo, "rev-parse", "late")
    commit(home.repo, "file1.txt", "theirs\n")
    assert merged(home.merge("late")) == []
    both = branch_with(home.repo, "merge/late", {"file1.txt": "theirs and late\n"}, base="main")
    joined = run_git(home.repo, "commit-tree", "-p", tip, "-p", "main", "-m", "both", f"{both}^{{tree}}")
    run_git(home.repo, "update-ref", "refs/heads/merge/late", joined)
    key = home.work("merge/late", tip=joined, origin="merge", metadata={"resolves": {"task": late, "tip": tip}})
    told = home.merge("merge/late")
    assert merged(told) == [key] and (home.repo / "file1.txt").read_text() == "theirs and late\n"
    assert home.task(late).metadata["merged"]["commit"] == told["commit"]
    assert "already merged" in left_out(home.merge("late"))[late]


def test_branches_are_verified_in_groups_as_large_as_the_setting(home: Merges) -> None:
    home.settle(verify=VERIFY, at_once=2, strategy="merge")
    for number in range(5):
        home.work(f"n-{number}", batch="b")
    told = home.merge("b")
    assert len(merged(told)) == 5 and told["verifies"] == 3 and told["moved"]
    assert run_git(home.repo, "rev-list", "--count", "--merges", "main") == "5"
    home.assert_sound()


def test_merge_on_a_terminal_offers_to_verify_unverified_work_first(home: Merges) -> None:
    one, two = home.work("one", finding="unverified"), home.work("two", finding="unverified")
    for key, answer, said in ((one, b"n\n", "nothing was merged"), (two, b"\n", "main moved")):
        screen = Screen(home, "merge", key)  # type: ignore[arg-type]
        screen.wait_for("before it moves main")
        screen.wait_for("verify and merge? [Y/n]")
        screen.press(answer)
        screen.wait_for(said)
        screen.end()
    assert home.files() >= {"two.txt"} and "one.txt" not in home.files()
    screen = Screen(home, "merge", "o*")  # type: ignore[arg-type]
    screen.wait_for(f"merge {one}?")
    screen.press(b"n\n")
    assert screen.end() == 1 and b"nothing was merged" in screen.seen


def test_merge_asks_twice_about_work_that_a_verification_cannot_prove(home: Merges) -> None:
    home.work("bad", {"broken": "x\n"}, finding="unverified")
    screen = Screen(home, "merge", "bad", "--yes")  # type: ignore[arg-type]
    assert screen.end() == 1 and b"exit code 1" in screen.seen, "--yes verifies; the result fails"
    home.settle()
    home.work("one", finding="unverified")
    screen = Screen(home, "merge", "one", "--yes")  # type: ignore[arg-type]
    screen.wait_for("there is no verify command")
    screen.wait_for("merge anyway? [y/N]")
    screen.press(b"\n")
    assert screen.end() == 1 and b"nothing was merged" in screen.seen


def test_merge_is_refused_when_an_agent_calls(home: Merges) -> None:
    home.work("one")
    with home.open() as fleet:
        home.fleet.ok("bd", "create", "work")
        (claim,) = fleet.store.claims.acquire("host", [Lane(room=1)], room=1, ttl=timedelta(hours=1))
        token = fleet.store.tokens.issue(claim, Caller(task_id=claim.task.id, run_id="r", epoch=claim.epoch))
    assert "an agent may not merge" in home.refused("one", FLEET_RUN_TOKEN=token).err


def test_untrusted_verify_command_of_a_project_is_not_run(home: Merges) -> None:
    home.settle(verify="touch ../evil", trusted=False)
    home.work("one")
    refused = home.refused("one")
    assert "is not trusted" in refused.err and "fleet trust" in refused.err
    assert home.tip() == run_git(home.repo, "rev-parse", "HEAD")


def test_hooks_filters_and_drivers_of_the_repository_are_not_run(home: Merges) -> None:
    mark = home.fleet.user / "ran"
    program = home.fleet.user / "program"
    program.write_text(f"#!/bin/sh\necho x >> {mark}\ncat\n")
    program.chmod(0o755)
    for name in ("post-checkout", "post-merge", "reference-transaction", "pre-commit", "post-index-change"):
        hook = home.repo / ".git" / "hooks" / name
        hook.write_text(f"#!/bin/sh\necho x >> {mark}\n")
        hook.chmod(0o755)
    for key in ("filter.evil.smudge", "filter.evil.clean", "core.fsmonitor", "merge.evil.driver", "diff.evil.command"):
        run_git(home.repo, "config", key, str(program))
    commit(home.repo, ".gitattributes", "*.txt merge=evil diff=evil\n")
    mark.unlink(missing_ok=True)
    home.work("one", {"file1.txt": "one\n", ".gitattributes": "*.txt filter=evil\n"})
    run_git(home.repo, "commit", "--quiet", "--allow-empty", "--no-verify", "-mx")
    mark.unlink(missing_ok=True)
    told = home.merge("one")
    assert not mark.exists()
    assert told["waiting"] and "filter evil" in told["why_not"], "its files are only for the user's own git to write"


def test_squashed_branch_is_recognized_as_merged(home: Merges) -> None:
    old, key = home.tip(), home.work("one")
    home.merge("one")
    repository = find_repository(str(home.repo))
    view, tip = View(home.home, repository), run_git(home.repo, "rev-parse", "one")
    note = home.task(key).metadata["merged"]
    assert landed_in(view, "one", tip) == "" and landed_in(view, "one", tip, note) == "main"
    assert landed_in(view, "one", tip, note | {"tip": old}) == ""
    assert moved_by_fleet(home.home, repository, old, home.tip())
    commit(home.repo, "by-hand.txt", "x\n")
    assert not moved_by_fleet(home.home, repository, old, home.tip())
