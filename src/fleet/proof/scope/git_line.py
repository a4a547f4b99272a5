"""Effects of a git command outside of its worktree: on other checkouts, shared settings and other branches."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from fleet.proof.scope.bounds import DELETES, DOUBTFUL, MAKES, SURE, WRITES
from fleet.proof.scope.programs import Effect, arguments

if TYPE_CHECKING:
    from collections.abc import Collection

#: Options of git itself that take a value.
_VALUED = ("-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env")
#: Commands that change the checkout or its branch.
CHANGING = (
    *("add", "am", "apply", "bisect", "checkout", "checkout-index", "cherry-pick", "clean", "commit", "filter-branch"),
    *("filter-repo", "init", "merge", "mv", "pull", "read-tree", "rebase", "reset", "restore", "revert", "rm", "stash"),
    *("switch", "symbolic-ref", "update-index", "update-ref"),
)
#: First arguments with which such a command only shows something.
_SHOWING = {"stash": ("list", "show"), "bisect": ("log", "view"), "symbolic-ref": ()}
#: Settings with which git runs programs or uses other places.
_RUNNING = re.compile(
    r"core\.(hookspath|fsmonitor|sshcommand|pager|editor|askpass|gitproxy|attributesfile|worktree)|alias\..*"
    r"|include(if)?\..*|credential\..*|.*\.(program|helper|command|cmd|driver|textconv|clean|smudge|process|insteadof"
    r"|pushinsteadof|uploadpack|receivepack|external|tool)|diff\.external|uploadpack\..*",
    re.IGNORECASE,
)
_MAIN = ("main", "master", "trunk", "develop")


class GitCall(NamedTuple):
    """The parts of a git command."""

    command: str
    words: list[str]
    folders: list[str]  # the values of `-C` in order
    git_dir: str
    work_tree: str


class GitEffect(NamedTuple):
    """An effect of a git command in words, and how certain it is out of bounds."""

    sure: str
    words: str


def called(words: list[str], env: dict[str, str]) -> GitCall:
    """Return the parts of a git command. Variables of its environment count too."""
    folders, git_dir, work_tree = [], env.get("GIT_DIR", ""), env.get("GIT_WORK_TREE", "")
    rest = list(words)
    while rest and rest[0].startswith("-"):
        name, _, value = rest.pop(0).partition("=")
        if name in _VALUED and not value:
            value = rest.pop(0) if rest else ""
        if name == "-C":
            folders.append(value)
        git_dir = value if name == "--git-dir" else git_dir
        work_tree = value if name == "--work-tree" else work_tree
    return GitCall(rest[0] if rest else "", rest[1:], folders, git_dir, work_tree)


def changes_checkout(call: GitCall) -> bool:
    """Return True if a command changes its checkout or the branch checked out there."""
    if call.command not in CHANGING:
        return False
    showing = _SHOWING.get(call.command)
    if showing == ():
        return len(arguments(call.words).operands) > 1
    return not (showing and call.words[:1] and call.words[0] in showing) and "--dry-run" not in call.words


def effects(call: GitCall) -> list[Effect]:
    """Return the files that a command writes or deletes by name, including files outside of any checkout."""
    told = arguments(call.words, ("-b", "-B", "-o", "--output", "--output-directory", "-j", "--depth", "--branch"))
    operands = told.operands
    if call.command in ("clone", "init") and len(operands) > (call.command == "clone"):
        return [Effect(WRITES, operands[-1])]
    if call.command == "config" and (file := arguments(call.words, ("-f", "--file")).value("-f", "--file")):
        return [Effect(WRITES, file)] if len(operands) > 2 or told.has("--unset", "--unset-all", "--add") else []
    if call.command == "worktree" and operands:
        verb = {"add": MAKES, "remove": DELETES, "move": DELETES}.get(operands[0])
        return [Effect(verb, operands[1], whole=verb == DELETES)] if verb and len(operands) > 1 else []
    if call.command in ("archive", "format-patch", "bundle", "diff"):
        named = told.value("-o", "--output", "--output-directory")
        return [Effect(WRITES, named)] if named else []
    return []


def shared(call: GitCall, branch: str, others: Collection[str], *, own_repository: bool) -> list[GitEffect]:
    """Return the effects of a command on parts that all checkouts of a repository share, or on other places."""
    reader = _SHARED.get(call.command)
    return reader(call, branch, others, own_repository) if reader else []


def _list_config_effects(call: GitCall, branch: str, others: Collection[str], own: bool) -> list[GitEffect]:
    told = arguments(call.words, ("-f", "--file", "--type", "--default"))
    operands = [word for word in told.operands if word not in ("set", "unset", "get", "list")]
    reads = told.has("-l", "--list", "--get", "--get-all", "--get-regexp") or told.operands[:1] in (["get"], ["list"])
    unset = told.has("--unset", "--unset-all", "--remove-section", "--rename-section") or told.operands[:1] == ["unset"]
    if reads or not operands or (len(operands) < 2 and not unset) or told.value("-f", "--file") is not None:
        return []
    key = operands[0]
    if told.has("--global", "--system"):
        mild = key.lower() == "safe.directory"
        return [GitEffect(DOUBTFUL if mild else SURE, "changes the user's git settings")]
    if told.has("--worktree"):
        return []
    if _RUNNING.fullmatch(key):
        return [GitEffect(SURE, f"sets {key}, which decides what git runs in every checkout")]
    mild = own or not key.lower().startswith(("user.", "remote.", "core."))
    return [] if mild else [GitEffect(DOUBTFUL, f"sets {key} for every checkout")]


def _list_branch_effects(call: GitCall, branch: str, others: Collection[str], own: bool) -> list[GitEffect]:
    told = arguments(call.words, ("-u", "--set-upstream-to"))
    forced = told.has("-D", "-d", "--delete", "-f", "--force", "-M", "-m", "--move")
    named = told.operands if told.has("-D", "-d", "--delete", "-M", "-m", "--move") else told.operands[:1]
    return [GitEffect(SURE, f"changes the branch {name}") for name in named if forced and name in others]


def _list_update_ref_effects(call: GitCall, branch: str, others: Collection[str], own: bool) -> list[GitEffect]:
    names = [word.removeprefix("refs/heads/") for word in arguments(call.words, ("-m",)).operands[:1]]
    return [GitEffect(SURE, f"changes the branch {name}") for name in names if name in others]


def _list_switch_effects(call: GitCall, branch: str, others: Collection[str], own: bool) -> list[GitEffect]:
    named = arguments(call.words, ("-B", "-C", "-b", "-c")).value("-B", "-C")
    return [GitEffect(SURE, f"changes the branch {named}")] if named in others else []


def _list_push_effects(call: GitCall, branch: str, others: Collection[str], own: bool) -> list[GitEffect]:
    told = arguments(call.words, ("-o", "--push-option", "--repo", "--receive-pack", "--exec"))
    if told.has("-n", "--dry-run"):
        return []
    if told.has("--mirror", "--all", "--prune"):
        return [GitEffect(DOUBTFUL, "pushes more than its own branch")]
    forced = told.has("-f", "--force", "--force-with-lease")
    found = []
    for spec in told.operands[1:]:
        target = spec.lstrip("+").rpartition(":")[2].removeprefix("refs/heads/")
        if target == branch or not (target in _MAIN or target in others):
            continue
        worse = forced or spec.startswith(("+", ":")) or told.has("-d", "--delete")
        words = f"overwrites {target} elsewhere" if worse else f"pushes to {target}"
        found += [GitEffect(SURE if worse else DOUBTFUL, words)] if worse or not own else []
    return found


def _list_worktree_effects(call: GitCall, branch: str, others: Collection[str], own: bool) -> list[GitEffect]:
    """Return a removal of a branch's worktree. Git also accepts the last part of a worktree's path as its name."""
    verb, *names = [*arguments(call.words).operands, ""]
    return [GitEffect(SURE, f"removes the worktree {name}") for name in names if verb == "remove" and name in others]


def _list_discard_effects(call: GitCall, branch: str, others: Collection[str], own: bool) -> list[GitEffect]:
    words = " ".join([call.command, *call.words])
    told = re.match(r"(stash clear|reflog expire\b.*--all|gc\b.*--prune=(now|all))", words)
    return [GitEffect(DOUBTFUL, "deletes data that others may need")] if told and not own else []


def _list_remote_effects(call: GitCall, branch: str, others: Collection[str], own: bool) -> list[GitEffect]:
    mild = own or call.words[:1] not in (["set-url"], ["remove"], ["rm"], ["rename"])
    return [] if mild else [GitEffect(DOUBTFUL, "changes the repository's remotes")]


_SHARED = {
    "config": _list_config_effects,
    "branch": _list_branch_effects,
    "update-ref": _list_update_ref_effects,
    "checkout": _list_switch_effects,
    "switch": _list_switch_effects,
    "push": _list_push_effects,
    **dict.fromkeys(("stash", "reflog", "gc"), _list_discard_effects),
    "remote": _list_remote_effects,
    "worktree": _list_worktree_effects,
}
