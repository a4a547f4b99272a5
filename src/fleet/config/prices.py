"""What tokens cost: by the user's own prices, else by the table that fleet comes with."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import date

    from fleet.config.load import Settings
    from fleet.config.price_table import Rates
    from fleet.config.sections import Price

MILLION = 1_000_000
#: The user's own prices, as a run names what it was priced by.
OWN = "settings"


class Known(NamedTuple):
    """The price of a model, and where it stands: in the settings, or in the table of a day."""

    rates: Rates
    source: str


def price_of(settings: Settings, names: Sequence[str], day: date, *, size: int = 0) -> Known | None:
    """Return the price of a model that goes by any of these names, or None. The user's own price wins."""
    from fleet.config import price_table

    for name in names:
        price = _own(settings.prices, name)
        if price is not None and price.input is not None and price.output is not None:
            return Known(price_table.Rates(price.input, price.output, price.cache_read, price.cache_write), OWN)
    for name in names:
        if (found := price_table.rates(name, size, day)) is not None:
            return Known(found, price_table.made_on().isoformat())
    return None


def dollars(rates: Rates, input: int, output: int, cache_read: int, cache_write: int) -> float:
    """Return what these tokens cost; each is counted in one place only."""
    read = rates.input if rates.cache_read is None else rates.cache_read
    write = rates.input if rates.cache_write is None else rates.cache_write
    return (input * rates.input + output * rates.output + cache_read * read + cache_write * write) / MILLION


def _own(prices: Mapping[str, Price], model: str) -> Price | None:
    """The one under this very name, else under the first glob that fits."""
    return prices.get(model) or next((price for glob, price in prices.items() if fnmatchcase(model, glob)), None)
