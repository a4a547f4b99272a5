"""Verify a commit: run a command on it in a clean checkout, isolated from all agents.

Files of the branch that judge the branch count only if the base confirms them (`verify.judges`). Exit code 0 is
compared with the output of the test runner (`verify.counts`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple

from fleet.agents.base import SandboxSpec
from fleet.core.finding import IN_A_DIRECTORY
from fleet.core.redaction import Redactor
from fleet.core.rules import rules_in
from fleet.core.verification import Verification, VerifyRequest
from fleet.files import atomic_write
from fleet.git.clean_checkout import clean_folder, fill, sweep
from fleet.git.diffs import changes_between, contents, is_special
from fleet.git.process import GitFault
from fleet.git.untrusted_folders import delete
from fleet.proof.verify import counts, reach, using
from fleet.proof.verify.judges import MOST_BYTES, MOST_TOGETHER, JudgedChanges, Wants, judged
from fleet.supervisor.run.commands import Done, end_earlier, run_spec, spec_of, tail_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping

    from fleet.agents.base import Launcher, LaunchSpec
    from fleet.core.task import Task
    from fleet.git.diffs import TreeEntry
    from fleet.git.view import View
    from fleet.settings import Settings


# ruff: noqa: PTH118, PTH120


#: More processes than any test suite needs.
MOST_PROCESSES = 4096
#: Sockets of desktops, containers and agents' terminals. Through them a process can act outside of its isolation.
SOCKETS = ("/run/user", "/run/dbus", "/run/docker.sock", "/run/podman", "/run/containerd", "/var/run/docker.sock")
#: Variables that only help to reach the network.
PROXIES = frozenset(("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"))

#: The shim's name of a restriction, its description, and what the command can do without it.
WORDS = (
    ("offline", "no network", "reach the network"),
    ("hidden", "cannot see fleet's own files", "see fleet's own files"),
    ("writes", "can write only to its own folder", "write where the user can"),
)


def apart(
    home: str, places: Iterable[str], writable: tuple[str, ...], env: Mapping[str, str], *, network: bool
) -> SandboxSpec:
    """Return the isolation of a command that sees these places and writes to the writable folders."""
    programs = [place for place in env.get("PATH", "").split(":") if place]
    return SandboxSpec(
        hidden=(home, *SOCKETS),
        kept=(*places, *_add_libraries(programs)),
        writable=writable,
        temporary=env["TMPDIR"],
        offline=not network,
        processes=MOST_PROCESSES,
    )


def secluded(env: Mapping[str, str], folder: str, *, network: bool) -> dict[str, str]:
    """Return an environment with its home and temporary files in `folder`."""
    kept = {name: value for name, value in env.items() if network or name.upper() not in PROXIES}
    return kept | {"HOME": os.path.join(folder, "home"), "TMPDIR": os.path.join(folder, "tmp")}


def in_words(had: Iterable[str], containment: str, *, network: bool) -> str:
    """Return a description of the isolation: what the command could not reach, and what it still could."""
    had = set(had)
    asked = [row for row in WORDS if not (network and row[0] == "offline")]
    kept = [words for name, words, _ in asked if name in had]
    reached = [words for name, _, words in asked if name not in had]
    if containment == "pid namespace":
        kept.append("no other processes")
    else:
        reached.append("see other processes")
    kept.append("its own home")
    return (f"weak: it could {', '.join(reached)}; " if reached else "") + ", ".join(kept)


def _add_libraries(programs: Iterable[str]) -> list[str]:
    """Return the programs' folders, with `bin` replaced by its parent: a program in `bin` needs its `lib`."""
    return [os.path.dirname(place.rstrip("/")) if place.rstrip("/").endswith("bin") else place for place in programs]


# ruff: noqa: PTH102, PTH108, PTH118, PTH120


#: How much of the output is kept: enough to repair the work.
TAIL_BYTES = 8_000
#: How much longer the shim waits than the supervisor. The shim ends the command if the supervisor was killed.
GRACE_SECONDS = 30.0
#: Names of the folders of later runs, inside the folder of the first.
WITHOUT_THEM, AT_THE_BASE, ALSO = "without-them", "at-the-base", "also"
#: The name of an empty folder beside a checkout.
EMPTY = "empty"
#: The start of the reason if the command did not get its turn.
NOT_RUN = "could not be run: "


class VerifyFolders(NamedTuple):
    """The folders and environment of a verification."""

    place: str  # the folder for the shim's files and the log
    checkout: str  # parent of the clean checkout and its temporary files; does not exist yet
    env: Mapping[str, str]
    stop: asyncio.Event | None = None
    clean: Callable[[str], str] = Redactor().text  # redacts secrets in the command's output
    places: using.Places = using.Places()  # where to find the folders that the command uses


class CommandResult(NamedTuple):
    """The result of one run of the command."""

    done: Done
    output: str = ""  # its end, long enough for the summary of a test runner
    containment: str = ""
    had: tuple[str, ...] | None = None  # the restrictions of the command; None: it did not run
    setup: str = ""  # which setup command failed, in words

    @property
    def tests(self) -> counts.Count | None:
        """Return the count of tests that it reported. Return None if it reported none."""
        return counts.counted(self.output)


async def verify(
    launcher: Launcher,
    view: View,
    wanted: VerifyRequest,
    room: VerifyFolders,
    *,
    commit: str,
    base: str,
    tests: tuple[str, ...] = (),
) -> Verification:
    """Run the command at a commit, and in all other states that its exit code 0 must be compared with.

    Every effect of the branch and the command is in the returned value. FleetError and OSError are faults of fleet.
    """
    folders = await asyncio.to_thread(using.find_folders, wanted.use, room.places, view, commit)
    if folders.used:
        room = room._replace(env=using.environment(folders.used, room.env))
    at = _Verifier(launcher, view, wanted, room, folders.used)
    found = await asyncio.to_thread(_judge_changes, view, wanted, (base, commit), tests)
    await at.clear()
    first = await at.run(commit, found.restored)
    count = first.tests
    made = Verification(
        command=wanted.command,
        commit=commit,
        base=base,
        status=first.done.status,
        why=first.done.why,
        seconds=first.done.seconds,
        tail=first.done.tail,
        passed=count.passed if count else None,
        failed=count.failed if count else None,
        skipped=count.skipped if count else None,
        restored=tuple(sorted(found.restored)),
        contested=tuple(sorted(found.contested)),
        containment=first.containment,
        programs=await asyncio.to_thread(reach.named, wanted.command, room.env["PATH"]),
        used=tuple(each.source for each in folders.used),
        notes=folders.notes,
    )
    if first.setup:
        return await _judge_failed_setup(at, made, first, base)
    if made.ok and wanted.also:
        made = also_run(made, wanted.also, (await at.run(commit, found.restored, ALSO, wanted.also)).done)
    if not made.ok:
        return made
    top = view.repository.top
    tampered = await asyncio.to_thread(using.doubts, folders.used, room.places.marks, top, first.had)
    made = made.replace(doubts=(*counts.doubts(wanted.command, first.output), *found.doubts, *tampered))
    if found.contested:
        without = await at.run(commit, found.at_the_base, WITHOUT_THEM)
        made = made.replace(without_them=_proven(wanted, without), seconds=made.seconds + without.done.seconds)
    if wanted.fail_to_pass and base:
        before = await at.run(base, found.tests, AT_THE_BASE)
        made = made.replace(
            base_status=before.done.status,
            doubts=(*made.doubts, *_list_doubts_from_base(first, before)),
            seconds=made.seconds + before.done.seconds,
        )
    return made


async def _judge_failed_setup(at: _Verifier, made: Verification, first: CommandResult, base: str) -> Verification:
    """Return a verification whose setup failed. The work is not at fault if the setup fails at the base too."""
    before = await at.run(base, {}, AT_THE_BASE) if base and base != made.commit else first
    if before.setup:
        return made.replace(setup=f"setup failure: {first.setup}")
    return made.replace(why=f"{made.why}; at the base the setup passes")


def also_run(made: Verification, command: str, done: Done) -> Verification:
    """Return a passed verification extended by the result of the command that the task's creating agent chose."""
    made = made.replace(seconds=made.seconds + done.seconds)
    if done.ok:
        return made.replace(notes=(*made.notes, f"`{command}`, chosen by the agent that created the task, also passed"))
    return made.replace(command=command, status=done.status, why=done.why, tail=done.tail)


class _Verifier:
    """Runs of a command, each in a new checkout."""

    def __init__(
        self,
        launcher: Launcher,
        view: View,
        wanted: VerifyRequest,
        room: VerifyFolders,
        used: tuple[using.Used, ...] = (),
    ) -> None:
        self._launcher, self._view, self._wanted, self._room = launcher, view, wanted, room
        self._used = used

    async def clear(self) -> None:
        """End what an earlier verification left running, and delete its logs, so that no planted file remains."""
        place = self._room.place
        for each in (place, *(os.path.join(place, name) for name in (WITHOUT_THEM, AT_THE_BASE, ALSO))):
            await end_earlier(self._launcher, each)
            for number in range(len(self._wanted.setup)):
                await end_earlier(self._launcher, _make_setup_path(each, number))
        await asyncio.to_thread(delete, place)
        await asyncio.to_thread(sweep, self._view)

    async def run(
        self, commit: str, lay: Mapping[str, TreeEntry | None], name: str = "", command: str = ""
    ) -> CommandResult:
        """Run the wanted command or `command` on a commit, with the entries in `lay` replacing those of the commit."""
        wanted, folder = self._wanted, self._room.checkout
        wanted = wanted.replace(command=command or wanted.command)
        place = os.path.join(self._room.place, name) if name else self._room.place
        home = os.path.dirname(os.path.dirname(self._view.path))  # the view is in the home
        places = (self._view.repository.top, self._view.repository.common)
        env = secluded(self._room.env, folder, network=wanted.network)
        tree = os.path.join(folder, "checkout", self._view.repository.name)  # some tools name a project by its folder
        async with self._folder(folder):
            try:
                await asyncio.to_thread(self._make, commit, lay, tree, env)
            except GitFault as fault:
                if "invalid path" not in fault.said:
                    raise
                why = f"{NOT_RUN}git refuses to check it out ({fault.said.strip().splitlines()[0]})"
                return CommandResult(Done(command=wanted.command, status=None, seconds=0.0, why=why))
            sources = tuple(each.source for each in self._used)
            limits = apart(home, (*places, *sources), (folder,), env, network=wanted.network)
            empty = os.path.join(folder, EMPTY)
            shown = using.mounts(self._used, tree, empty, self._view.repository.common)
            spec = spec_of(wanted.command, cwd=tree, env=env).replace(
                apart=limits.replace(shown=shown), seconds=wanted.seconds + GRACE_SECONDS
            )
            room = self._room._replace(place=place)
            for number, line in enumerate(wanted.setup):
                before = room._replace(place=_make_setup_path(place, number))
                argv = spec_of(line, cwd=tree, env=env).argv
                seen = await _run(self._launcher, wanted.replace(command=line), before, spec.replace(argv=argv))
                if not seen.done.ok:
                    words = seen.done.replace(tail="").in_words
                    done = seen.done.replace(command=wanted.command, status=None, why=f"{NOT_RUN}its setup {words}")
                    return seen._replace(done=done, setup=f"its setup {words}")
            return await _run(self._launcher, wanted, room, spec)

    def _make(self, commit: str, lay: Mapping[str, TreeEntry | None], tree: str, env: Mapping[str, str]) -> None:
        _make_folders(env)
        fill(self._view, commit, tree, lay)
        if self._used:
            os.mkdir(os.path.join(os.path.dirname(env["TMPDIR"]), EMPTY), 0o700)
            using.link(self._used, tree)

    @contextlib.asynccontextmanager
    async def _folder(self, path: str) -> AsyncIterator[None]:
        folder = clean_folder(self._view, path)
        await asyncio.to_thread(folder.__enter__)
        try:
            yield
        finally:
            await asyncio.to_thread(folder.__exit__, None, None, None)


async def verify_in_place(
    launcher: Launcher, home: str, wanted: VerifyRequest, room: VerifyFolders, directory: str
) -> Verification:
    """Run the command in the directory itself in its current state. Raises FleetError, OSError."""
    for place in (room.place, os.path.join(room.place, ALSO)):
        await end_earlier(launcher, place)
    await asyncio.to_thread(delete, room.place)
    seen = await _run_in_place(launcher, home, wanted, room, directory)
    count, done = seen.tests, seen.done
    made = Verification(
        command=wanted.command,
        commit="",
        status=done.status,
        why=done.why,
        seconds=done.seconds,
        tail=done.tail,
        passed=count.passed if count else None,
        failed=count.failed if count else None,
        skipped=count.skipped if count else None,
        containment=seen.containment,
        programs=await asyncio.to_thread(reach.named, wanted.command, room.env["PATH"], directory),
        doubts=(IN_A_DIRECTORY, *(counts.doubts(wanted.command, seen.output) if done.ok else ())),
    )
    if made.ok and wanted.also:
        other = wanted.replace(command=wanted.also)
        beside = room._replace(place=os.path.join(room.place, ALSO))
        made = also_run(made, wanted.also, (await _run_in_place(launcher, home, other, beside, directory)).done)
    return made


async def _run_in_place(
    launcher: Launcher, home: str, wanted: VerifyRequest, room: VerifyFolders, directory: str
) -> CommandResult:
    env = secluded(room.env, room.checkout, network=wanted.network)
    spec = spec_of(wanted.command, cwd=directory, env=env).replace(
        apart=apart(home, (directory,), (room.checkout, directory), env, network=wanted.network),
        seconds=wanted.seconds + GRACE_SECONDS,
    )
    await asyncio.to_thread(delete, room.checkout)
    try:
        await asyncio.to_thread(os.makedirs, room.checkout, 0o700)
        await asyncio.to_thread(_make_folders, env)
        return await _run(launcher, wanted, room, spec)
    finally:
        await asyncio.to_thread(delete, room.checkout)


async def _run(launcher: Launcher, wanted: VerifyRequest, room: VerifyFolders, spec: LaunchSpec) -> CommandResult:
    done, exit = await run_spec(launcher, room.place, spec, seconds=wanted.seconds, stop=room.stop)
    words = in_words(exit.apart if exit else (), launcher.containment, network=wanted.network)
    output = await asyncio.to_thread(_keep_redacted, room)
    had = exit.apart if exit else None
    return CommandResult(done.replace(command=wanted.command, tail=output[-TAIL_BYTES:].strip()), output, words, had)


def _make_setup_path(place: str, number: int) -> str:
    return os.path.join(place, f"setup-{number + 1}")


def _keep_redacted(room: VerifyFolders) -> str:
    """Return the end of a command's output without secrets, and replace its log with that text."""
    output = tail_of(room.place, counts.MOST_BYTES)
    if len(output) * 4 > counts.MOST_BYTES:  # the cut may be within a secret
        output = output[min(output.find("\n"), 4096) + 1 :]
    output = room.clean(output)
    with contextlib.suppress(OSError):
        atomic_write(os.path.join(room.place, "stdout"), output.encode("utf-8", "replace"), 0o600)
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(room.place, "stdout.tail"))
    return output


def _make_folders(env: Mapping[str, str]) -> None:
    for name in ("HOME", "TMPDIR"):
        os.mkdir(env[name], 0o700)


def _judge_changes(
    view: View, wanted: VerifyRequest, commits: tuple[str, str], tests: tuple[str, ...]
) -> JudgedChanges:
    base, commit = commits
    if not base or base == commit:
        return JudgedChanges({}, {}, {}, {}, ())
    wants = Wants(wanted.command, wanted.protect, tests, wanted.setup)
    changes = changes_between(view, base, commit)
    entries = [entry for change in changes for entry in (change.before, change.after) if entry]
    texts = contents(view, entries, each=MOST_BYTES, together=MOST_TOGETHER)
    return judged(wants, changes, lambda entry: texts.get(entry.id, b"" if is_special(entry) else None))


def _proven(wanted: VerifyRequest, without: CommandResult) -> int | None:
    """Return the exit code of the command without the contested files. Return None if 0 proves nothing."""
    doubtful = without.done.status == 0 and counts.doubts(wanted.command, without.output)
    return None if doubtful else without.done.status


def _list_doubts_from_base(first: CommandResult, before: CommandResult) -> tuple[str, ...]:
    if before.done.status == 0:
        return ("it also passes at the base",)
    if before.done.status is None:
        return (f"at the base it {before.done.why}",)
    now, then = first.tests, before.tests
    if now and then and now.skipped > then.skipped and now.passed <= then.passed:
        return (f"it skips {now.skipped} tests, the base {then.skipped}",)
    return ()


def wanted_by(settings: Settings, task: Task | None) -> VerifyRequest | None:
    """Return how to verify a task's work. Return None if no verify command is set.

    The command of a task that an agent created is added to that of the settings. A user's command replaces it.
    """
    own, usual = task.verify if task else "", settings.verify.command or ""
    is_agents = task is not None and bool(task.made_by)
    command = (usual or own) if is_agents else (own or usual)
    if not command:
        return None
    rules = rules_in(task.rules if task else "")
    asked = rules.fail_to_pass
    return VerifyRequest(
        command=command,
        also=own if is_agents and own != command else "",
        seconds=settings.verify.seconds,
        protect=(*rules.protect, *settings.verify.protect),
        fail_to_pass=settings.verify.fail_to_pass if asked is None else asked,
        network=settings.verify.network,
        setup=settings.verify.setup,
        use=settings.verify.use,
    )


def doubted(made: Verification, settings: Settings, task: Task | None) -> Verification:
    """Return a verification, with a doubt if an agent chose its only command."""
    if task is None or not (task.made_by and task.verify) or settings.verify.command:
        return made
    return made.replace(doubts=(*made.doubts, f"an agent of {task.made_by} chose the verify command"))


def tests_by(settings: Settings) -> tuple[str, ...]:
    """Return globs of the files that judge the work: tests, and files that control what the test runner runs."""
    return (*settings.verify.tests, *settings.verify.runners)
