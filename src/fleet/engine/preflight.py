"""What can be foreseen before an agent is started: where nobody can be logged in, nothing is begun."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fleet.core.errors import FleetError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fleet.coders.base import Coder


class NotLoggedIn(FleetError):
    """A coder that cannot work until a person logs in."""


def check_login(coder: Coder, env: Mapping[str, str]) -> None:
    """Raise NotLoggedIn where that is certain: no variable is set, and not even the folder of a login is there.

    A login may also lie in a keyring, or in settings that only the coder can read; it has a folder then, and the coder
    is asked.
    """
    signs = coder.login_signs(env)
    files = [sign for sign in signs if "/" in sign]
    told = any(env.get(sign) for sign in signs if "/" not in sign)
    if signs and not told and not any(os.path.isdir(os.path.dirname(file)) for file in files):  # noqa: PTH112, PTH120
        raise NotLoggedIn(
            f"nobody is logged in to {coder.name}: none of {', '.join(signs[:4])} is there",
            hint=f"log in with {coder.program or coder.name}; `fleet accounts unpark {coder.name}` tries at once.",
        )
