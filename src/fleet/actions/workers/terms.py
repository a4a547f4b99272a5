"""Terms for workers: codefleet's variables and defaults, read from the environment of the creator."""

from __future__ import annotations

import math
import shutil
from typing import TYPE_CHECKING

from fleet import coders
from fleet.actions.tasks.bounds import DEEPEST, real
from fleet.core.errors import BadInput
from fleet.core.record import Record
from fleet.core.rules import MOST_TIMES, Rules
from fleet.settings import KEYS
from fleet.settings.check import check_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.settings import Settings

#: The variables that name a coder's model. Other coders use the model in the settings.
MODELS = {
    "codex": "FLEET_DEFAULT_MODEL",
    "gemini": "FLEET_GEMINI_DEFAULT_MODEL",
    "claude": "FLEET_CLAUDE_DEFAULT_MODEL",
}
#: The default coder, if it is installed.
USUAL = "codex"
MOST = 1_000_000


class WorkerTerms(Record):
    """The values of the variables. The executor or a model is empty if no variable names it."""

    executor: str = ""
    models: tuple[tuple[str, str], ...] = ()
    reasoning_effort: str = ""
    wall_seconds: float = 600.0
    silence_seconds: float = 120.0  # 0: off
    stale_restarts: int = 2
    at_once: int = 50
    depth: int = DEEPEST
    repos: tuple[str, ...] = ()
    rate_limit_retries: int = 3
    rate_limit_base_seconds: float = 4.0
    rate_limit_max_seconds: float = 60.0
    path: str = ""

    @classmethod
    def of(cls, env: Mapping[str, str]) -> WorkerTerms:
        """Return the terms in this environment. Raises BadInput for an invalid value."""
        repos = (part.strip() for part in env.get("FLEET_ALLOWED_REPOS", "").split(","))
        return cls(
            executor=env.get("FLEET_DEFAULT_EXECUTOR", ""),
            models=tuple((coder, env[name]) for coder, name in MODELS.items() if env.get(name)),
            reasoning_effort=env.get("FLEET_REASONING_EFFORT", ""),
            wall_seconds=_seconds(env, "FLEET_DEFAULT_TIMEOUT", 600.0, least=0.1),
            silence_seconds=_seconds(env, "FLEET_STALE_TIMEOUT", 120.0),
            stale_restarts=_count(env, "FLEET_STALE_MAX_RESTARTS", 2, most=MOST_TIMES),
            at_once=_count(env, "FLEET_MAX_CONCURRENT", 50, least=1),
            depth=_count(env, "FLEET_MAX_SPAWN_DEPTH", DEEPEST),
            repos=tuple(real(part) for part in repos if part),
            rate_limit_retries=_count(env, "FLEET_RATE_LIMIT_MAX_RETRIES", 3, most=MOST_TIMES),
            rate_limit_base_seconds=_seconds(env, "FLEET_RATE_LIMIT_BASE_DELAY", 4.0),
            rate_limit_max_seconds=_seconds(env, "FLEET_RATE_LIMIT_MAX_DELAY", 60.0),
            path=env.get("PATH", ""),
        )

    def coder(self, said: str, settings: Settings) -> str:
        """Return the coder named by the caller or the variable, else codex if installed, else the settings' coder.

        Raises BadInput for an unknown coder.
        """
        name = said or self.executor
        if not name:
            name = USUAL if shutil.which(USUAL, path=self.path or None) else settings.coder
        return coders.known(name, described=settings.coders)

    def model(self, coder: str) -> str:
        """Return the model that a variable names for a coder. Return "" if none does."""
        return dict(self.models).get(coder, "")

    def rules(self) -> Rules:
        """Return the rules of a worker. As in codefleet, failures are not retried, but silence and rate limits are."""
        return Rules(
            depth=self.depth,
            repos=self.repos,
            at_once=self.at_once,
            retries=0,
            stale_restarts=self.stale_restarts,
            rate_limit_retries=self.rate_limit_retries,
            rate_limit_base_seconds=self.rate_limit_base_seconds,
            rate_limit_max_seconds=self.rate_limit_max_seconds,
            reasoning_effort=self.reasoning_effort,
        )

    def task_rules(self, rules: Rules) -> Rules:
        """Return the rules of a plain task, derived from a worker's rules.

        Its rate limit pauses need an explicit variable.
        """
        named = ("rate_limit_retries", "rate_limit_base_seconds", "rate_limit_max_seconds")
        usual = WorkerTerms()
        said = {name: getattr(self, name) for name in named if getattr(self, name) != getattr(usual, name)}
        return Rules(depth=rules.depth, repos=rules.repos, **said)

    def limits(self, timeout_seconds: float | None) -> dict[str, float]:
        """Return the time limits of an agent, by the watchdog's names. Raises BadInput for an invalid time."""
        wall = self.wall_seconds if timeout_seconds is None else float(timeout_seconds)
        check_value(KEYS["watchdog", "wall_seconds"], wall)
        # 0 means that silence never ends the agent, not even before its first event.
        quiet = {} if self.silence_seconds else {"first_event_seconds": 0.0}
        return {"wall_seconds": wall, "silence_seconds": self.silence_seconds, **quiet}


def _seconds(env: Mapping[str, str], name: str, usual: float, *, least: float = 0.0) -> float:
    said = env.get(name, "").strip()
    if not said:
        return usual
    try:
        number = float(said)
    except ValueError:
        number = math.nan
    if not least <= number <= MOST:
        raise BadInput(
            f"{name}={said[:40]!r} is not a number of seconds from {least:g} to {MOST}", hint=f"set it to {usual:g}"
        )
    return number


def _count(env: Mapping[str, str], name: str, usual: int, *, least: int = 0, most: int = MOST) -> int:
    said = env.get(name, "").strip()
    if not said:
        return usual
    if not (said.isascii() and said.isdecimal() and len(said) <= 7 and least <= int(said) <= most):
        raise BadInput(f"{name}={said[:40]!r} is not a whole number from {least} to {most}", hint=f"set it to {usual}")
    return int(said)
