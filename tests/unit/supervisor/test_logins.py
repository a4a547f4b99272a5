"""Logins: which are missing, and which parks end because a login has appeared."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from fleet.core.clock import now
from fleet.core.run import Account
from fleet.home import Home
from fleet.settings import Settings, load
from fleet.supervisor.logins import LoginWatch, missing_logins

HOUR = timedelta(hours=1)


def settings(tmp_path: Path) -> Settings:
    return load(Home(str(tmp_path / "home")), env={}, lenient=True)


def credentials(tmp_path: Path) -> Path:
    """Create the file that claude's /login creates, under this HOME."""
    file = tmp_path / ".claude" / ".credentials.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text("{}")
    return file


def parked(reason: str = "auth limit: 401", **said: Any) -> Account:
    told: dict[str, Any] = {"parked_until": now() + HOUR, "used_at": now() - HOUR, "parked_reason": reason, **said}
    return Account(coder="claude", **told)


def test_login_is_missing_until_a_variable_or_file_exists(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    (found,) = missing_logins(settings(tmp_path), ["claude", "demo", "no.such:Coder"], env, ())
    assert (found.coder, found.account) == ("claude", "") and "ANTHROPIC_API_KEY" in found.why
    assert not missing_logins(settings(tmp_path), ["claude"], {**env, "ANTHROPIC_API_KEY": "x"}, ())
    assert not missing_logins(settings(tmp_path), ["claude"], env, [Account(coder="claude", used_at=now())])
    credentials(tmp_path)
    assert not missing_logins(settings(tmp_path), ["claude"], env, ())


def test_park_ends_when_its_login_appears_and_only_once(tmp_path: Path) -> None:
    watch, known = LoginWatch({"HOME": str(tmp_path)}), [parked()]
    assert watch.appeared(settings(tmp_path), known, now()) == []
    credentials(tmp_path)
    assert watch.appeared(settings(tmp_path), known, now()) == known
    assert watch.appeared(settings(tmp_path), known, now()) == []


def test_login_that_was_refused_does_not_end_its_park_until_it_changes(tmp_path: Path) -> None:
    file = credentials(tmp_path)
    os.utime(file, (0, 0))
    watch, known = LoginWatch({"HOME": str(tmp_path)}), [parked()]
    for _ in range(2):
        assert watch.appeared(settings(tmp_path), known, now()) == []
    file.write_text('{"new": true}')
    assert watch.appeared(settings(tmp_path), known, now()) == known


def test_login_that_came_while_no_supervisor_ran_ends_the_park(tmp_path: Path) -> None:
    credentials(tmp_path)
    for reason in ("auth limit: 401", "claude is not logged in: none of KEY exists"):
        known = [parked(reason)]
        assert LoginWatch({"HOME": str(tmp_path)}).appeared(settings(tmp_path), known, now()) == known


def test_other_parks_do_not_end_early(tmp_path: Path) -> None:
    watch, known = LoginWatch({"HOME": str(tmp_path)}), [parked("plan limit: 5 h"), parked(parked_until=None)]
    assert watch.appeared(settings(tmp_path), known, now()) == []
    credentials(tmp_path)
    assert watch.appeared(settings(tmp_path), known, now()) == []
