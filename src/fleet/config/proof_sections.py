"""Settings tables about proof: verification, scope, findings and merging. Each with type, default, bounds and help."""

from typing import Annotated, Literal

from msgspec import Meta

from fleet.config.kinds import Line, Seconds, Section, Slots, Text, Times

#: Usual names of tests, in the languages of the known project types.
TESTS = (
    *("tests/", "test/", "spec/", "__tests__/", "conftest.py", "test_*.py", "*_test.py", "*_test.go", "*_spec.rb"),
    *("*_test.rb", "*.test.js", "*.test.jsx", "*.test.ts", "*.test.tsx", "*.spec.js", "*.spec.ts", "*.spec.tsx"),
)
#: Files that tell a test runner what to run.
RUNNERS = (
    *("pytest.ini", "tox.ini", "noxfile.py", ".rspec", "jest.config.*", "vitest.config.*", "karma.conf.*"),
    *(".mocharc.*", "phpunit.xml", "sitecustomize.py", "usercustomize.py"),
)


class Verify(Section, frozen=True):
    """Rules by which fleet verifies the work on a branch."""

    command: Annotated[
        Text | None,
        Meta(description="The command that tells, by ending with 0, that a branch is good; a task may name its own."),
    ] = None
    seconds: Annotated[Seconds, Meta(description="How long it may take.")] = 600
    protect: Annotated[
        tuple[Line, ...],
        Meta(description="Globs of files that are taken from the base when it is run, such as the script it names."),
    ] = ()
    fail_to_pass: Annotated[
        bool, Meta(description="It must fail at the base: else its end with 0 shows nothing new.")
    ] = False
    network: Annotated[
        bool, Meta(description="Whether the command may reach the network; without, it cannot where the system allows.")
    ] = False
    tests: Annotated[
        tuple[Line, ...],
        Meta(
            description="Globs of tests: those of the base that a branch changed do not count as proof by themselves."
        ),
    ] = TESTS
    runners: Annotated[
        tuple[Line, ...], Meta(description="Globs of files that tell a test runner what to run; they count as tests.")
    ] = RUNNERS


class Scope(Section, frozen=True):
    """Limits on what the work of a task may touch."""

    allow: Annotated[
        tuple[Line, ...], Meta(description="Globs of files that tasks may change; none: any. A task may name its own.")
    ] = ()
    protect: Annotated[tuple[Line, ...], Meta(description="Globs of files that tasks must not change.")] = ()
    live: Annotated[
        Literal["flag", "stop"],
        Meta(description="What is done when an agent's command writes or deletes outside of its workspace."),
    ] = "flag"


class Findings(Section, frozen=True):
    """Consequences of a receipt's findings. Honest work closes automatically."""

    verify_retries: Annotated[
        Times, Meta(description="How often work that fails its verify command goes back to its agent with the output.")
    ] = 2
    fabricated_retries: Annotated[
        Times,
        Meta(description="How often a task whose agent claimed what it did not do starts again, in a new session."),
    ] = 1
    unverified: Annotated[
        Literal["close", "person"],
        Meta(description="Work that nothing has proven: closed and marked so, or a person's."),
    ] = "close"
    no_changes: Annotated[
        Literal["close", "person"], Meta(description="A task that ends without a change, and does not say it may.")
    ] = "person"
    out_of_scope: Annotated[
        Literal["close", "person"], Meta(description="Work that touched what is not its to touch.")
    ] = "person"
    failed_verify: Annotated[
        Literal["close", "person"], Meta(description="Work that still fails its verify command after the last retry.")
    ] = "person"
    fabricated: Annotated[
        Literal["close", "person"], Meta(description="A task whose agent claimed what it did not do, the last time.")
    ] = "person"


class Merge(Section, frozen=True):
    """Rules for merging the work of tasks."""

    into: Annotated[Line | None, Meta(description="The branch to merge into; unset: the repository's main one.")] = None
    strategy: Annotated[
        Literal["squash", "merge", "rebase"],
        Meta(description="One commit for each task, a merge commit, or its own commits anew."),
    ] = "squash"
    conflicts: Annotated[
        Literal["agent", "person"],
        Meta(description="Who gets a branch that is in conflict: an agent as a new task, or you."),
    ] = "person"
    at_once: Annotated[Slots, Meta(description="How many branches are verified together at most.")] = 50
    tell: Annotated[bool, Meta(description="Tell an agent when its branch begins to collide with an earlier one.")] = (
        False
    )
