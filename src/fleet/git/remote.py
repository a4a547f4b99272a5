"""Remotes of a repository: allowed addresses, hiding secrets in them, and running git against them.

An address is untrusted input. Only transports are allowed that run nothing but git itself and ssh. The form that is
stored, shared with other hosts and displayed holds no secret.
"""

from __future__ import annotations

import contextlib
import contextvars
import os
import re
import signal
import subprocess
import threading
from typing import IO, TYPE_CHECKING, NamedTuple

from fleet.core.errors import BadInput, FleetError
from fleet.core.record import Record
from fleet.core.redaction import Redactor
from fleet.git.process import PATIENCE_SECONDS, SAFE, environment, git_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from fleet.git.repository import Repository
    from fleet.git.view import View


#: Variables that would make git work on something other than requested.
ELSEWHERE = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES"),
    *("GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX", "GIT_CEILING_DIRECTORIES"),
)
REMOTE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}")
USUAL = "origin"
MOST_PUSH_OUTPUT = 20


def choose_remote(repository: Repository, name: str = "") -> str:
    """Return the remote of this name, or by default `origin` or the only one. Raises BadInput."""
    known = git_text("remote", cwd=repository.common, env={"GIT_DIR": repository.common}).splitlines()
    if not known:
        raise BadInput(f"{repository.top} has no remote", hint="run `git remote add origin URL` to add one")
    chosen = name or (USUAL if USUAL in known or len(known) > 1 else known[0])
    if chosen not in known or not REMOTE.fullmatch(chosen):
        raise BadInput(
            f"{repository.top} has no remote {chosen!r}", hint=f"name one of {', '.join(known[:10])} with --remote"
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
        raise FleetError("git is not there", hint="install git") from error
    except subprocess.TimeoutExpired as error:
        raise FleetError(f"pushing {branch} to {remote} did not stop within {PATIENCE_SECONDS:g} s") from error
    said = Redactor().text(done.stderr.decode(errors="replace"))
    if done.returncode:
        raise _make_push_error(remote, branch, done.stdout.decode(errors="replace"), said)
    lines = (line.removeprefix("remote:").strip() for line in said.splitlines() if line.startswith("remote:"))
    return [line for line in lines if line][:MOST_PUSH_OUTPUT]


def users_environment() -> dict[str, str]:
    """Return the caller's environment without variables that redirect git."""
    env: Mapping[str, str] = os.environ
    return {name: value for name, value in env.items() if name not in ELSEWHERE}


def _make_push_error(remote: str, branch: str, told: str, said: str) -> FleetError:
    refused = next((line for line in told.splitlines() if line.startswith("!")), "")
    if "[rejected]" in refused:
        return FleetError(
            f"{branch} was not pushed: {remote} has commits on it that are not here",
            hint=f"look at them (`git fetch {remote}`); `git push --force-with-lease {remote} {branch}` replaces them",
        )
    complaints = [line for line in said.splitlines() if line.strip() and not line.startswith("remote:")]
    why = refused.rpartition("\t")[2] or next((line for line in complaints if "fatal:" in line or "error:" in line), "")
    why = why or (complaints[-1] if complaints else "no reason given")
    return FleetError(
        f"{branch} was not pushed to {remote}: {why.strip().removeprefix('fatal: ').removeprefix('error: ')}",
        hint=f"run `git push {remote} {branch}` to show more",
    )


# ruff: noqa: PTH117, PTH118


#: Allowed URL schemes.
SCHEMES = ("ssh", "https", "git", "file")
LONGEST = 2000
#: Time limits of one call. A mirror of a large repository is fetched only once.
FETCH_SECONDS, PUSH_SECONDS, ASK_SECONDS = 600.0, 120.0, 30.0
#: Maximum amount kept of a remote's output.
MOST_SAID = 1 << 20

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?:(?P<who>[^/@\s]*)@)?(?P<rest>[^\s]*)")
_HELPER = re.compile(r"[A-Za-z0-9+.-]*::")
_HOST = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")
_LIKE_SCP = re.compile(
    r"(?:[A-Za-z0-9_][A-Za-z0-9._-]*@)?(?:[A-Za-z0-9_][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\]):[^-\s:][^\s]*"
)
#: Further environment variables that git needs to reach a remote as the user does.
_KEPT = (
    *("GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_NO_VERIFY", "SSL_CERT_FILE", "SSL_CERT_DIR", "USER"),
    *("HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "https_proxy", "no_proxy", "all_proxy", "LOGNAME", "XDG_RUNTIME_DIR"),
)
#: These override the user's settings: git fetches, signs and sends only what is requested, and prompts no one.
_PLAIN = (
    *("-c", "credential.interactive=false", "-c", "core.askPass=", "-c", "transfer.bundleURI=false"),
    *("-c", "fetch.recurseSubmodules=false", "-c", "push.recurseSubmodules=no", "-c", "push.followTags=false"),
    *("-c", "push.gpgSign=false", "-c", "fetch.writeCommitGraph=false", "-c", "fetch.parallel=1"),
    *("-c", "http.lowSpeedLimit=1", "-c", "http.lowSpeedTime=60"),
)


class RemoteProcesses:
    """Git calls to remotes that can be ended together. No call begins after that. Safe to use from any thread."""

    def __init__(self) -> None:
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self.is_over = False

    @contextlib.contextmanager
    def going_on(self, process: subprocess.Popen[bytes]) -> Iterator[None]:
        with self._lock:
            self._processes.add(process)
            if self.is_over:
                _signal_process(process)
        try:
            yield
        finally:
            with self._lock:
                self._processes.discard(process)

    def end(self, *, for_good: bool = True) -> None:
        """End the running calls. Unless `for_good`, others may begin later."""
        with self._lock:
            self.is_over = for_good
            for process in self._processes:
                _signal_process(process)


#: All calls of this process, and those of the errand that a thread or an asyncio task belongs to.
_ALL = RemoteProcesses()
_ERRAND: contextvars.ContextVar[RemoteProcesses | None] = contextvars.ContextVar("errand", default=None)


class RemoteAway(FleetError):
    """A remote is unreachable now or refuses access."""


class Remote(Record):
    """A remote as a repository of this host knows it."""

    url: str  # safe to store and show
    address: str  # the address for git; may hold a secret


class RemoteAnswer(NamedTuple):
    """Git's answer."""

    status: int
    out: str
    said: str  # stderr without secrets


def checked(url: str, *, top: str = "") -> str:
    """Return the address of a remote if it is allowed. A relative path is resolved from `top`. Raises BadInput."""
    why = _explain_bad_url(url)
    if not why and not _is_elsewhere(url) and not os.path.isabs(url):
        url = os.path.normpath(os.path.join(top, url)) if top else url
        why = "" if top else "it is a relative path"
    if why:
        raise BadInput(f"{shown(url)!r} cannot be a remote of a task: {why}", hint="ssh, https, git or a path is taken")
    return url


def without_secret(url: str) -> str:
    """Return the address without a password.

    For https and git, the user is removed too, because it is often a token.
    """
    found = _URL.fullmatch(url)
    if found is None or found["who"] is None:
        return url
    user = found["who"].partition(":")[0] if found["scheme"].lower() == "ssh" else ""
    return f"{found['scheme']}://{user}{'@' if user else ''}{found['rest']}"


def shown(url: str) -> str:
    """Return an address in a form that is safe to show."""
    return "".join(char if char.isprintable() else "?" for char in without_secret(url))[:200]


def remote_of(repository: Repository) -> Remote | None:
    """Return the remote that the repository's tasks use: `origin` or the only one. None if it has none.

    Raises BadInput if its address is not allowed.
    """
    try:
        name = choose_remote(repository)
    except BadInput:
        return None
    # Git only resolves the name here, with the repository's and the user's settings.
    env = {"GIT_DIR": repository.common}
    address = checked(git_text("remote", "get-url", "--", name, cwd=repository.common, env=env), top=repository.top)
    return Remote(url=without_secret(address).rstrip("/"), address=address)


def tracked_by(repository: Repository) -> str:
    """Return the prefix of the refs in which a repository keeps the last known state of that remote."""
    with contextlib.suppress(BadInput):
        return f"refs/remotes/{choose_remote(repository)}"
    return f"refs/remotes/{USUAL}"


def talk(view: View, remote: Remote, *words: str, seconds: float) -> RemoteAnswer:
    """Run git against a remote for a repository, with the settings of fleet and the user but not the repository's.

    `words` contain the remote's address. Raises RemoteAway if the call takes too long, and FleetError if git is
    missing.
    """
    talks = _ERRAND.get() or _ALL
    if talks.is_over:
        raise RemoteAway(f"nothing is said to {remote.url} any more")
    view.make()
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    own = {"GIT_DIR": view.path, "GIT_ALLOW_PROTOCOL": ":".join(SCHEMES), "SSH_ASKPASS_REQUIRE": "never", "LC_ALL": "C"}
    env = environment(kept | own | {"GIT_NO_REPLACE_OBJECTS": "1"})
    try:
        process = subprocess.Popen(
            ["git", *SAFE, *_PLAIN, *words],
            cwd=view.path,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # no terminal where ssh could prompt, and one process group to end
        )
    except FileNotFoundError as error:
        raise FleetError("git is not there", hint="install git") from error
    with _ALL.going_on(process), talks.going_on(process):
        out, said = _read_output(process, remote, words[0], seconds)
    text = said.decode(errors="replace").replace(remote.address, remote.url)
    return RemoteAnswer(process.returncode, out.decode(errors="replace"), Redactor().text(text))


def end_talks() -> None:
    """End all running calls of this process, because their caller is about to exit."""
    _ALL.end(for_good=False)


@contextlib.contextmanager
def errand() -> Iterator[RemoteProcesses]:
    """Yield a handle that ends all calls to remotes inside the block, including those of threads with this context."""
    made = RemoteProcesses()
    token = _ERRAND.set(made)
    try:
        yield made
    finally:
        _ERRAND.reset(token)


def why(told: RemoteAnswer) -> str:
    """Return the cause of a failure in one line of git's own words."""
    lines = [line.strip() for line in told.said.splitlines() if line.strip() and not line.startswith("remote:")]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:", "ssh:"))]
    found = (fatal or lines or [f"git ended with {told.status}"])[0]
    return "".join(char if char.isprintable() else "?" for char in found.removeprefix("fatal: "))[:300]


def _read_output(process: subprocess.Popen[bytes], remote: Remote, word: str, seconds: float) -> tuple[bytes, bytes]:
    """Return the beginning of a process's output. After the time limit, the process and its children are killed."""
    assert process.stdout is not None
    assert process.stderr is not None
    heard: list[bytes] = [b"", b""]

    def read(place: int, pipe: IO[bytes]) -> None:
        kept = bytearray()
        while data := os.read(pipe.fileno(), 1 << 16):
            kept += data[: max(0, MOST_SAID - len(kept))]
        heard[place] = bytes(kept)
        pipe.close()

    readers = [
        threading.Thread(target=read, args=pair, daemon=True) for pair in enumerate((process.stdout, process.stderr))
    ]
    for reader in readers:
        reader.start()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired as error:
        _end_process(process)
        raise RemoteAway(f"{remote.url} did not answer `git {word}` in {seconds:g} s") from error
    except BaseException:
        _end_process(process)
        raise
    for reader in readers:
        reader.join(5)
    return heard[0], heard[1]


def _end_process(process: subprocess.Popen[bytes]) -> None:
    _signal_process(process)
    process.wait()


def _signal_process(process: subprocess.Popen[bytes]) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def _is_elsewhere(url: str) -> bool:
    return "://" in url or bool(_LIKE_SCP.fullmatch(url) and "/" not in url.partition(":")[0])


def _explain_bad_url(url: str) -> str:
    if not url or len(url) > LONGEST or not url.isprintable() or url.startswith("-"):
        return "it is empty" if not url else "it is too long, or has what no address has"
    if _HELPER.match(url):
        return "it names its own program"
    found = _URL.fullmatch(url)
    if found is None:
        return "" if "://" not in url else "a character in it is not allowed"
    scheme, rest = found["scheme"].lower(), found["rest"]
    if scheme not in SCHEMES:
        return f"{scheme} is not a way that is taken"
    if scheme == "file":
        return "" if rest.startswith("/") and found["who"] is None else "it is no absolute path"
    if (found["who"] or "").startswith("-") or not _HOST.fullmatch(rest.partition("/")[0]):
        return "its host is none"
    return ""
