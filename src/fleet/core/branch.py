"""Branch names: which are allowed, the folder of each, and the names of a batch."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from fleet.core.errors import BadInput
from fleet.core.ids import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST = 100
#: Only characters that a shell, a glob or tmux does not interpret in the middle of a word.
REFUSED = re.compile(r"[^A-Za-z0-9._/#@+-]")
FIRST = re.compile(r"[A-Za-z0-9_]")
HINT = (
    "use up to 100 letters, digits, '.', '_', '-', '/', '#', '@' and '+', beginning with a letter, digit or '_': "
    "fix/login-2"
)
#: Names that git interprets otherwise: its own pointers (HEAD, ORIG_HEAD …) and commit ids.
POINTER = re.compile(r"[A-Z_]*HEAD")
COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
#: Folder names that could be another branch's name with its mark.
MARKED = re.compile(r".*-[0-9a-f]{8}", re.DOTALL)
PLAIN = re.compile(r"[a-z0-9._-]+")
#: Longest session name. Longer names fill tmux's status line.
LONGEST_SESSION = 60
#: Highest number in an alias, more than any fanout creates.
MOST = 100


def check_branch(name: str) -> None:
    """Raise BadInput unless this can be the name of a branch.

    The check covers git's own rules, and names that look like an option or a special ref.
    """
    reason = _find_name_fault(name)
    if reason:
        raise BadInput(f"{name[:120]!r} is not a valid branch name: {reason}", hint=HINT)


def check_pattern(name: str, patterns: Sequence[str]) -> None:
    """Raise BadInput if the project restricts branch names and this one does not fit."""
    if patterns and not any(fnmatchcase(name, pattern) for pattern in patterns):
        raise BadInput(
            f"branch {name!r} does not fit project.branch_pattern: {', '.join(patterns)}",
            hint="choose a name that fits, or change branch_pattern in the project's settings",
        )


def fanout_names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-A{number}" for number in range(1, count + 1)]


def aliases_of(name: str) -> tuple[str, ...]:
    """Return another spelling of a fanout's branch, to try if no branch has this name.

    For example, x-B is x-A2 and x-AA is x-A27.
    """
    prefix, dash, letters = name.rpartition("-")
    if not (prefix and dash and re.fullmatch("[A-Z]{1,2}", letters)):
        return ()
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return (f"{prefix}-A{number}",) if number <= MOST else ()


def folder_of(branch: str) -> str:
    """Return the name of a branch's folder. It is readable and unique, even on a case-insensitive file system.

    A name of lower-case letters, digits, '.', '_' and '-' is its own folder. Any other name gets a mark of eight digits
    from its hash: `a/b` is not `a-b`, and `A` is not `a`. So does a name that itself looks marked.
    """
    if PLAIN.fullmatch(branch) and not MARKED.fullmatch(branch):
        return branch
    return f"{re.sub('[^A-Za-z0-9._-]', '-', branch)}-{_hash_mark(branch.encode())}"


def _find_name_fault(name: str) -> str:
    if not name or len(name) > LONGEST:
        return "it is too long" if name else "it is empty"
    if found := REFUSED.search(name):
        return f"{found[0]!a} is not allowed in it"
    if not FIRST.match(name):
        return f"it cannot begin with {name[0]!r}"
    if any(word in name for word in ("..", "//", "@{")) or name.endswith(("/", ".")):
        return "'..', '//', '@{' and a last '/' or '.' are not allowed"
    if any(part.startswith(".") or part.endswith(".lock") for part in name.split("/")):
        return "no part of it may begin with '.' or end with '.lock'"
    if name.startswith("refs/") or POINTER.fullmatch(name) or COMMIT.fullmatch(name):
        return "git reserves that name"
    return ""


def session_name(prefix: str, branch: str, key: str = "") -> str:
    """Return the name of a branch's terminal. It is readable, valid for tmux, and unique for each branch and key."""
    whole = prefix + branch
    plain = re.sub(r"[^A-Za-z0-9_-]", "-", whole)
    if plain == whole and len(plain) <= LONGEST_SESSION and not key:
        return plain
    mark = _hash_mark(f"{key}\0{whole}".encode("utf-8", "surrogateescape"))
    return f"{plain[: LONGEST_SESSION - len(mark) - 1]}-{mark}"


def _hash_mark(data: bytes) -> str:
    return sha256(data)[:8]
