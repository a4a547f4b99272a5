"""The start commits of new branches, resolved from a branch, a tag, a commit, or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fleet.core.errors import FleetError
from fleet.git.branches import base_name, checked_base
from fleet.git.view import View

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fleet.git.repository import Repository
    from fleet.home import Home


def commits(home: Home, repository: Repository, bases: Iterable[str], *, cwd: str) -> dict[str, str | FleetError]:
    """Return the commit of each base, or the error for that base. Runs git once for all of them."""
    view = View(home, repository)
    found: dict[str, str | FleetError] = {}
    for base in dict.fromkeys(bases):
        try:
            found[base] = base_name(repository, base, cwd=cwd)
        except FleetError as error:
            found[base] = error
    asked = {base: name for base, name in found.items() if isinstance(name, str)}
    tips = view.resolve(*asked.values()) if asked else []
    for base, tip in zip(asked, tips, strict=True):
        try:
            found[base] = checked_base(repository, view, base, tip)
        except FleetError as error:
            found[base] = error
    return found


def commit(home: Home, repository: Repository, base: str, *, cwd: str) -> str:
    """Return the commit of one base. Raises FleetError."""
    found = commits(home, repository, [base], cwd=cwd)[base]
    if isinstance(found, FleetError):
        raise found
    return found
