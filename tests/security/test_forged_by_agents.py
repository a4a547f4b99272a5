"""Receipts that an agent forges through a task that it creates: with its own programs or its own verify command."""

import json
import shlex
from pathlib import Path

from projects import orders, use_shell_coder, write_project
from repositories import IDENTITY, make_repository
from supervised import wait_for
from terminals import Terminals
from terminals import home as at_home

__all__ = ["at_home"]

#: By title: the text that the agent writes, and the verify command that its maker chose.
MADE = {
    "programs": ("bad", ""),
    "command": ("bad", "true"),
    "breaks-out": ("bad", "true; } || true; exit 0 #"),
    "harder": ("good", "echo too hard; false"),
    "honest": ("good", "grep -q oo work.txt"),
    "unjudged": ("bad", "true"),
}


def test_task_of_an_agent_is_judged_by_the_projects_command_and_the_supervisors_programs(
    at_home: Terminals, tmp_path: Path
) -> None:
    home, evil, other = at_home, tmp_path / "evil", make_repository(tmp_path / "other")
    home.fleet.env |= IDENTITY
    use_shell_coder(home)
    home.set("findings.verify_retries=0", "limits.continue_limit=0", "limits.retry_limit=1")
    write_project(home, '[verify]\ncommand = "grep -q good work.txt"\n')
    home.fleet.ok("trust")
    evil.mkdir()
    (evil / "grep").write_text("#!/bin/sh\nexit 0\n")
    (evil / "grep").chmod(0o755)
    steps = []
    for title, (text, verify) in MADE.items():
        does = tmp_path / f"{title}.md"
        does.write_text(orders(f"echo {text} > work.txt", "git add work.txt", "git commit -qm work"))
        words = ["bd", "create", title, "--workspace", "worktree", "--body-file", str(does)]
        words += ["--cwd", str(other if title == "unjudged" else home.repo)]
        words += ["--metadata", json.dumps({"fleet.verify": verify})] if verify else []
        steps.append(f"PATH={evil}:$PATH {shlex.join(words)}")
    home.fleet.ok("run", "start")
    home.fleet.ok("bd", "create", "maker", "-d", orders(*steps), "--cwd", str(home.repo))

    def made() -> dict[str, dict[str, object]]:
        return {row["title"]: row for row in home.rows("select * from tasks") if row["title"] in MADE}

    wait_for(lambda: len(made()) == len(MADE), "all to be made", home.describe)
    found = made()
    home.wait_all([str(row["id"]) for row in found.values()], "closed", "blocked")
    shown = {title: home.fleet.ok("receipt", str(row["id"])) for title, row in found.items()}
    findings = {title: row["finding"] for title, row in made().items()}
    failed = dict.fromkeys(("programs", "command", "breaks-out", "harder"), "failed_verify")
    assert findings == failed | {"honest": "verified", "unjudged": "unverified"}, shown
    assert "`grep -q oo work.txt`, chosen by the agent that created the task, also passed" in shown["honest"]
    assert "`echo too hard; false` ended with exit code 1" in shown["harder"]
    assert f"an agent of {found['unjudged']['made_by']} chose the verify command" in shown["unjudged"]
