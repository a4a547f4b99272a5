"""Folder trust dialogs of coders: fleet's worktrees are trusted in advance, so that agents do not stop to ask."""

import os
import shutil
from collections.abc import Mapping

from fleet.actions.tasks.rights import refuse_agents
from fleet.assembly import Fleet
from fleet.coders import CODERS, load
from fleet.coders.base import Coder
from fleet.coders.dialogs import trust_folder
from fleet.core.task import Caller
from fleet.supervisor.trust import NO, WORKTREES, YES


def unanswered(fleet: Fleet, *, env: Mapping[str, str]) -> list[str]:
    """Return the coders in use here that would ask and that the user has not decided about."""
    return [name for name in CODERS if _would_ask(load(name), env) and not fleet.store.trust.get(WORKTREES, name)]


def answer(
    fleet: Fleet, name: str, yes: bool, *, env: Mapping[str, str], by: str, caller: Caller | None = None
) -> None:
    """Store the user's answer. If the answer is yes, also write it to the coder's configuration. Raises FleetError."""
    refuse_agents(caller, "answer for a coder")
    coder = load(name)
    if yes:
        trust_folder(coder, coder.config_folder(env), fleet.home.worktrees)
    fleet.store.trust.set(WORKTREES, name, YES if yes else NO, by)


def _would_ask(coder: Coder, env: Mapping[str, str]) -> bool:
    """Return True if the coder is installed and its files exist. fleet does not create files that the coder has not."""
    is_installed = bool(coder.program) and shutil.which(coder.program, path=env.get("PATH")) is not None
    if coder.trusts_by_option:
        return is_installed
    files, folder = coder.trusted("/"), coder.config_folder(env)
    if not files or not folder or not is_installed:
        return False
    return all(os.path.isfile(os.path.join(folder, name)) for name in files)  # noqa: PTH113, PTH118
