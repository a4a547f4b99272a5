"""Updates of fleet with the installer that installed it, after a check: another project has fleet's name on PyPI."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata, util
from importlib.metadata import Distribution
from pathlib import Path as File
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from fleet.core.errors import FleetError

NAME = "fleet-agents"
PIP, PIPX, UV, UV_TOOL = "pip", "pipx", "uv", "uv tool"
SCRIPTS = {"fleet": "fleet.__main__:main", "flt": "fleet.__main__:main"}
PACKAGE = File(__file__).resolve().parents[2]
INSTALLING_SECONDS = 900.0
HINT = "install it again from a clone, e.g. `uv tool install '.[mcp]'`"
_WANTED = re.compile(r"""([\w.-]+).*;\s*extra\s*==\s*['"]([\w.-]+)['"]\s*\Z""", re.DOTALL)


class Installation(NamedTuple):
    """The way this fleet was installed."""

    by: str
    clone: str = ""
    """The folder that fleet was installed from. Empty for an index or a remote repository."""
    is_editable: bool = False
    source: str = ""
    """The remote repository, as pip writes it."""
    extras: tuple[str, ...] = ()


def installation() -> Installation:
    """Return how the running fleet was installed. Raises FleetError if the distribution is not fleet's own."""
    try:
        found = metadata.distribution(NAME)
    except metadata.PackageNotFoundError:
        raise FleetError(f"cannot update: {sys.prefix} has no distribution {NAME}", hint=HINT) from None
    in_prefix = [path.name for path in File(sys.prefix).iterdir()]
    made = judge(found.read_text("direct_url.json") or "", found.read_text("INSTALLER") or "", in_prefix)
    reason = why_foreign(found, made)
    if reason:
        raise FleetError(f"cannot update: {reason}", hint=HINT)
    return made._replace(extras=installed_extras(found))


def why_foreign(found: Distribution, made: Installation) -> str:
    """Return why this distribution is not the running fleet. Return "" if it is."""
    scripts = {each.name: each.value for each in found.entry_points if each.group == "console_scripts"}
    if scripts != SCRIPTS:
        return f"the commands of the distribution {NAME} do not belong to fleet"
    if made.is_editable:
        is_running = PACKAGE.is_relative_to(File(made.clone).resolve())
    else:
        is_running = File(str(found.locate_file("fleet"))).resolve() == PACKAGE
    if not is_running:
        return f"the running fleet is in {PACKAGE}, not in the distribution {NAME}"
    if made.by in (PIPX, UV_TOOL) and not File(sys.prefix).name.startswith(NAME):
        return f"fleet is a part of the {made.by} environment {sys.prefix}of another program"
    return ""


def judge(origin: str, installer: str, in_prefix: list[str]) -> Installation:
    """Return the installation, judged by the installers' marks in the package and at the top of its environment.

    Raises FleetError if it came from a file, which has no newer version.
    """
    by = UV if installer.strip() == "uv" else PIP
    if "uv-receipt.toml" in in_prefix:
        by = UV_TOOL
    elif "pipx_metadata.json" in in_prefix:
        by = PIPX
    direct: dict[str, Any] = json.loads(origin) if origin else {}
    url = str(direct.get("url") or "")
    if "dir_info" in direct:
        folder = unquote(urlsplit(url).path)
        return Installation(by, folder, bool(direct["dir_info"].get("editable")))
    if "vcs_info" in direct:
        vcs = direct["vcs_info"]
        at = vcs.get("requested_revision")
        return Installation(by, source=f"{vcs['vcs']}+{url}{f'@{at}' if at else ''}")
    if direct:
        raise FleetError(
            f"cannot update: fleet was installed from the file {url}", hint=f"install a newer one with {by}"
        )
    return Installation(by)


def installed_extras(found: Distribution) -> tuple[str, ...]:
    """Return the extras of a distribution whose requirements are all installed."""
    wanted: dict[str, list[str]] = {}
    for line in found.requires or []:
        fits = _WANTED.match(line)
        if fits:
            wanted.setdefault(fits[2], []).append(fits[1])
    return tuple(extra for extra, names in wanted.items() if all(map(_is_installed, names)))


def commands(how: Installation) -> list[list[str]]:
    """Return the commands that update this installation. Raises FleetError if it came from a folder without git."""
    return [*_pulling(how), _upgrading(how)]


def run(argvs: list[list[str]]) -> str:
    """Run an installer's commands. Return the version that is installed now. Raises FleetError."""
    for argv in argvs:
        program = shutil.which(argv[0])
        if program is None:
            raise FleetError(f"cannot update: {argv[0]} is not on PATH", hint=f"put {argv[0]} on PATH")
        try:
            # Not in the user's directory: its files could be settings of an installer.
            done = subprocess.run(
                [program, *argv[1:]], cwd=sys.prefix, stdin=subprocess.DEVNULL, timeout=INSTALLING_SECONDS, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise FleetError(f"cannot update: {error}") from error
        if done.returncode:
            raise FleetError(f"cannot update: {File(argv[0]).name} failed with exit code {done.returncode}")
    asking = [sys.executable, "-P", "-m", "fleet", "--version"]
    said = subprocess.run(asking, cwd=sys.prefix, capture_output=True, text=True, errors="replace", check=False)
    if said.returncode:
        raise FleetError("the installed fleet does not start", hint=HINT)
    return said.stdout.strip().removeprefix("fleet").strip()


def _pulling(how: Installation) -> Iterator[list[str]]:
    if not how.clone:
        return
    if not File(how.clone, ".git").exists():
        raise FleetError(f"cannot update: fleet was installed from {how.clone}, which is not a clone", hint=HINT)
    yield ["git", "-C", how.clone, "pull", "--ff-only"]


def _upgrading(how: Installation) -> list[str]:
    if how.by == UV_TOOL:
        return ["uv", "tool", "upgrade", *(["--reinstall-package", NAME] if how.clone else []), NAME]
    if how.by == PIPX:
        return ["pipx", "upgrade", File(sys.prefix).name]
    extras = f"[{','.join(how.extras)}]" if how.extras else ""
    wanted = [f"{how.clone or NAME}{extras}{f' @ {how.source}' if how.source else ''}"]
    if how.is_editable:
        wanted.insert(0, "--editable")
    if how.by == UV or not util.find_spec("pip"):
        which = "--reinstall-package" if how.clone else "--upgrade-package"
        return ["uv", "pip", "install", "--python", sys.executable, which, NAME, *wanted]
    return [sys.executable, "-P", "-m", "pip", "install", "--upgrade", *wanted]


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True
