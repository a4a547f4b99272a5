"""Logins of coders: the signs of each, whether it is missing, and parks that end once it is there.

A login is judged by the names of variables and by files, never by a value. It may also be in a keyring that only the
coder can read, so a missing sign is a hint, and only the coder's own refusal parks an account.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from fleet import coders
from fleet.core.accounts import NO_SIGN, is_parked, needs_login
from fleet.core.clock import now
from fleet.core.errors import FleetError
from fleet.core.ids import sha256
from fleet.settings import accounts_for, config_folder, env_for
from fleet.supervisor.run.environment import ALLOWED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from fleet.coders.base import Coder
    from fleet.core.run import Account
    from fleet.settings import Settings
    from fleet.settings.sections import AccountSettings

#: Placeholder for a secret that a command would print. Only its presence matters here.
TOLD = "told by a command"
MOST_SIGNS = 4
#: How often a supervisor looks for logins of parked accounts, and of the coders of waiting tasks.
LOOK_SECONDS = 2.0


class NotLoggedIn(FleetError):
    """A coder that cannot work until a user logs in."""


class Login(NamedTuple):
    """The login state of an account, judged by its first sign: the name of a variable or file, never a value."""

    account: str  # empty: the user's own login
    signs: tuple[str, ...]  # empty: no login is needed, or none can be detected
    seen: str
    mark: str = ""  # changes with the variables and files that were seen

    @property
    def is_missing(self) -> bool:
        return bool(self.signs) and not self.seen

    @property
    def in_words(self) -> str:
        """Return that no login was found, and the signs that are missing."""
        return f"{NO_SIGN} {', '.join(self.signs[:MOST_SIGNS])} exists"


def login(coder: Coder, env: Mapping[str, str], account: str = "") -> Login:
    """Return the login state of an agent with this environment."""
    signs = coder.login_signs(env)
    found = {sign: mark for sign in signs if (mark := _mark(sign, env))}
    return Login(account, signs, next(iter(found), ""), repr(found))


def logins(settings: Settings, coder: Coder, env: Mapping[str, str]) -> Iterator[Login]:
    """Yield the login of each account of a coder, or of the user if the coder has no accounts."""
    accounts = accounts_for(settings, coder.name)
    for account in accounts:
        yield login(coder, _agents_env(settings, coder, env, account), account.name)
    if not accounts:
        yield login(coder, _agents_env(settings, coder, env, None))


class NoLogin(NamedTuple):
    """A coder's account that seems to have no login."""

    coder: str
    account: str
    why: str


def missing_logins(
    settings: Settings, names: Iterable[str], env: Mapping[str, str], known: Sequence[Account]
) -> list[NoLogin]:
    """Return the coders and accounts that seem to have no login, and why.

    Leave out accounts that were used: the coder itself has told whether it has a login.
    """
    used = {(each.coder, each.name) for each in known if each.used_at is not None}
    found = []
    for name in sorted(names):
        with contextlib.suppress(Exception):  # a coder that does not load, or fails, is reported at its start
            coder = coders.load(name, settings)
            for each in logins(settings, coder, env):
                if each.is_missing and (name, each.account) not in used and not _in_a_keyring(each):
                    who = f"{name}/{each.account}" if each.account else name
                    found.append(NoLogin(name, each.account, f"{who} {each.in_words}"))
    return found


def check_login(coder: Coder, env: Mapping[str, str]) -> None:
    """Raise NotLoggedIn if it is certain: no variable is set, and even the folder of a login is missing.

    A login may also be in a keyring or in settings that only the coder can read. In that case the folder exists, and
    the coder itself decides.
    """
    signs = coder.login_signs(env)
    told = any(env.get(sign) for sign in signs if "/" not in sign)
    if signs and not told and not _has_folder(signs):
        raise NotLoggedIn(
            f"{coder.name} {NO_SIGN} {', '.join(signs[:MOST_SIGNS])} exists",
            hint=f"log in with {coder.program or coder.name}, then run `fleet accounts unpark {coder.name}`",
        )


class LoginWatch:
    """A supervisor's view of logins, in its own environment."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env, self._began_at = env, now()
        self._look_at = 0.0
        self._marks: dict[tuple[str, str], tuple[datetime | None, str]] = {}

    def missing(self, settings: Settings, names: Iterable[str], known: Sequence[Account]) -> list[NoLogin] | None:
        """Return the coders and accounts that seem to have no login, every two seconds. Return None in between."""
        if time.monotonic() < self._look_at:
            return None
        self._look_at = time.monotonic() + LOOK_SECONDS
        return missing_logins(settings, names, self._env, known)

    def appeared(self, settings: Settings, known: Sequence[Account], at: datetime) -> list[Account]:
        """Return the accounts that are parked for a missing login and whose login has appeared or changed since."""
        parked = [each for each in known if is_parked(each, at) and needs_login(each)]
        marks = {(each.coder, each.name): self._marks.get((each.coder, each.name)) for each in parked}
        found = []
        for each in parked:
            key, seen = (each.coder, each.name), self._login(settings, each)
            before = marks[key]
            if before is None or before[0] != each.used_at:  # a new park
                is_new = self._is_later(each, seen)
            else:
                is_new = before[1] != seen.mark
            self._marks[key] = (each.used_at, seen.mark)
            found += [each] if seen.seen and is_new else []
        self._marks = {key: self._marks[key] for key in marks}
        return found

    def _is_later(self, account: Account, seen: Login) -> bool:
        """Return True if the account's last run surely did not have the login that is there now."""
        if NO_SIGN in account.parked_reason:
            return True  # no sign was there
        if account.used_at is None or account.used_at >= self._began_at or not seen.seen.startswith("/"):
            return False
        try:
            return os.stat(seen.seen).st_mtime > account.used_at.timestamp()  # noqa: PTH116
        except OSError:
            return False

    def _login(self, settings: Settings, account: Account) -> Login:
        with contextlib.suppress(Exception):  # as above
            for each in logins(settings, coders.load(account.coder, settings), self._env):
                if each.account == account.name:
                    return each
        return Login(account.name, (), "")


def _mark(sign: str, env: Mapping[str, str]) -> str:
    """Return a mark of a variable's value or of a file. Return "" if it is not there."""
    if not sign.startswith("/"):
        return sha256(env[sign].encode(errors="replace"))[:16] if env.get(sign) else ""
    try:
        found = os.stat(sign)  # noqa: PTH116 - paths of programs are strings
    except OSError:
        return ""
    return f"{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"


def _in_a_keyring(found: Login) -> bool:
    """Return True if a login may be in a keyring of this system, of which no file tells."""
    return sys.platform == "darwin" and _has_folder(found.signs)


def _has_folder(signs: Sequence[str]) -> bool:
    return any(os.path.isdir(os.path.dirname(sign)) for sign in signs if "/" in sign)  # noqa: PTH112, PTH120


def _agents_env(
    settings: Settings, coder: Coder, env: Mapping[str, str], account: AccountSettings | None
) -> dict[str, str]:
    """Return the part of an agent's environment that can contain a login."""
    globs = (*ALLOWED, *coder.reads_env, *settings.agent.pass_env)
    found = {name: value for name, value in env.items() if any(fnmatchcase(name, glob) for glob in globs)}
    found |= env_for(settings, coder.name)
    if account is not None:
        found |= coder.config_env(config_folder(account)) if account.config_dir else {}
        found |= {**account.env, **dict.fromkeys(account.secrets, TOLD)}
    return found
