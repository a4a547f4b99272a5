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
        Meta(description="Command that exits with 0 if a branch is good. A task can name its own command."),
    ] = None
    seconds: Annotated[Seconds, Meta(description="Timeout of the verify command, in seconds.")] = 600
    protect: Annotated[
        tuple[Line, ...],
        Meta(
            description="Globs of files to take from the base for the verify command, such as the script that the "
            "command runs."
        ),
    ] = ()
    fail_to_pass: Annotated[
        bool,
        Meta(description="Require the verify command to fail at the base. Otherwise exit code 0 shows nothing new."),
    ] = False
    network: Annotated[
        bool,
        Meta(
            description="Let the verify command reach the network.\n"
            "Otherwise fleet blocks the network if the system allows that."
        ),
    ] = False
    tests: Annotated[
        tuple[Line, ...],
        Meta(
            description="Globs of tests.\n"
            "If a branch changes tests of the base, those tests alone do not count as proof."
        ),
    ] = TESTS
    runners: Annotated[
        tuple[Line, ...],
        Meta(description="Globs of files that configure what a test runner runs. They count as tests."),
    ] = RUNNERS


class Scope(Section, frozen=True):
    """Limits on what the work of a task may touch."""

    allow: Annotated[
        tuple[Line, ...],
        Meta(
            description="Globs of files that tasks may change; an empty list allows any file.\n"
            "A task can name its own globs."
        ),
    ] = ()
    protect: Annotated[tuple[Line, ...], Meta(description="Globs of files that tasks must not change.")] = ()
    live: Annotated[
        Literal["flag", "stop"],
        Meta(
            description="Action if a command of an agent writes or deletes outside its workspace:\n"
            '"flag" records the violation, "stop" also stops the agent.'
        ),
    ] = "flag"


class Findings(Section, frozen=True):
    """Consequences of a receipt's findings. Honest work closes automatically."""

    verify_retries: Annotated[
        Times,
        Meta(
            description="Maximum number of retries after a failed verify command.\n"
            "The agent receives the output of the command."
        ),
    ] = 2
    fabricated_retries: Annotated[
        Times,
        Meta(
            description="Maximum number of retries after an agent claimed work it did not do.\n"
            "Each retry uses a new session."
        ),
    ] = 1
    unverified: Annotated[
        Literal["close", "person"],
        Meta(
            description='Action if nothing proves the work. "close" closes the task and marks it as unverified; '
            '"person" leaves it to you.'
        ),
    ] = "close"
    no_changes: Annotated[
        Literal["close", "person"], Meta(description="Action if a task ends without a change and does not allow that.")
    ] = "person"
    out_of_scope: Annotated[
        Literal["close", "person"], Meta(description="Action if work touched something outside its scope.")
    ] = "person"
    failed_verify: Annotated[
        Literal["close", "person"],
        Meta(description="Action if work still fails its verify command after the last retry."),
    ] = "person"
    fabricated: Annotated[
        Literal["close", "person"],
        Meta(description="Action if an agent still claims work it did not do after the last retry."),
    ] = "person"


class Merge(Section, frozen=True):
    """Rules for merging the work of tasks."""

    into: Annotated[
        Line | None, Meta(description="Branch to merge into. Default: the main branch of the repository.")
    ] = None
    strategy: Annotated[
        Literal["squash", "merge", "rebase"],
        Meta(
            description='"squash" creates one commit for each task, "merge" a merge commit. "rebase" recreates the '
            "commits of the branch."
        ),
    ] = "squash"
    conflicts: Annotated[
        Literal["agent", "person"],
        Meta(
            description='Handling of branches with conflicts. "agent" creates a task for an agent; "person" leaves '
            "the branch to you."
        ),
    ] = "person"
    at_once: Annotated[Slots, Meta(description="Maximum number of branches to verify together.")] = 50
    tell: Annotated[
        bool, Meta(description="Notify an agent when its branch starts to conflict with an earlier branch.")
    ] = False
