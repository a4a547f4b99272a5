"""The table of prices that fleet comes with; `tools/prices.py` writes it. Import this only where a price is needed."""

from __future__ import annotations

import json
import os
import re
from datetime import date
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

#: Beyond this age the prices may be wrong.
OLD_DAYS = 180
_PLACE = os.path.join(os.path.dirname(__file__), os.pardir, "prices.json")  # noqa: PTH118, PTH120
#: What clouds and gateways put before and after a model's name, and a coder behind it for a long context.
_AFTER = re.compile(r"(\[\w+\]|:\d+)+$")
_BEFORE = re.compile(r"^(?:\w+\.)?anthropic\.")


class Rates(NamedTuple):
    """Dollars per million tokens; None: as input."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


def origin() -> str:
    """Return what the table was made from, such as "genai-prices 0.2.3"."""
    return str(_table()["from"])


def made_on() -> date:
    return date.fromisoformat(_table()["date"])


def described(today: date) -> str:
    """Return the table's origin and age in words, with a warning once it is old."""
    days = max(0, (today - made_on()).days)
    old = "; update fleet, or set [prices]" if days >= OLD_DAYS else ""
    return f"{origin()} of {made_on()}, {days} day{'' if days == 1 else 's'} old{old}"


def rates(model: str, size: int, day: date) -> Rates | None:
    """Return what tokens of a model cost on a day, in requests beyond `size` tokens; None if it is not in the table."""
    prices = _prices(model)
    if not prices:
        return None
    price = [each for each in prices if each.get("since", "") <= day.isoformat()][-1:] or prices[:1]
    found = price[0]["usd"]
    for start, *own in price[0].get("tiers", ()):
        found = own if size >= start else found
    return Rates(*found)


@lru_cache(256)  # agents name models
def _prices(model: str) -> list[dict[str, Any]]:
    bare = _AFTER.sub("", model.strip().lower())
    names = dict.fromkeys((model.lower(), bare, bare.rpartition("/")[2], _BEFORE.sub("", bare)))
    for name in names:
        for each in _table()["models"]:
            if name and _fits(each["match"], name):
                found: list[dict[str, Any]] = each["prices"]
                return found
    return []


@cache
def _table() -> dict[str, Any]:
    with open(_PLACE, encoding="utf-8") as file:  # noqa: PTH123
        found: dict[str, Any] = json.load(file)
    return found


def _fits(rule: list[Any], name: str) -> bool:
    sign, *parts = rule
    if sign in "|&":
        return (any if sign == "|" else all)(_fits(part, name) for part in parts)
    return _SIGNS[sign](name, parts[0])


_SIGNS: dict[str, Callable[[str, str], bool]] = {
    "=": lambda name, word: name == word.lower(),
    "^": lambda name, word: name.startswith(word.lower()),
    "$": lambda name, word: name.endswith(word.lower()),
    "*": lambda name, word: word.lower() in name,
    "~": lambda name, word: re.search(word, name) is not None,
}
