"""Token prices: from the user's settings, else from fleet's built-in table."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from fleet.settings.load import Settings
    from fleet.settings.price_table import Rates
    from fleet.settings.sections import Price

MILLION = 1_000_000
#: The user's own prices, as named in a run's price source.
OWN = "settings"


class KnownPrice(NamedTuple):
    """The price of a model and its source: the settings, or the table of a date."""

    rates: Rates
    source: str


def price_of(settings: Settings, names: Sequence[str], day: date, *, size: int = 0) -> KnownPrice | None:
    """Return the price of a model known by any of these names. Return None if it has no price.

    The user's own price has priority.
    """
    from fleet.settings import price_table

    for name in names:
        price = _find_own_price(settings.prices, name)
        if price is not None and price.input is not None and price.output is not None:
            return KnownPrice(price_table.Rates(price.input, price.output, price.cache_read, price.cache_write), OWN)
    for name in names:
        if (found := price_table.rates(name, size, day)) is not None:
            return KnownPrice(found, price_table.read_table_date().isoformat())
    return None


def dollars(rates: Rates, input: int, output: int, cache_read: int, cache_write: int) -> float:
    """Return the cost of these tokens. Each token must be counted in one category only."""
    read = rates.input if rates.cache_read is None else rates.cache_read
    write = rates.input if rates.cache_write is None else rates.cache_write
    return (input * rates.input + output * rates.output + cache_read * read + cache_write * write) / MILLION


def _find_own_price(prices: Mapping[str, Price], model: str) -> Price | None:
    """Return the user's price for this exact name, else for the first matching glob."""
    return prices.get(model) or next((price for glob, price in prices.items() if fnmatchcase(model, glob)), None)
