"""Bringing fleet itself up to date, by whichever installer it came with: that one also knows where to ask."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from datetime import datetime, timedelta
from importlib import metadata, util
from pathlib import Path as File
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from fleet import __version__
from fleet.actions.rights import refuse_agents
from fleet.config.save import read_bytes
from fleet.core.clock import now
from fleet.core.errors import FleetError
from fleet.core.task import Caller
from fleet.files import atomic_write
from fleet.home import Home

NAME = "fleet"
PIP, PIPX, UV, UV_TOOL = "pip", "pipx", "uv", "uv tool"
#: Not from an index: a checkout that is used as it is, and what was built from a place that is named.
SOURCE, PLACE = "source", "place"
HOLDS = timedelta(hours=24)
ASKING_SECONDS, INSTALLING_SECONDS = 90.0, 900.0
_UV_NEWER = re.compile(rf"^ \+ {NAME}==(\S+)", re.MULTILINE)


class Installation(NamedTuple):
    """How this fleet came to be here."""

    by: str
    where: str
    """Of a checkout its directory, else the place it was installed from; empty: an index."""

    @property
    def has_index(self) -> bool:
        """Whether its installer can be asked for newer versions. A name alone could mean somebody else's package."""
        return self.by not in (SOURCE, PLACE)


class Answer(NamedTuple):
    """What the installer said."""

    newer: str | None
    """The version that is newer than this one; none: this is the newest."""
    asked_at: datetime


def installation() -> Installation:
    """How the fleet that runs now was installed."""
    try:
        found = metadata.distribution(NAME)
    except metadata.PackageNotFoundError:
        return Installation(SOURCE, str(File(__file__).parents[3]))
    origin, installer = found.read_text("direct_url.json"), found.read_text("INSTALLER")
    return judge(origin or "", installer or "", [path.name for path in File(sys.prefix).iterdir()])


def judge(origin: str, installer: str, in_prefix: list[str]) -> Installation:
    """The installation by the marks that installers leave: in the package, and at the top of its environment."""
    direct: dict[str, Any] = json.loads(origin) if origin else {}
    url = str(direct.get("url") or "")
    place = unquote(urlsplit(url).path) if url.startswith("file:") else url
    if direct:
        return Installation(SOURCE if direct.get("dir_info", {}).get("editable") else PLACE, place)
    if "uv-receipt.toml" in in_prefix:
        return Installation(UV_TOOL, "")
    if "pipx_metadata.json" in in_prefix:
        return Installation(PIPX, "")
    return Installation(UV if installer.strip() == "uv" else PIP, "")


def newest(home: Home, how: Installation, *, force: bool = False) -> Answer:
    """Whether there is a newer version; an answer holds for a day, unless it is forced. Raises FleetError."""
    known = None if force else _known(home)
    if known is not None:
        return known
    told = _run(_asking(how), ASKING_SECONDS, "tell the newest version")
    version = _told(told.stdout, told.stderr)
    answer = Answer(version if is_newer(version, __version__) else None, now())
    if home.exists:
        kept = {"current": __version__, "newer": answer.newer, "asked_at": answer.asked_at.isoformat()}
        atomic_write(home.newest, json.dumps(kept).encode())
    return answer


def install(how: Installation, *, caller: Caller | None = None) -> str:
    """Install the newest version; which one it is now. Raises FleetError."""
    refuse_agents(caller, "update fleet")
    _run(_installing(how), INSTALLING_SECONDS, "install the newest version")
    said = _run([sys.executable, "-P", "-m", NAME, "--version"], ASKING_SECONDS, "start what was installed").stdout
    return said.strip().removeprefix(NAME).strip()


def again(how: Installation) -> list[str]:
    """What the user has to call where fleet came from no index."""
    pip = [sys.executable, "-m", "pip", "install"]
    uv = ["uv", "pip", "install", "--python", sys.executable]
    installing = pip if util.find_spec("pip") else uv
    if how.by == SOURCE:
        commands = [["git", "-C", how.where, "pull"], [*installing, "--editable", how.where]]
    else:
        commands = [[*installing, "--force-reinstall", how.where]]
    return [shlex.join(words) for words in commands]


def _known(home: Home) -> Answer | None:
    """The answer of less than a day ago, if it was given to this very version."""
    try:
        kept = json.loads(read_bytes(home.newest) or b"{}")
        answer = Answer(kept["newer"], datetime.fromisoformat(kept["asked_at"]))
        holds = timedelta(0) <= now() - answer.asked_at < HOLDS and kept["current"] == __version__
        return answer if holds and isinstance(answer.newer, str | None) else None
    except (ValueError, KeyError, TypeError):
        return None


def _asking(how: Installation) -> list[str]:
    # Neither is to see what is installed: where they reach no index at all, they would be content with that.
    if how.by in (UV, UV_TOOL) or not util.find_spec("pip"):
        words = ["--dry-run", "--no-deps", "--reinstall", "--upgrade", "--color", "never", "--python", sys.executable]
        return [_program("uv"), "pip", "install", *words, NAME]
    words = ["--quiet", "--dry-run", "--no-deps", "--ignore-installed", "--report", "-", "--retries", "1"]
    return [*_pip(), *words, NAME]


def _installing(how: Installation) -> list[str]:
    match how.by:
        case "uv tool":
            return [_program("uv"), "tool", "upgrade", NAME]
        case "pipx":
            return [_program("pipx"), "upgrade", File(sys.prefix).name]
        case "uv":
            return [_program("uv"), "pip", "install", "--upgrade-package", NAME, "--python", sys.executable, NAME]
    return [*_pip(), "--upgrade", NAME]


def _pip() -> list[str]:
    return [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "--no-input", "install"]


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise FleetError(f"fleet was installed by {name}, which is not on PATH", hint=f"put {name} on PATH.")
    return found


def is_newer(version: str, than: str) -> bool:
    """Whether one version comes after another, by its numbers; one that is final comes after its own drafts."""
    return _order(version) > _order(than)


def _order(version: str) -> tuple[list[int], bool]:
    release = re.match(r"v?(\d+(?:\.\d+)*)", version)
    numbers = [int(part) for part in release[1].split(".")] if release else []
    while numbers and not numbers[-1]:
        numbers.pop()  # 1.0 is 1
    return numbers, not re.search(r"(a|b|rc|dev)\d*", version[release.end() :] if release else version)


def _told(out: str, err: str) -> str:
    """The version that the installer would install: pip reports in JSON, uv in lines. Empty: none but this one."""
    if not out.lstrip().startswith("{"):
        found = _UV_NEWER.search(f"{out}\n{err}")
        return found[1] if found else ""
    wanted = [each["metadata"]["version"] for each in json.loads(out)["install"]]
    return str(wanted[0]) if wanted else ""


def _run(argv: list[str], seconds: float, doing: str) -> subprocess.CompletedProcess[str]:
    """Call an installer. Not in the directory the user is in, whose files are not to be obeyed."""
    hint = "is this machine online? `fleet update --force` asks anew."
    called = File(argv[0]).name if "-m" not in argv else argv[argv.index("-m") + 1]
    try:
        done = subprocess.run(
            argv,
            cwd=sys.prefix,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise FleetError(f"{called} did not {doing} within {seconds:g} s", hint=hint) from error
    except OSError as error:
        raise FleetError(f"cannot start {argv[0]}: {error.strerror}") from error
    if done.returncode:
        raise FleetError(f"{called} could not {doing}: {_reason(done.stderr)}", hint=hint)
    return done


def _reason(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    last = (errors or lines or ["it did not say why"])[-1]
    return re.sub(r"\A(?:error|ERROR): *", "", last)[:300]
