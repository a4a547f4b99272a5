"""The included workflows as `fleet workflow new` writes them: each runs to its end and does what it promises."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mcp_client import stop, workshop
from program import Program, Result
from repositories import make_repository, run_git
from stub_clis import heard, play, with_stub_clis

TASK = "Mend the roof"
#: An agent told to change nothing changes nothing; every other adds a file.
USUAL = """
case $heard in
*"Change nothing."*) status=completed_no_changes; ls > "$FLEET_TASK_DIR/seen" ;;
*) echo "by $name" > "made-$FLEET_TASK_ID.txt" ;;
esac
"""
CONTENT = USUAL + "next=\n"
PLANS = (
    USUAL + """case $heard in *"Split this task into"*) next='"lay it", "nail it", "seal it"' ;; *) next= ;; esac\n"""
)
#: The last agent merges the branches before it.
JOINS = """
case $heard in
*"Merge the other branches"*)
    branches=$(git for-each-ref --format='%(refname)' 'refs/heads/codex/split-and-conquer-part*/*')
    git -c user.name=a -c user.email=a@example.invalid merge --quiet --no-edit $branches >&2 ;;
esac
"""
#: A test that the first round of the code fails and the second passes.
DRIVEN = """
next=
case $heard in
*"Write the tests for this task"*) echo 'test "$(cat roof)" = tight' > roof.test ;;
*"Make the tests on this branch pass"*) if [ -e roof ]; then echo tight > roof; else echo leaks > roof; fi ;;
*) status=completed_no_changes ;;
esac
"""
MAKEFILE = 'test:\n\t@for each in *.test; do [ ! -e "$$each" ] || sh "$$each" || exit 1; done\n'


class Shop(NamedTuple):
    """A home that finds stubs of the CLIs, and a repository."""

    fleet: Program
    repo: Path

    def run(self, name: str, repo: Path) -> Result:
        """Write a template and run it unchanged."""
        written = self.fleet.user / f"{name}.toml"
        if not written.exists():
            self.fleet.ok("workflow", "new", name, "--out", str(written))
        return self.fleet("workflow", "run", str(written), "-p", TASK, "--repo", str(repo), "--wait", "--json")

    def ran(self, name: str, part: str) -> dict[str, Any]:
        """Run a template that must succeed. Return its stages by name."""
        play(self.fleet, part)
        done = self.run(name, self.repo)
        assert done.code == 0, done
        flow = json.loads(done.out)
        assert flow["status"] == "succeeded"
        return by_name(flow)

    def heard(self, stage: dict[str, Any]) -> str:
        return heard(self.fleet, str(stage["task"]))

    def has(self, branch: str, *makers: dict[str, Any]) -> bool:
        """Return True if a branch has exactly the files of these stages."""
        files = run_git(self.repo, "ls-tree", "--name-only", branch).split()
        return {file for file in files if file.startswith("made-")} == {f"made-{each['task']}.txt" for each in makers}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    fleet, repo = workshop(tmp_path_factory.mktemp("templates"))
    with_stub_clis(fleet)
    yield Shop(fleet, repo)
    stop(fleet)


def by_name(flow: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each for each in flow["stages"]}


def states(stages: dict[str, Any]) -> dict[str, str]:
    return {name: each["state"] for name, each in stages.items()}


def test_write_review_refine_runs_all_three_stages(shop: Shop) -> None:
    stages = shop.ran("write-review-refine", USUAL)
    assert states(stages) == {"implement": "done", "review": "done", "refine": "done"}
    assert [each["coder"] for each in stages.values()] == ["codex", "claude", "codex"]
    assert f"made-{stages['implement']['task']}.txt" in shop.heard(stages["review"])
    assert "as claude says" in shop.heard(stages["refine"])
    assert shop.has(stages["refine"]["branch"], stages["implement"], stages["refine"])


def test_refine_is_skipped_when_the_reviewer_is_content(shop: Shop) -> None:
    stages = shop.ran("write-review-refine", CONTENT)
    assert states(stages) == {"implement": "done", "review": "done", "refine": "skipped"}


def test_parts_run_in_parallel_and_are_reviewed_together(shop: Shop) -> None:
    stages = shop.ran("parallel-review", CONTENT)
    *parts, review = stages.values()
    assert len(parts) == 3 and set(states(stages).values()) == {"done"}
    for part, own in zip(parts, ("the code", "the tests", "the documentation"), strict=True):
        assert shop.heard(part).endswith(f"Your part, and only yours: {own}")
        assert part["branch"] in shop.heard(review)
        assert shop.has(part["branch"], part)


def test_two_agents_compete_and_a_judge_compares_both(shop: Shop) -> None:
    stages = shop.ran("competition-judge", CONTENT)
    one, other, judge = stages.values()
    assert shop.heard(one) == shop.heard(other) == TASK
    assert (one["coder"], other["coder"]) == ("codex", "claude")
    assert one["branch"] in shop.heard(judge) and other["branch"] in shop.heard(judge)
    assert "codex wrote it" in shop.heard(judge) and "claude wrote it" in shop.heard(judge)


def test_task_is_split_and_its_parts_are_merged(shop: Shop) -> None:
    stages = shop.ran("split-and-conquer", PLANS + JOINS)
    _plan, *parts, integrate = (each for each in stages.values() if each["state"] == "done")
    assert len(parts) == 3, "as many as the plan has"
    assert [state for state in states(stages).values() if state != "done"] == ["skipped"] * 5
    for part, own in zip(parts, ("lay it", "nail it", "seal it"), strict=True):
        plan, item = shop.heard(part).split("Do this part of it, and only this:")
        assert "lay it" in plan and "seal it" in plan
        assert [word for word in ("lay it", "nail it", "seal it") if word in item] == [own]
        assert part["branch"] in shop.heard(integrate)
    assert shop.has(integrate["branch"], *parts, integrate)


def test_tests_come_first_and_fail_until_the_code_exists(shop: Shop, tmp_path: Path) -> None:
    repo = with_its_tests(tmp_path / "driven")
    play(shop.fleet, DRIVEN)
    done = shop.run("test-driven", repo)
    assert done.code == 0, done
    stages = by_name(json.loads(done.out))
    assert states(stages) == {
        **{"write-test": "done", "implement": "failed", "implement#2": "done", "implement#3": "skipped"},
        "check": "done",
    }
    findings = {name: finding(shop, each) for name, each in stages.items() if name != "implement#3"}
    assert findings["write-test"] == "verified", "fleet has seen the new test fail"
    assert (findings["implement"], findings["implement#2"]) == ("failed_verify", "verified")
    assert run_git(repo, "show", f"{stages['check']['branch']}:roof") == "tight"
    assert "roof.test" in run_git(repo, "ls-tree", "--name-only", stages["check"]["branch"])


def test_workflow_fails_when_the_new_test_passes_without_the_code(shop: Shop, tmp_path: Path) -> None:
    repo = with_its_tests(tmp_path / "lenient")
    play(shop.fleet, DRIVEN.replace('" = tight', '" != tight'))
    done = shop.run("test-driven", repo)
    assert done.code == 1
    flow = json.loads(done.out)
    assert flow["status"] == "failed" and flow["reason"].startswith(
        "stage write-test failed: its work fails verification"
    )
    assert "! make test" in flow["reason"]
    assert set(states(by_name(flow)).values()) == {"failed"}


def with_its_tests(path: Path) -> Path:
    """Return a repository with a test command and without tests, and with no retries within a stage."""
    repo = make_repository(path)
    (repo / "Makefile").write_text(MAKEFILE)
    (repo / ".fleet").mkdir()
    (repo / ".fleet" / "config.toml").write_text("[findings]\nverify_retries = 0\n")
    run_git(repo, "add", "--all")
    run_git(repo, "commit", "--quiet", "--message=tests")
    return repo


def finding(shop: Shop, stage: dict[str, Any]) -> str:
    (task,) = json.loads(shop.fleet.ok("bd", "show", str(stage["task"]), "--json"))
    return str(task["metadata"]["fleet.finding"])
