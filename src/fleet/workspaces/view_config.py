"""The settings of fleet's view of a repository: fleet's own, and those of the user that run nothing."""

# ruff: noqa: PTH111, PTH117
from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError

if TYPE_CHECKING:
    from collections.abc import Mapping

HEADLINE = "# Written by fleet: what git obeys when fleet looks at this repository.\n"
OWN = {
    "core.bare": "true",
    "core.logAllRefUpdates": "always",
    "core.quotePath": "false",
    "core.autocrlf": "false",
    "core.safecrlf": "false",
    "user.name": "fleet",
    "user.email": "fleet@localhost",
    "commit.gpgSign": "false",
}
#: Settings that affect bytes and paths, and their allowed values.
BOOLEAN = ("true", "false")
TAKEN_OVER = {
    "core.ignorecase": BOOLEAN,
    "core.filemode": BOOLEAN,
    "core.symlinks": BOOLEAN,
    "core.precomposeunicode": BOOLEAN,
    "core.autocrlf": (*BOOLEAN, "input"),
    "core.eol": ("lf", "crlf", "native"),
}
#: Git's spellings of true and false.
SPELLINGS = {"yes": "true", "on": "true", "1": "true", "": "true", "no": "false", "off": "false", "0": "false"}
#: The settings that `git lfs install` writes, the second with --skip-smudge. Other filters of this name are not LFS.
LFS = {
    "filter.lfs.clean": ("git-lfs clean -- %f",),
    "filter.lfs.smudge": ("git-lfs smudge -- %f", "git-lfs smudge --skip -- %f"),
    "filter.lfs.process": ("git-lfs filter-process", "git-lfs filter-process --skip"),
}
_FORMATS = {"core.repositoryFormatVersion": ("0", "1"), "extensions.objectFormat": ("sha256",)}
#: A setting in the format of `_lines`.
_WRITTEN = re.compile(r'\[([a-z]+)(?: "([a-z]+)")?\]\n\t([A-Za-z]+) = "((?:[^"\\\n]|\\["\\])*)"\n')
#: A line in a view's settings that means that LFS needs its store there.
NEEDS_LFS = '[filter "lfs"]'


def config_text(listed: str, *, top: str) -> str:
    """Return the view's settings for the output of `git config --null --list` in the repository. Raises FleetError."""
    theirs = _settings(listed)
    if theirs.get("extensions.refstorage", "files") != "files":
        raise FleetError(
            f"{top} keeps its refs in the form {theirs['extensions.refstorage']!r}, which fleet cannot read",
            hint="`git refs migrate --ref-format=files` changes it.",
        )
    ours = OWN | _taken_over(theirs) | _lfs(theirs)
    sha256 = theirs.get("extensions.objectformat") == "sha256"
    ours["core.repositoryFormatVersion"] = "1" if sha256 else "0"
    if sha256:
        ours["extensions.objectFormat"] = "sha256"
    return HEADLINE + "".join(_lines(key, value) for key, value in sorted(ours.items()))


def is_fleets(text: str) -> bool:
    """Return True if the settings of a view are exactly as fleet writes them, without changes by others."""
    if not text.startswith(HEADLINE):
        return False
    body = text[len(HEADLINE) :]
    values: dict[str, str] = {}
    for head, sub, name, quoted in _WRITTEN.findall(body):
        key = f"{head}.{sub}.{name}" if sub else f"{head}.{name}"
        values[key] = quoted.replace('\\"', '"').replace("\\\\", "\\")
    if "".join(_lines(key, value) for key, value in sorted(values.items())) != body:
        return False
    lfs = {key: value for key, value in values.items() if key.startswith("filter.")}
    return (
        OWN.keys() <= values.keys()
        and (not lfs or lfs == _lfs(lfs))
        and all(key in lfs or _may_be(key, value) for key, value in values.items())
    )


def _may_be(key: str, value: str) -> bool:
    if key == "core.excludesFile":
        return os.path.isabs(value) and value.isprintable()
    return value == OWN.get(key) or value in {**TAKEN_OVER, **_FORMATS}.get(key, ())


def _settings(listed: str) -> dict[str, str]:
    entries = (entry.partition("\n") for entry in listed.split("\0") if entry)
    return {key: value for key, _, value in entries}


def _taken_over(theirs: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for key, allowed in TAKEN_OVER.items():
        value = theirs.get(key, "-").lower()
        value = SPELLINGS.get(value, value)
        if value in allowed:
            found[key] = value
    excludes = os.path.expanduser(theirs.get("core.excludesfile", ""))
    if os.path.isabs(excludes) and excludes.isprintable():
        found["core.excludesFile"] = excludes
    return found


def _lfs(theirs: Mapping[str, str]) -> dict[str, str]:
    if any(theirs.get(key) not in allowed for key, allowed in LFS.items()):
        return {}
    return {key: theirs[key] for key in LFS} | {"filter.lfs.required": "true"}


def _lines(key: str, value: str) -> str:
    section, _, name = key.rpartition(".")
    head, _, sub = section.partition(".")
    title = f'{head} "{sub}"' if sub else head
    quoted = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'[{title}]\n\t{name} = "{quoted}"\n'
