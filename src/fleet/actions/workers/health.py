"""Health of the worker tools and guidance on coders, for agents that create workers."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from fleet import __version__
from fleet.actions.control.coders import coders
from fleet.actions.proof.stats import CoderStatistics
from fleet.actions.workers.warnings import warnings
from fleet.core.errors import FleetError
from fleet.settings import load
from fleet.supervisor.admission_inputs import unusable
from fleet.supervisor.lock import holder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from fleet.actions.control.coders import CoderStatus as Coder
    from fleet.actions.workers.terms import WorkerTerms
    from fleet.assembly import Fleet

#: The demo coder plays an agent and does no work. It is shown only if it is the default.
DEMO = "demo"
#: The coders that codefleet's callers look for by name.
EXECUTORS = ("codex", "gemini", "claude")
ADVICE = {
    "codex": "short, well-described changes, scripts, command lines; careful with tokens",
    "claude": "changes across many files, design, reviews, work that needs its own tests",
    "gemini": "a lot of code to read at once, user interfaces from pictures",
    "opencode": "any model with an API, local ones too",
}
RULES = (
    "let another coder review than the one that wrote it",
    "give each worker a `verify` command: what fleet itself has seen to pass counts, not what an agent says",
    "for work that may go either way, start two workers and compare their diffs",
)


def health(fleet: Fleet, terms: WorkerTerms, *, env: Mapping[str, str], trouble: str = "") -> dict[str, Any]:
    """Return whether workers can be created and run, with the fields of codefleet's healthcheck and any problems."""
    default = _default(fleet, terms)
    found = {each.name: each for each in coders(fleet, env=env) if each.name != DEMO or default == DEMO}
    told_of = warnings(fleet, {default})
    git = shutil.which("git", path=env.get("PATH"))
    note = holder(fleet.home)
    told: dict[str, Any] = {}
    for name in EXECUTORS:
        told |= _executor(name, found.get(name))
    return {
        "ok": bool(git) and not unusable(default, load(fleet.home, env=os.environ, lenient=True)) and not trouble,
        "app": "fleet",
        "version": __version__,
        "db_path": fleet.home.database,
        "base_dir": fleet.home.root,
        **told,
        "auth_check_mode": "local_artifact",
        "git_found": git is not None,
        "git_path": git or "",
        "default_executor": default,
        "default_model": terms.model("codex"),
        "default_gemini_model": terms.model("gemini"),
        "default_claude_model": terms.model("claude"),
        "default_timeout": terms.wall_seconds,
        "stale_timeout": terms.silence_seconds,
        "max_concurrent": terms.at_once,
        "max_spawn_depth": terms.depth,
        "supported_models": {name: [terms.model(name)] if terms.model(name) else [] for name in EXECUTORS},
        "allowed_repos": list(terms.repos),
        "coders": [
            {"name": each.name, "installed": each.is_installed, "warnings": each.warnings} for each in found.values()
        ],
        "warnings": told_of,
        "supervisor": {
            "running": note is not None,
            "pid": note.get("pid") if note else None,
            "trouble": trouble or None,
        },
    }


def guide(fleet: Fleet, terms: WorkerTerms, *, env: Mapping[str, str]) -> dict[str, Any]:
    """Return what each coder is good at, and its results in this home's receipts."""
    proven: dict[str, CoderStatistics] = {}
    for count in fleet.store.receipts.finding_counts():
        proven[count.coder] = proven.get(count.coder, CoderStatistics(coder=count.coder)).plus(count)
    told: dict[str, Any] = {}
    for name, advice in ADVICE.items():
        seen = proven.get(name)
        told[name] = {
            "model": terms.model(name) or None,
            "installed": shutil.which(name, path=env.get("PATH")) is not None,
            "best_for": advice,
            "seen_here": {"runs": seen.runs, "verified": seen.verified, "verified_rate": seen.verified_rate}
            if seen
            else None,
        }
    return {**told, "default_executor": _default(fleet, terms), "routing_rules": list(RULES)}


def _executor(name: str, found: Coder | None) -> dict[str, Any]:
    seen = found.logins[0] if found is not None and found.logins else None
    auth = "unknown" if seen is None or not seen.signs else "missing" if seen.is_missing else "found"
    return {
        f"{name}_found": found is not None and found.is_installed,
        f"{name}_path": found.path if found else "",
        f"{name}_version": found.version if found else "",
        f"{name}_auth_status": auth,
    }


def _default(fleet: Fleet, terms: WorkerTerms) -> str:
    try:
        return terms.coder("", load(fleet.home, env=os.environ, lenient=True))
    except FleetError as error:
        return f"none: {error}"
