"""What tokens cost, by the prices in the settings."""

from collections.abc import Mapping
from fnmatch import fnmatchcase

from fleet.config.load import Settings
from fleet.config.sections import Price

MILLION = 1_000_000


def price_of(
    settings: Settings, model: str, *, input: int = 0, output: int = 0, cache_read: int = 0, cache_write: int = 0
) -> float | None:
    """The dollars that these tokens of a model cost, each counted in one place only; None where it has no price."""
    price = _price(settings.prices, model)
    if price is None or price.input is None or price.output is None:
        return None
    read = price.input if price.cache_read is None else price.cache_read
    write = price.input if price.cache_write is None else price.cache_write
    return (input * price.input + output * price.output + cache_read * read + cache_write * write) / MILLION


def _price(prices: Mapping[str, Price], model: str) -> Price | None:
    """The one under this very name, else under the first glob that fits."""
    return prices.get(model) or next((price for glob, price in prices.items() if fnmatchcase(model, glob)), None)
