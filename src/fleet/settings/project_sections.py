"""Settings tables about projects, worktrees, terminals, verification, scope and merging."""

from typing import Annotated, Literal

from msgspec import Meta

from fleet.settings.kinds import Folder, Inside, Line, Seconds, Section, Slots, Text, Times

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
    setup: Annotated[
        tuple[Text, ...],
        Meta(description="Commands to run in the clean checkout before the verify command, in this order."),
    ] = ()
    use: Annotated[
        tuple[Inside, ...],
        Meta(
            description='Folders that git does not track, such as ".venv" or "node_modules", for the verify command.\n'
            "fleet takes them from the worktree, else from the main checkout, and makes them read-only. Work is not "
            "verified if an agent changed them."
        ),
    ] = ()
    seconds: Annotated[
        Seconds, Meta(description="Timeout of the verify command and of each setup command, in seconds.")
    ] = 600
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


class ScopeSettings(Section, frozen=True):
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


class FindingSettings(Section, frozen=True):
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


_SESSION = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{0,32}\Z", title="up to 32 letters, digits, _ or -")]
_SOCKET = Annotated[
    str,
    Meta(pattern=r"\A[A-Za-z0-9_][A-Za-z0-9_-]{0,31}\Z", title="1 to 32 letters, digits, _ or -, not starting with -"),
]
#: Directories that tools recreate. An ignored directory with one of these names is not worth saving.
REGENERATED = (
    *("node_modules", "__pycache__", ".venv", "venv", ".tox", ".gradle", ".next"),
    *(".mypy_cache", ".ruff_cache", ".pytest_cache"),
)


class Project(Section, frozen=True):
    """The project's name, the folder of its worktrees, and rules for work in it."""

    name: Annotated[Line | None, Meta(description="Name of the project. Default: the name of its directory.")] = None
    worktree_root: Annotated[
        Line | None,
        Meta(description="Directory for the worktrees of this project. Default: a directory in fleet's home."),
    ] = None
    branch_pattern: Annotated[
        tuple[Line, ...],
        Meta(
            description='A new branch name must match one of these globs, such as "fix-*".\n'
            "An empty list allows any name."
        ),
    ] = ()
    exclusive: Annotated[
        bool,
        Meta(description="Run tasks in the project's own directory one at a time. Worktrees are not affected."),
    ] = False


class Setup(Section, frozen=True):
    """Preparation of a new worktree, and steps before its removal."""

    credential_files: Annotated[
        tuple[Line, ...], Meta(description="Files to copy from the repository into each new worktree.")
    ] = ()
    commands: Annotated[tuple[Text, ...], Meta(description="Commands to run in each new worktree, in this order.")] = ()
    quick: Annotated[bool, Meta(description="Copy the files, but do not run the commands.")] = False
    seconds: Annotated[Seconds, Meta(description="Timeout of each setup and teardown command, in seconds.")] = 900
    teardown: Annotated[
        tuple[Text, ...], Meta(description="Commands to run in a worktree before its removal, in this order.")
    ] = ()


class Ports(Section, frozen=True):
    """The block of ports reserved for each worktree, passed as FLEET_PORT and PORT."""

    base: Annotated[
        Annotated[int, Meta(ge=1024, le=65_000)],
        Meta(description="First port of the first block. The variable FLEET_PORT_BASE overrides this setting."),
    ] = 20_000
    count: Annotated[Annotated[int, Meta(ge=1, le=1_000)], Meta(description="Number of ports in each block.")] = 10


class Tmux(Section, frozen=True):
    """Names and settings of the tmux sessions of interactive agents."""

    prefix: Annotated[
        _SESSION,
        Meta(description="Prefix of the names of agents' tmux sessions."),
    ] = "ai_"
    socket: Annotated[
        _SOCKET, Meta(description="Name of the tmux server for these sessions, as in `tmux -L NAME`.")
    ] = "fleet"
    config: Annotated[
        Folder | None,
        Meta(description="Configuration file of that tmux server. Default: no file, not even your usual one."),
    ] = None


class SaveSettings(Section, frozen=True):
    """Rules for saving a worktree's files before its removal."""

    ignored_mb: Annotated[
        Annotated[int, Meta(ge=0, le=10**6)],
        Meta(
            description="Maximum size of git-ignored files to save, in MB.\n"
            "fleet does not remove a worktree with more of them."
        ),
    ] = 64
    days: Annotated[
        Annotated[int, Meta(ge=1, le=36_500)],
        Meta(description="Number of days to keep saved work and the tips of deleted branches under refs/fleet/."),
    ] = 90
    skip: Annotated[
        tuple[Line, ...],
        Meta(description="Names of ignored directories that fleet does not save, because a tool recreates them."),
    ] = REGENERATED
