"""`fleet pr`: the branch is pushed to a real repository, and a fake gh receives the request."""

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from program import Result
from projects import orders, use_shell_coder
from repositories import commit, run_git
from supervised import wait_for
from terminals import Terminals
from terminals import home as at_home

__all__ = ["at_home"]

#: Answers as gh does, and records each call: arguments, standard input and working directory.
GH = """#!{python} -IS
import json, os, sys
folder = {folder!r}
said = sys.stdin.read()
with open(folder + "/calls.jsonl", "a") as file:
    file.write(json.dumps({{"words": sys.argv[1:], "said": said, "cwd": os.getcwd()}}) + "\\n")
known = folder + "/requests.json"
requests = json.load(open(known)) if os.path.exists(known) else []
verb = sys.argv[2]
if os.path.exists(folder + "/fails-" + verb):
    sys.exit("gh: not logged in to the forge")
if verb == "list":
    print(json.dumps(requests))
elif verb == "create":
    head = sys.argv[sys.argv.index("--head") + 1]
    made = {{"number": 7, "url": "https://forge.example/o/r/pull/7", "headRefName": head, "isCrossRepository": False}}
    json.dump([made], open(known, "w"))
    print("Creating pull request", file=sys.stderr)
    print(made["url"])
"""


class Forge:
    """A bare repository to push to, and the fake gh."""

    def __init__(self, home: Terminals) -> None:
        self.home, self.fleet = home, home.fleet
        self.bare = home.fleet.user / "bare.git"
        run_git(home.fleet.user, "init", "--quiet", "--bare", "--initial-branch=main", str(self.bare))
        run_git(home.repo, "remote", "add", "origin", str(self.bare))
        run_git(home.repo, "push", "--quiet", "origin", "main")
        self.folder = home.fleet.user / "gh"
        self.folder.mkdir()
        program = self.folder / "gh"
        program.write_text(GH.format(python=sys.executable, folder=str(self.folder)))
        program.chmod(0o755)
        self.path = f"{self.folder}:{home.fleet.env['PATH']}"

    def ask(self, *words: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.fleet.ok("pr", *words, "--json", PATH=self.path))
        return told

    def fails(self, *words: str) -> Result:
        result = self.fleet("pr", *words, PATH=self.path)
        assert result.code != 0 and result.out == "", result
        return result

    def calls(self, verb: str = "") -> list[dict[str, Any]]:
        """Return the recorded calls of the fake gh."""
        path = self.folder / "calls.jsonl"
        lines = map(json.loads, path.read_text().splitlines() if path.exists() else [])
        return [call for call in lines if not verb or call["words"][1] == verb]

    def tip(self, branch: str = "work") -> str:
        return run_git(self.bare, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}", check=False)


@pytest.fixture
def forge(at_home: Terminals) -> Forge:
    use_shell_coder(at_home)
    return Forge(at_home)


def worked(home: Terminals, *steps: str, title: str = "") -> str:
    """Finish a task whose agent ran these steps on branch `work`. Return its id."""
    home.told("create", "work", "--headless", "--prompt", title + "\n" + orders(*steps))
    (task,) = home.rows_of_branch("work")
    home.wait_status(str(task["id"]), "closed")
    return str(task["id"])


def words_of(call: dict[str, Any]) -> dict[str, str]:
    words = call["words"]
    return {word: words[at + 1] for at, word in enumerate(words[:-1]) if word.startswith("--")}


def test_pr_pushes_and_opens_a_request_and_comments_later_results(forge: Forge) -> None:
    home = forge.home
    hooked = home.fleet.user / "hooked"
    hook = home.repo / ".git" / "hooks" / "pre-push"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {hooked}\nexit 1\n")
    hook.chmod(0o755)
    task = worked(home, "echo changed >> file1.txt", title="Please fix #12 for @somebody")
    base = run_git(home.repo, "rev-parse", "main")
    before = home.task(task)

    tried = forge.fleet.ok("pr", "work", "--dry-run", PATH=forge.path)
    assert "would push" in tried and "unverified" in tried and not forge.calls() and not forge.tip()

    opened = forge.ask("work", "--base", "main")
    tip = run_git(home.repo, "rev-parse", "work")
    assert (opened["did"], opened["url"]) == ("opened", "https://forge.example/o/r/pull/7")
    assert opened["commit"] == forge.tip() == tip and opened["finding"] == "unverified"
    (create,) = forge.calls("create")
    said = words_of(create)
    assert (said["--head"], said["--base"], said["--body-file"]) == ("work", "main", "-")
    assert "--draft" not in create["words"] and create["cwd"] == str(home.repo)
    assert "fix #\u200b12 for @\u200bsomebody" in said["--title"]
    assert "**unverified**" in create["said"] and f"`{tip[:12]}`" in create["said"]
    assert not hooked.exists(), "no hook is run"
    assert run_git(forge.bare, "rev-parse", "main") == base

    again = forge.ask(task)
    assert again["did"] == "unchanged" and not forge.calls("comment")

    home.fleet.ok("retry", task)
    wait_for(lambda: len(home.runs(task)) == 2 and home.task(task)["status"] == "closed", "another", home.describe)
    later = forge.ask("work")
    assert later["did"] == "commented" and forge.tip() == run_git(home.repo, "rev-parse", "work") != tip
    (comment,) = forge.calls("comment")
    assert comment["words"][2] == "7" and "2 runs" in comment["said"]
    assert forge.ask("work")["did"] == "unchanged" and len(forge.calls("comment")) == 1
    assert home.task(task)["metadata"] == before["metadata"], "an agent could write there"


def test_pr_pushes_and_prints_the_command_when_gh_is_missing(forge: Forge) -> None:
    task = worked(forge.home, "echo changed > file1.txt", title='It\'s a "quoted" title; rm -rf $HOME')
    told = forge.fleet.ok("pr", "work", "--draft", "--base", "main")
    assert forge.tip() == run_git(forge.home.repo, "rev-parse", "work")
    first, command = told.splitlines()
    assert "gh is not installed" in first
    words = shlex.split(command)
    assert words[:3] == ["gh", "pr", "create"] and "--draft" in words
    text = Path(words[words.index("--body-file") + 1])
    assert "**unverified**" in text.read_text() and text.is_relative_to(forge.fleet.home / "tasks" / task)
    assert text.stat().st_mode & 0o777 == 0o600


def test_pr_refuses_branches_that_cannot_be_pushed_and_names_the_remedy(forge: Forge) -> None:
    home = forge.home
    go = home.fleet.user / "go"
    token = home.fleet.user / "token"
    steps = (f"printenv FLEET_RUN_TOKEN > {token}", f"until test -e {go}; do sleep 0.05; done")
    home.told("create", "work", "--headless", "--prompt", orders(*steps))
    (task,) = home.rows_of_branch("work")
    key = str(task["id"])
    wait_for(lambda: home.runs(key) and token.exists() and token.read_text(), "its start", home.describe)
    refused = home.fleet("pr", "work", PATH=forge.path, FLEET_RUN_TOKEN=token.read_text().strip())
    assert refused.code and "an agent may not open pull requests" in refused.err
    assert f"{key} is still working on work" in forge.fails("work").err
    go.touch()
    home.wait_status(key, "closed", "blocked")
    assert "branch work has no new commit" in forge.fails("work").err
    commit(Path(home.worktrees().pop()), "file1.txt", "by hand\n")
    assert "has no remote 'elsewhere'" in forge.fails("work", "--remote", "elsewhere").err
    assert "is not a valid branch name" in forge.fails("work", "--base=--force").err

    sent = home.fleet.user / "sent"
    run_git(home.repo, "config", "remote.origin.receivepack", f"touch {sent}; git-receive-pack")
    changed = forge.fails("work")
    assert "remote.origin.receivepack was added" in changed.err and "fleet trust" in changed.err
    assert not sent.exists() and not forge.tip()
    run_git(home.repo, "config", "--unset", "remote.origin.receivepack")

    (forge.folder / "fails-list").touch()
    failed = forge.fails("work")
    assert "work was pushed to origin, but gh pr list failed: gh: not logged in" in failed.err
    assert forge.tip() == run_git(home.repo, "rev-parse", "work")

    run_git(
        forge.bare, "update-ref", "refs/heads/work", run_git(forge.bare, "commit-tree", "main^{tree}", "-m", "other")
    )
    other = forge.tip()
    rejected = forge.fails("work")
    assert "origin has commits on it that are not here" in rejected.err and "--force-with-lease" in rejected.err
    assert forge.tip() == other, "nothing is overwritten"


def test_request_of_the_same_name_from_a_fork_is_left_alone(forge: Forge) -> None:
    worked(forge.home, "echo changed > file1.txt")
    stranger = {
        "number": 3,
        "url": "https://forge.example/o/r/pull/3",
        "headRefName": "work",
        "isCrossRepository": True,
    }
    (forge.folder / "requests.json").write_text(json.dumps([stranger]))
    opened = forge.ask("work", "--draft")
    assert opened["did"] == "opened" and "--draft" in forge.calls("create")[0]["words"] and not forge.calls("comment")
