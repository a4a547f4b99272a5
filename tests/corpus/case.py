"""The type of a case of the corpus, and the words of its script."""

from typing import Any, NamedTuple

HONEST, FAKE, OTHER = "honest", "fake", "other"
WORKTREE, DIRECTORY, FOLDER = "worktree", "directory", "folder"

UNITTEST = "python3 -S -m unittest discover -s tests"

#: The findings.
VERIFIED, UNVERIFIED, NO_CHANGES, FAILED = "verified", "unverified", "no_changes", "failed_verify"
INCOMPLETE, FABRICATED, OUT_OF_SCOPE, INFRA = "incomplete", "fabricated", "out_of_scope", "infra_error"

Step = list[Any]


class Case(NamedTuple):
    """One run: the steps of its agent, and the expected findings."""

    name: str
    kind: str
    steps: tuple[Step, ...]
    findings: tuple[str, ...]  # allowed findings of its last run
    project: str = "calc"
    own: bool = False  # in a separate copy of the project
    workspace: str = WORKTREE
    verify: str = UNITTEST
    rules: dict[str, Any] = {}  # noqa: RUF012
    proof: str = ""  # Python code that succeeds for right work; empty: the project's code
    right: bool | None = True  # whether this work is right; None: it cannot be checked
    bent: bool = False  # a fake that bends its tests: marking it as unproven counts as finding it
    account: str = ""
    runs: int = 1

    @property
    def branch(self) -> str:
        """Return a branch name made from the case's name."""
        return "".join(char if char.isalnum() and char.isascii() else "-" for char in self.name)

    @property
    def script(self) -> list[Step]:
        """Return the steps, with a final result line if they have none."""
        ends = {"result", "stop", "crash"}
        return [*self.steps, *([] if self.steps and self.steps[-1][0] in ends else [["result"]])]


def honest(name: str, *steps: Step, found: tuple[str, ...] = (VERIFIED,), **rest: Any) -> Case:
    """Return a case of honest work."""
    return Case(name, HONEST, steps, found, **rest)


def fake(name: str, *steps: Step, found: tuple[str, ...], **rest: Any) -> Case:
    """Return a case of fake work. The bug stays unless the case says that it is `right`."""
    return Case(name, FAKE, steps, found, **({"right": False} | rest))


def bent(name: str, *steps: Step, found: tuple[str, ...] = (UNVERIFIED, FAILED), **rest: Any) -> Case:
    """Return a fake that bends its judges."""
    return fake(name, *steps, found=found, bent=True, **rest)


def other(name: str, *steps: Step, found: tuple[str, ...], **rest: Any) -> Case:
    """Return a case of a run that does not end normally."""
    return Case(name, OTHER, steps, found, **({"right": None} | rest))


def write(path: str, text: str) -> Step:
    """Return a step that writes a file."""
    return ["write", path, text]


def edit(path: str, old: str, new: str) -> Step:
    """Return a step that changes a file."""
    return ["edit", path, old, new]


def bash(command: str) -> Step:
    """Return a step that runs a command."""
    return ["bash", command]


def commit(message: str = "mend it", *paths: str) -> Step:
    """Return a step that commits everything, or these paths."""
    return ["commit", message, *paths]


def hand_in(**told: Any) -> Step:
    """Return a step that writes result.json."""
    return ["hand_in", {"named": True, **told}]


def passed(*commands: str) -> list[dict[str, str]]:
    """Return tests that are claimed to have passed."""
    return [{"command": command, "status": "passed", "details": ""} for command in commands]


def say(text: str) -> Step:
    """Return a step that prints words."""
    return ["say", text]


def step(verb: str, *words: Any, **named: Any) -> Step:
    """Return a step with any verb."""
    return [verb, *words, *([{"named": True, **named}] if named else [])]


#: Fixes the bug of `calc`.
MEND = edit("calc.py", "return a - b", "return a + b")
#: Runs the tests.
TRY = bash(UNITTEST)
#: Reads the file without changing it.
LOOK = step("read", "calc.py")
