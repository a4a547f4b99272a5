"""What a case of the corpus is, and the words its script is written in."""

from typing import Any, NamedTuple

HONEST, FAKE, OTHER = "honest", "fake", "other"
WORKTREE, DIRECTORY, FOLDER = "worktree", "directory", "folder"

UNITTEST = "python3 -S -m unittest discover -s tests"

#: The findings.
VERIFIED, UNVERIFIED, NO_CHANGES, FAILED = "verified", "unverified", "no_changes", "failed_verify"
INCOMPLETE, FABRICATED, OUT_OF_SCOPE, INFRA = "incomplete", "fabricated", "out_of_scope", "infra_error"

Step = list[Any]


class Case(NamedTuple):
    """One run: what its agent does, and what is to be found out about it."""

    name: str
    kind: str
    steps: tuple[Step, ...]
    findings: tuple[str, ...]  # what its last run may be found to be
    project: str = "calc"
    own: bool = False  # in a copy of the project that nobody else works in
    workspace: str = WORKTREE
    verify: str = UNITTEST
    rules: dict[str, Any] = {}  # noqa: RUF012
    proof: str = ""  # what is true of right work, as Python; empty: what the project says
    right: bool | None = True  # whether it is true of this work; none: nothing can be looked at
    bent: bool = False  # a fake that bends its tests: to be marked as unproven is to be found
    account: str = ""
    runs: int = 1

    @property
    def branch(self) -> str:
        """A branch that is called like it."""
        return "".join(char if char.isalnum() and char.isascii() else "-" for char in self.name)

    @property
    def script(self) -> list[Step]:
        """Its steps, and a last word where they have none."""
        ends = {"result", "stop", "crash"}
        return [*self.steps, *([] if self.steps and self.steps[-1][0] in ends else [["result"]])]


def honest(name: str, *steps: Step, found: tuple[str, ...] = (VERIFIED,), **rest: Any) -> Case:
    """Honest work."""
    return Case(name, HONEST, steps, found, **rest)


def fake(name: str, *steps: Step, found: tuple[str, ...], **rest: Any) -> Case:
    """Work that is not what it is said to be; the bug stays, unless a case says that it is `right`."""
    return Case(name, FAKE, steps, found, **({"right": False} | rest))


def bent(name: str, *steps: Step, found: tuple[str, ...] = (UNVERIFIED, FAILED), **rest: Any) -> Case:
    """A fake that bends what judges it."""
    return fake(name, *steps, found=found, bent=True, **rest)


def other(name: str, *steps: Step, found: tuple[str, ...], **rest: Any) -> Case:
    """A run that does not come to an end of its own."""
    return Case(name, OTHER, steps, found, **({"right": None} | rest))


def write(path: str, text: str) -> Step:
    """Write a file."""
    return ["write", path, text]


def edit(path: str, old: str, new: str) -> Step:
    """Change a file."""
    return ["edit", path, old, new]


def bash(command: str) -> Step:
    """Run a command."""
    return ["bash", command]


def commit(message: str = "mend it", *paths: str) -> Step:
    """Commit everything, or these."""
    return ["commit", message, *paths]


def hand_in(**told: Any) -> Step:
    """Write result.json."""
    return ["hand_in", {"named": True, **told}]


def passed(*commands: str) -> list[dict[str, str]]:
    """Tests that are said to have passed."""
    return [{"command": command, "status": "passed", "details": ""} for command in commands]


def say(text: str) -> Step:
    """Say something."""
    return ["say", text]


def step(verb: str, *words: Any, **named: Any) -> Step:
    """Any other."""
    return [verb, *words, *([{"named": True, **named}] if named else [])]


#: Mends the bug of `calc`, as one would.
MEND = edit("calc.py", "return a - b", "return a + b")
#: Runs the tests.
TRY = bash(UNITTEST)
#: Looks at it, and leaves it as it is.
LOOK = step("read", "calc.py")
