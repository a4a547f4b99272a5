"""Telling the user's own coders that they may work where fleet makes worktrees, so that none of them stops to ask."""

import os
import shutil
from collections.abc import Mapping

from fleet.actions.rights import refuse_agents
from fleet.assembly import Fleet
from fleet.coders import CODERS, load
from fleet.coders.base import Coder
from fleet.coders.dialogs import trust_folder
from fleet.core.task import Caller

#: Under which kind the answers are on record.
KIND = "worktrees"
YES, NO = "yes", "no"


def unanswered(fleet: Fleet, *, env: Mapping[str, str]) -> list[str]:
    """The coders that would ask, are in use here, and about which the user was not asked yet."""
    return [name for name in CODERS if _would_ask(load(name), env) and not fleet.store.trust.get(KIND, name)]


def answer(
    fleet: Fleet, name: str, yes: bool, *, env: Mapping[str, str], by: str, caller: Caller | None = None
) -> None:
    """Keep the user's answer, and if it is yes, write it where the coder looks. Raises FleetError."""
    refuse_agents(caller, "answer for a coder")
    coder = load(name)
    if yes:
        trust_folder(coder, coder.config_folder(env), fleet.home.worktrees)
    fleet.store.trust.set(KIND, name, YES if yes else NO, by)


def _would_ask(coder: Coder, env: Mapping[str, str]) -> bool:
    """Whether it is installed and has been used: a file that it has not made itself is not made for it."""
    files, folder = coder.trusted("/"), coder.config_folder(env)
    if not files or not folder or not shutil.which(coder.program, path=env.get("PATH")):
        return False
    return all(os.path.isfile(os.path.join(folder, name)) for name in files)  # noqa: PTH113, PTH118
