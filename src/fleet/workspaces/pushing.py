"""Pushing a branch as the user would, with the user's settings, keys and helpers, but without hooks.

Git obeys the repository's settings here, because they define the remotes. So call it only for a repository whose
settings have not changed since they were trusted.
"""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

from fleet.core.errors import BadInput, FleetError
from fleet.core.redaction import Redactor
from fleet.workspaces.git import PATIENCE_SECONDS, SAFE, git_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.workspaces.repository import Repository

#: Variables that would make git work on something other than requested.
ELSEWHERE = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"),
    *("GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_CEILING_DIRECTORIES"),
)
REMOTE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}")
USUAL = "origin"
MOST_SAID = 20


def choose_remote(repository: Repository, name: str = "") -> str:
    """Return the remote of this name, or by default `origin` or the only one. Raises BadInput."""
    known = git_text("remote", cwd=repository.common, env={"GIT_DIR": repository.common}).splitlines()
    if not known:
        raise BadInput(f"{repository.top} has no remote", hint="`git remote add origin URL` names one.")
    chosen = name or (USUAL if USUAL in known or len(known) > 1 else known[0])
    if chosen not in known or not REMOTE.fullmatch(chosen):
        raise BadInput(
            f"{repository.top} has no remote {chosen!r}", hint=f"name one of {', '.join(known[:10])} with --remote."
        )
    return chosen


def push(repository: Repository, remote: str, commit: str, branch: str) -> list[str]:
    """Push a commit to a branch of a remote, without overwriting commits there. Return the remote's messages.

    Raises FleetError.
    """
    words = ("push", "--porcelain", "--no-verify", "--no-follow-tags", "--recurse-submodules=no", "--", remote)
    argv = ["git", *SAFE, "-c", f"remote.{remote}.mirror=false", *words, f"{commit}:refs/heads/{branch}"]
    env = users_environment() | {"GIT_DIR": repository.common, "LC_MESSAGES": "C"}
    try:
        done = subprocess.run(
            argv, cwd=repository.common, env=env, capture_output=True, timeout=PATIENCE_SECONDS, check=False
        )
    except FileNotFoundError as error:
        raise FleetError("git is not there", hint="install git.") from error
    except subprocess.TimeoutExpired as error:
        raise FleetError(f"pushing {branch} to {remote} did not end in {PATIENCE_SECONDS:g} s") from error
    said = Redactor().text(done.stderr.decode(errors="replace"))
    if done.returncode:
        raise _not_pushed(remote, branch, done.stdout.decode(errors="replace"), said)
    lines = (line.removeprefix("remote:").strip() for line in said.splitlines() if line.startswith("remote:"))
    return [line for line in lines if line][:MOST_SAID]


def users_environment() -> dict[str, str]:
    """Return the caller's environment without variables that redirect git."""
    env: Mapping[str, str] = os.environ
    return {name: value for name, value in env.items() if name not in ELSEWHERE}


def _not_pushed(remote: str, branch: str, told: str, said: str) -> FleetError:
    refused = next((line for line in told.splitlines() if line.startswith("!")), "")
    if "[rejected]" in refused:
        return FleetError(
            f"{branch} was not pushed: {remote} has commits on it that are not here",
            hint=f"look at them (`git fetch {remote}`); `git push --force-with-lease {remote} {branch}` replaces them.",
        )
    complaints = [line for line in said.splitlines() if line.strip() and not line.startswith("remote:")]
    why = refused.rpartition("\t")[2] or next((line for line in complaints if "fatal:" in line or "error:" in line), "")
    why = why or (complaints[-1] if complaints else "no reason given")
    return FleetError(
        f"{branch} was not pushed to {remote}: {why.strip().removeprefix('fatal: ').removeprefix('error: ')}",
        hint=f"`git push {remote} {branch}` shows more.",
    )
